"""Whatever a peer sends, in whatever order: it ends frames, links, sessions or its connection, never the gateway."""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.delivery_states import Accepted, Modified, Rejected, Released, State, TransactionalState
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.values import Described, Symbol, UInt, ULong
from tests.support.engine.engine_world import address
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, capabilities, text

VALUE = b"\x00\x53\x77"
OUTCOMES = (
    Accepted(),
    Rejected(),
    Released(),
    Modified(True),
    Modified(False, True),
    Modified(True, True),
    Modified(message_annotations={Symbol("x-opt-seen"): UInt(1)}),
)
SOURCES = (
    None,
    Source(),
    Source("q"),
    Source("q", distribution_mode=Symbol("copy")),
    Source("q.>"),
    Source(">"),
    Source("topic://t"),
    Source("q,topic://t"),
    Source("full"),
    Source(dynamic=True),
    Source("t", UInt(2), Symbol("never"), capabilities=capabilities("topic")),
    Source("t.>", UInt(2), Symbol("never"), capabilities=capabilities("topic")),
    Source("t", UInt(2), Symbol("never"), capabilities=capabilities("topic", "shared", "global")),
    Source("t", capabilities=capabilities("topic", "shared")),
    Source("q?consumer.exclusive=true"),
    Source("q", filter={Symbol("f"): Described(ULong(0x468C00000004), "JMSPriority > 3")}),
)
TARGETS = (
    None,
    Target(),
    Target("q"),
    Target("topic://t"),
    Target("q,topic://t"),
    Target("full"),
    Target("full,q"),
    Target("t", capabilities=capabilities("topic")),
    Target(dynamic=True),
    Target("q*"),
    Coordinator(),
)
MESSAGES = (text("a"), text("b", durable=True), b"\x00\x53\x73\xc0\x06\x03\x40\x40\xa1\x01q" + text("c"), b"junk")
STEPS = 60


def a_state(random: Random) -> State | None:
    outcome = random.choice((None, *OUTCOMES))
    return TransactionalState(a_transaction(random), outcome) if random.random() < 0.3 else outcome


def a_transaction(random: Random) -> bytes:
    return random.randint(1, 4).to_bytes(8, "big")


def a_frame(random: Random, peer: AmqpPeer) -> tuple[Composite, bytes]:
    """Return what makes sense more often than not, and its payload."""
    kind = random.random()
    maybe = random.choice((None, True, False))
    handle = random.randint(0, 5)
    if kind < 0.3:
        peer.delivery_id += 1
        link = random.choice((0, 0, 0, handle))
        state = a_state(random) if random.random() < 0.4 else None
        more = random.choice((None, None, None, True))
        aborted = random.choice((None, None, None, None, True))
        transfer = Transfer(link, peer.delivery_id, b"t", 0, maybe, more, None, state, aborted=aborted)
        return transfer, random.choice(MESSAGES)
    if kind < 0.45:
        window = random.choice((0, 1, 1_000, 1_000, 1_000))
        seen = random.randint(0, 30)
        whose = random.choice((1, 1, 1, handle, None))
        return Flow(0, window, 0, 1_000, whose, seen, random.randint(0, 9), drain=maybe, echo=maybe), b""
    if kind < 0.65:
        last = random.choice((None, None, random.randint(0, 14)))
        return Disposition(True, random.randint(0, 12), last, maybe, a_state(random)), b""
    if kind < 0.8:
        peer.delivery_id += 1
        request = random.choice((Declare(), Discharge(a_transaction(random), maybe)))
        return Transfer(2, peer.delivery_id, b"t", 0, maybe), VALUE + encode_composite(request)
    if kind < 0.9:
        name = random.choice(("one", "other", "one|2"))
        mode = random.choice((None, 0, 1))
        source, target = random.choice(SOURCES), random.choice(TARGETS)
        is_receiver = random.random() < 0.6
        return Attach(name, handle, is_receiver, mode, mode, source, target, initial_delivery_count=0), b""
    if kind < 0.96:
        return Detach(handle, maybe), b""
    return random.choice((End(), Begin(None, 0, 1_000, 1_000))), b""


def connected(gateway: AmqpGateway, name: str) -> AmqpPeer:
    """Return a peer with two sessions, and in the first a producer, a consumer and a coordinator."""
    peer = gateway.connect_amqp(name)
    peer.begin(0)
    peer.begin(1)
    for link in (
        Attach("in", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0),
        Attach("out", 1, True, source=Source("q"), target=Target()),
        Attach("txn", 2, False, source=Source(), target=Coordinator(), initial_delivery_count=0),
    ):
        peer.send(link)
    return peer


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.randoms(use_true_random=True))
def test_nothing_that_peers_send_is_a_fault_of_ours(random: Random) -> None:
    gateway = AmqpGateway(
        address("full", full__address_full_policy="BLOCK", full__max_size_messages=3, full__block_timeout_ms=3_000),
        amqp=AmqpSettings(
            link_credit=random.choice((6, 50)), incoming_window=20, idle_time_ms=0, connect_time_ms=10**9
        ),
        memory_limit_bytes=random.choice((4_000, 100_000)),
    )
    peers = [connected(gateway, "a"), connected(gateway, "b")]
    for _ in range(STEPS):
        number = random.randint(0, 1)
        if peers[number].is_closed:
            peers[number] = connected(gateway, "ab"[number])
        peer = peers[number]
        frame, payload = a_frame(random, peer)
        peer.send_octets(encode_frame(random.choice((0, 0, 0, 1)), frame, payload))
        rare = random.random()
        if rare < 0.01:
            peer.vanish()
        elif rare < 0.05:
            gateway.advance(random.choice((10, 2_000, 7_000)))
    for peer in peers:
        if random.random() < 0.5:
            peer.vanish()
        elif not peer.is_closed:
            peer.connection.shut_down()
            gateway.settle()
    gateway.advance(20_000)
    assert gateway.broker.clients == {}
    assert gateway.temporary_names() == []
    assert {one.in_flight for one in gateway.broker.inspect().destinations} <= {0}
    for name in ("q", "full"):
        queue = gateway.queue(name)
        depth = queue.depth
        last = gateway.amqp_session(container="last")
        last.attach_receiver(name, credit=1_000)
        assert sum(isinstance(frame, Transfer) for frame in last.take()) == depth, "what is left can be received"
        last.dispose(0, Accepted(), last=1_000)
        gateway.advance(1_000)
        assert queue.depth == 0
        account = queue.account
        assert account is None or (account.used_messages, account.used_bytes, account.is_shut) == (0, 0, False)
