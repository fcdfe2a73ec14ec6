"""What connections hold that is not sent yet counts in one budget; past it, the one that holds the most ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import TransactionalState
from protocols.amqp.v1_0.wire.composites.performatives import Begin, Close, End, Transfer
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import SASL_LAYER, protocol_header
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, text
from tests.support.protocols.stomp_gateway import Peer
from tests.unit.protocols.amqp.v1_0.endpoints.test_transactions import declare

MIB = 1024 * 1024
PART_BYTES = 100_000
HALF = b"SEND\ndestination:/queue/q\ncontent-length:%d\n\n"


def bounded(limit_bytes: int = 4 * MIB) -> AmqpGateway:
    return AmqpGateway(connection_memory_bytes=limit_bytes)


def half_a_frame(gateway: AmqpGateway, size: int) -> Peer:
    peer = gateway.connect()
    peer.send_octets(HALF % (8 * MIB) + b"x" * size)
    return peer


def in_transaction(gateway: AmqpGateway, size: int) -> Peer:
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    peer.publish("/queue/q", b"x" * size, transaction="t")
    return peer


def amqp_in_transaction(gateway: AmqpGateway, size: int) -> AmqpPeer:
    peer = gateway.amqp_sender("q")
    peer.attach_coordinator()
    in_parts(peer, size, TransactionalState(declare(peer)))
    peer.send(Transfer(0, None, None, None), text("x")[-1:])
    return peer


def half_a_delivery(gateway: AmqpGateway, size: int) -> AmqpPeer:
    peer = gateway.amqp_sender("q")
    in_parts(peer, size, None)
    return peer


def in_parts(peer: AmqpPeer, size: int, state: TransactionalState | None) -> None:
    """Send all but the last octet of a message."""
    octets = text("x" * size)[:-1]
    peer.transfer(octets[:PART_BYTES], more=True, state=state)
    for start in range(PART_BYTES, len(octets), PART_BYTES):
        peer.send(Transfer(0, None, None, None, more=True), octets[start : start + PART_BYTES])


def is_given_up(peer: Peer | AmqpPeer) -> bool:
    if isinstance(peer, AmqpPeer):
        texts = [str(one.error.description) for one in peer.take() if isinstance(one, Close) and one.error is not None]
    else:
        texts = [str(one.headers) + one.body.decode() for one in peer.take() if one.command == "ERROR"]
    assert all("limits.connection-memory" in text for text in texts)
    return bool(texts)


def behind_a_login(gateway: AmqpGateway, size: int) -> Peer:
    """Send frames before the answer to CONNECT."""
    gateway.settings = replace(gateway.settings, needs_login=True)
    peer = gateway.open()
    frame = b"SEND\ndestination:/queue/q\ncontent-length:%d\n\n" % size + b"x" * size + b"\0"
    peer.send_octets(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + frame)
    return peer


def behind_an_amqp_login(gateway: AmqpGateway, size: int) -> AmqpPeer:
    gateway.amqp_settings = replace(gateway.amqp_settings, needs_login=True)
    peer = gateway.open_amqp()
    login = protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("PLAIN", b"\0me\0secret"))
    peer.send_octets(login + b"\0" * size)
    return peer


HOLDERS = [half_a_frame, in_transaction, amqp_in_transaction, half_a_delivery]


@pytest.mark.parametrize("hold", HOLDERS)
def test_what_is_held_counts_and_is_told(hold: type) -> None:
    gateway = bounded()
    peer = hold(gateway, MIB)
    (client,) = gateway.connections()
    assert MIB <= client.held_bytes < MIB + 10_000
    assert gateway.held_by_connections() == client.held_bytes
    assert gateway.broker.inspect().holdings.largest == {client.client_number: client.held_bytes}
    view = gateway.why.producer(client.client_number)
    assert view is not None
    assert view.held_bytes == client.held_bytes
    assert view.holding
    peer.vanish()
    assert gateway.held_by_connections() == 0


@pytest.mark.parametrize("large", HOLDERS)
@pytest.mark.parametrize("small", HOLDERS)
def test_the_one_that_holds_the_most_ends(large: type, small: type) -> None:
    gateway = bounded()
    few = [small(gateway, MIB) for _ in range(2)]
    most = large(gateway, 3 * MIB)
    assert is_given_up(most)
    assert not any(is_given_up(peer) for peer in few)
    assert gateway.held_by_connections() <= 4 * MIB
    assert gateway.broker.inspect().holdings.ended == 1


@pytest.mark.parametrize("hold", [behind_a_login, behind_an_amqp_login])
def test_what_waits_for_a_password_counts(hold: type) -> None:
    gateway = bounded()
    peer = hold(gateway, MIB)
    assert gateway.held_by_connections() >= MIB
    peer.answer_login(is_allowed=False)
    assert gateway.held_by_connections() == 0
    peer.vanish()
    for _ in range(3):
        hold(gateway, 2 * MIB - 1_000)
    assert gateway.ended_for_memory() == 1


def test_a_transaction_that_ends_holds_nothing() -> None:
    gateway = bounded()
    peer = in_transaction(gateway, MIB)
    peer.send("COMMIT", transaction="t")
    assert gateway.held_by_connections() == 0


def test_links_hold_their_names() -> None:
    gateway = bounded()
    peer = gateway.amqp_session()
    for handle in range(10):
        peer.attach_sender("q", handle=handle, name="n" * 10_000 + str(handle))
    assert gateway.held_by_connections() > 100_000
    peer.vanish()
    assert gateway.held_by_connections() == 0


def test_sessions_count() -> None:
    gateway = bounded()
    peer = gateway.amqp_session()
    assert gateway.held_by_connections() == 0, "ordinary connections count nothing"
    for channel in range(1, 100):
        peer.send(Begin(None, 0, 100, 100), channel=channel)
    assert gateway.held_by_connections() > 100_000
    for channel in range(1, 100):
        peer.send(End(), channel=channel)
    gateway.settle()
    assert gateway.held_by_connections() == 0
    peer.vanish()


def test_subscriptions_count() -> None:
    gateway = bounded()
    peer = gateway.connect()
    for number in range(100):
        peer.send("SUBSCRIBE", id=str(number), destination="/queue/q")
    assert gateway.held_by_connections() > 200_000
    for number in range(100):
        peer.send("UNSUBSCRIBE", id=str(number))
    gateway.settle()
    assert gateway.held_by_connections() == 0


def test_consumers_that_join_a_wildcard_later_count() -> None:
    gateway = bounded()
    peer = gateway.subscriber("/queue/>")
    for number in range(600):
        gateway.queue(f"q{number}")
    gateway.settle()
    assert gateway.held_by_connections() > 100_000
    peer.send("UNSUBSCRIBE", id="s")
    for _ in range(5):
        gateway.settle()  # they end over several turns
    assert gateway.held_by_connections() == 0
    peer.vanish()
    assert gateway.held_by_connections() == 0


def test_topics_that_feed_a_wildcard_count() -> None:
    gateway = bounded()
    for number in range(3_000):
        gateway.topic(f"a.{number}")
    peer = gateway.subscriber("/topic/a.>")
    gateway.advance(1_000)
    held_bytes = gateway.held_by_connections()
    assert held_bytes > 100_000
    gateway.topic("a.new")
    gateway.settle()
    assert gateway.held_by_connections() > held_bytes
    gateway.remove(gateway.topic("a.new"))
    peer.send("UNSUBSCRIBE", id="s")
    gateway.settle()
    assert gateway.held_by_connections() == 0
    peer.vanish()
    assert gateway.held_by_connections() == 0


def test_nobody_is_counted_again_who_holds_nothing_but_links() -> None:
    gateway = bounded()
    stomp = gateway.connect()
    stomp.publish("/queue/q", b"x")
    amqp = gateway.amqp_sender("q")
    amqp.transfer(text("x"))
    assert [client.is_holding for client in gateway.connections()] == [False, False]
    amqp.transfer(text("x")[:-1], more=True)
    assert [client.is_holding for client in gateway.connections()] == [False, True]
    amqp.send(Transfer(0, None, None, None), text("x")[-1:])
    assert [client.is_holding for client in gateway.connections()] == [False, False]


def test_an_empty_transaction_is_counted_once_it_is_not() -> None:
    gateway = bounded()
    peer = gateway.connect()
    peer.send("BEGIN", transaction="t")
    assert gateway.held_by_connections() == 0
    peer.publish("/queue/q", b"x" * MIB, transaction="t")
    assert gateway.held_by_connections() > MIB


def test_whoever_has_no_more_than_its_share_stays() -> None:
    gateway = bounded(MIB)
    little = [in_transaction(gateway, 200_000) for _ in range(3)]
    much = in_transaction(gateway, 500_000)
    assert is_given_up(much)
    assert not any(is_given_up(peer) for peer in little)


@pytest.mark.parametrize("hold", HOLDERS)
def test_many_that_hold_little_hold_no_more_than_few(hold: type) -> None:
    gateway = bounded(MIB)
    peers = [hold(gateway, 30_000) for _ in range(50)]
    assert gateway.held_by_connections() <= MIB
    ended = [is_given_up(peer) for peer in peers]
    assert sum(ended) == gateway.ended_for_memory() >= 15
