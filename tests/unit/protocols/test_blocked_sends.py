"""What waits at a gate, in every protocol."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import INDIVIDUAL
from engine.limits.parked_producers import BlockLimit
from engine.sources.composite import Composite
from engine.sources.identified import identified
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from protocols.blocked_sends import BlockedSend, BlockedSends, addresses_of, kept_bytes, send_paced
from protocols.stomp.codec.frames import SEND, Frame, Head
from protocols.stomp.session.send_command import FRAME_OVERHEAD_BYTES, frame_bytes
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.protocols.stomp_gateway import Peer, StompGateway


def blocked(peer: Peer, pause_bytes: int = 100, most_bytes: int = 1_000) -> BlockedSends[BlockedSend]:
    return BlockedSends(peer.session, BlockLimit(pause_bytes, most_bytes))


def test_what_waits_comes_back_in_order_and_leaves_nothing_behind() -> None:
    peer = StompGateway().connect()
    waiting = blocked(peer)
    destinations = peer.gateway.broker.destinations
    a, b, c = destinations.queue("a"), destinations.queue("b"), destinations.topic("c")
    first, second = BlockedSend(addresses_of(a), 5), BlockedSend(addresses_of(Composite([b, a])), 7)
    waiting.add(first)
    waiting.add(second)
    assert waiting.addresses == {"queue://a", "queue://b"}
    assert [waiting.holds(one) for one in (a, b, c, Composite([c, a]))] == [True, True, False, True]
    assert waiting.size_bytes == 12
    assert peer.session.is_holding
    assert waiting.take_all() == [first, second]
    assert (waiting.waiting, waiting.size_bytes, waiting.addresses) == ([], 0, set())


def test_one_that_only_waits_behind_others_waits_at_no_gate_of_its_own() -> None:
    peer = StompGateway().connect()
    waiting = blocked(peer)
    queue = peer.gateway.queue("a")
    assert waiting.park(BlockedSend(addresses_of(queue), 5), queue, gates.OPEN)
    assert peer.gateway.reason(peer) == ""
    assert waiting.park(BlockedSend(addresses_of(queue), 5), queue, gates.STORE)
    assert peer.gateway.reason(peer) == "store: queue://a"


def test_the_kept_part_of_a_duplicate_id_counts() -> None:
    queue = StompGateway().queue("a")
    assert kept_bytes(queue) == kept_bytes(None) == 0
    assert kept_bytes(identified(queue, "1")) == identified(queue, "1").memory_bytes()


def test_one_that_is_too_much_does_not_wait() -> None:
    peer = StompGateway().subscriber("/queue/in")
    waiting = blocked(peer)
    queue = peer.gateway.queue("a")
    assert waiting.park(BlockedSend([], 600), queue, gates.STORE)
    assert not waiting.park(BlockedSend([], 401), queue, gates.STORE)
    assert waiting.size_bytes == 600
    assert peer.link.is_reading


@pytest.mark.parametrize(
    ("has_consumers", "waiting", "more", "is_taken", "is_paused"),
    [
        (False, 0, 99, True, False),
        (False, 0, 100, True, True),
        (False, 99, 5_000, True, True),
        (True, 0, 5_000, True, False),  # a single one could never be sent otherwise
        (True, 1, 999, True, False),
        (True, 1, 1_000, False, False),
    ],
)
def test_who_is_paused_and_who_is_refused(
    has_consumers: bool, waiting: int, more: int, is_taken: bool, is_paused: bool
) -> None:
    peer = StompGateway().connect()
    if has_consumers:
        peer.subscribe("/queue/in")
    sends = blocked(peer)
    queue = peer.gateway.queue("a")
    sends.add(BlockedSend([], waiting))
    assert sends.park(BlockedSend([], more), queue, gates.STORE) == is_taken
    assert peer.link.is_reading != is_paused
    assert sends.is_low() == (sends.size_bytes < 100)


def test_heads_and_receipts_of_frames_count() -> None:
    one = Frame(SEND, Head(SEND, {"ab": "cd"}, -1, b"ab:cd\n"), b"r1", None, b"body")
    assert frame_bytes(one) == FRAME_OVERHEAD_BYTES + 4 + 6 + 2 + 4


# -- rates


@pytest.mark.parametrize("names", [["q"], ["other", "q"]], ids=["alone", "composite"])
def test_a_message_that_another_gate_refuses_counts_for_no_rate(names: list[str]) -> None:
    limits = {"flow__producer_max_rate_per_second": 2, "full__max_size_messages": 1}
    world = EngineWorld(address("q", full__address_full_policy="BLOCK", **limits))
    parts: list[Queue | Topic] = [world.queue(name) for name in names]
    destination = Composite(parts) if len(parts) > 1 else parts[0]
    client = world.client()
    consumer = world.subscriber(ack_mode=INDIVIDUAL)

    def send() -> int:
        return send_paced(world.broker, client, world.queue("q"), destination, world.message(parts[0], b"body"))

    assert send() == gates.OPEN
    assert [send() for _ in range(3)] == [gates.ADDRESS_FULL] * 3
    world.turn()
    world.acknowledge(*consumer.take())
    world.turn()
    assert [send(), send()] == [gates.OPEN, gates.RATE]


def test_a_message_for_which_credit_was_granted_counts_for_the_rate() -> None:
    limits = {"flow__producer_max_rate_per_second": 2, "full__max_size_messages": 1}
    world = EngineWorld(address("q", full__address_full_policy="BLOCK", **limits))
    client, queue = world.client(), world.queue("q")

    def send() -> int:
        return send_paced(world.broker, client, queue, queue, world.message(queue, b"body"))

    assert [send(), send()] == [gates.OPEN, gates.ADDRESS_FULL]
    assert world.broker.send_granted(client, queue, world.message(queue, b"body")) == gates.OPEN
    assert send() == gates.RATE
