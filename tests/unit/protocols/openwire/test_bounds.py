"""What a client of OpenWire cannot make the gateway do, keep or pass on, whatever it sends."""

from __future__ import annotations

import zlib

import pytest

from protocols.errors import FrameError, FrameTooLarge
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.mapping.contents import text_content
from protocols.openwire.session.requests import BEGIN, COMMIT_ONE_PHASE
from protocols.openwire.wire.commands import (
    BrokerInfo,
    ConnectionControl,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageDispatch,
    MessagePull,
    RemoveInfo,
    Response,
    SessionInfo,
    Structure,
    WireFormatInfo,
)
from protocols.openwire.wire.frame_decoder import COMMAND_BYTES_MAX, FrameDecoder
from protocols.openwire.wire.identities import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    SessionId,
    Throwable,
)
from protocols.openwire.wire.layouts import ELEMENTS_MAX
from protocols.openwire.wire.messages import TextMessage
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode, encode_structure
from tests.support.protocols.openwire_gateway import OpenWireGateway, OpenWirePeer, message_in, queue

ASTRAL = "\U0001f600".encode()


@pytest.mark.parametrize("size", [70_000, 300_000])
@pytest.mark.parametrize("step", [1_000, 65_536])
def test_a_large_frame_in_parts(size: int, step: int) -> None:
    small = encode(SessionInfo(7, session_id=SessionId("c", 1)))
    large = encode(TextMessage(content=bytes(size)))
    octets = small + large + large + small
    decoder = FrameDecoder(1 << 20)
    frames = []
    for start in range(0, len(octets), step):
        decoder.receive_data(octets[start : start + step])
        while (frame := decoder.next_frame()) is not None:
            frames.append(frame)
            assert decoder.partial_number() in (0, len(frames) + 1)
    assert frames == [small[4:], large[4:], large[4:], small[4:]]
    assert decoder.buffered_bytes() == 0


def test_the_parts_of_a_large_frame_are_counted() -> None:
    decoder = FrameDecoder(1 << 20)
    large = encode(TextMessage(content=bytes(200_000)))
    decoder.receive_data(large[:90_000])
    assert decoder.next_frame() is None
    assert decoder.buffered_bytes() == 90_000 - 4
    decoder.receive_data(large[90_000:100_000])
    assert decoder.buffered_bytes() == 100_000 - 4
    assert decoder.partial_number() == 1
    decoder.drop()
    assert decoder.buffered_bytes() == 0


def test_only_messages_may_be_large() -> None:
    command = encode(ConsumerInfo(additional_predicate=WireFormatInfo(marshalled_properties=bytes(COMMAND_BYTES_MAX))))
    decoder = FrameDecoder(100 << 20, COMMAND_BYTES_MAX)
    decoder.receive_data(command[:4])
    assert decoder.next_frame() is None
    decoder.receive_data(command[4:5])
    with pytest.raises(FrameTooLarge):
        decoder.next_frame()


def test_a_command_has_few_elements() -> None:
    def info(count: int) -> bytes:
        return encode_structure(ConsumerInfo(broker_path=[BrokerId("b")] * count, network_consumer_path=[]))

    decode(info(ELEMENTS_MAX))
    with pytest.raises(FrameError, match="elements"):
        decode(info(ELEMENTS_MAX + 1))
    inner = BrokerInfo(peer_broker_infos=[BrokerInfo()] * (ELEMENTS_MAX // 2))
    with pytest.raises(FrameError, match="elements"):
        decode(encode_structure(BrokerInfo(peer_broker_infos=[inner] * 2)))


@pytest.mark.parametrize("octets", [ASTRAL * 16_000, b"\0" * 60_000])
def test_a_string_that_cannot_be_written_again(octets: bytes) -> None:
    field = b"\1" + len(octets).to_bytes(2, "big") + octets
    with pytest.raises(FrameError, match="modified"):
        decode(b"\x04\0\0\0\1\1" + b"\1\x79" + field + bytes(8))
    short = b"\1" + (4 * 1_000).to_bytes(2, "big") + octets[:4_000]
    found = decode(b"\x04\0\0\0\1\1" + b"\1\x79" + short + bytes(8))
    assert isinstance(found, SessionInfo)
    encode(found)


def test_a_message_brings_nothing_that_only_brokers_say() -> None:
    """A structure within a message may name a class, which an old client of the receiver would load."""
    gateway = OpenWireGateway()
    receiver = gateway.openwire_consumer(queue("q"))
    sender = gateway.connect_openwire()
    attack = ExceptionResponse(exception=Throwable("org.example.Gadget", "http://evil/"))
    sender.publish(
        queue("q"),
        "x",
        data_structure=attack,
        target_consumer_id=ConsumerId("x", 1, 1),
        original_transaction_id=LocalTransactionId(1, ConnectionId("x")),
        broker_path=[BrokerId("b")],
        cluster=[BrokerId("b")],
        user_id="root",
    )
    assert b"Gadget" not in receiver.octets
    (dispatch,) = receiver.dispatches()
    found = message_in(dispatch)
    assert (found.data_structure, found.target_consumer_id, found.original_transaction_id) == (None, None, None)
    assert (found.broker_path, found.cluster, found.user_id) == (None, None, None)


@pytest.mark.parametrize(("connection_id", "client_id"), [("c" * 501, "c"), ("c", "c" * 501)])
def test_ids_of_connections_are_short(connection_id: str, client_id: str) -> None:
    peer = OpenWireGateway().negotiated()
    found = peer.refused(ConnectionInfo(connection_id=ConnectionId(connection_id), client_id=client_id))
    assert "501 characters, the limit is 500" in found.message
    assert peer.is_closed


def test_nothing_but_what_is_used_is_kept_of_a_consumer() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    large: list[Structure] = [WireFormatInfo(marshalled_properties=bytes(100_000))]
    peer.consume(queue("q"), additional_predicate=large[0], client_id="c" * 60_000)
    assert b"c" * 60_000 not in peer.octets
    held = peer.session.receivers.open[peer.consumer_id()].info
    assert (held.additional_predicate, held.client_id) == (None, None)


def test_a_consumer_has_one_pull() -> None:
    """A client asks again after a rollback, although it then delivers a message to itself."""
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"), prefetch=0)
    for timeout_ms in (5_000, 1_000):
        peer.send(MessagePull(consumer_id=peer.consumer_id(), timeout=timeout_ms))
    gateway.advance(1_000)
    assert [one.message for one in peer.dispatches()] == [None]
    gateway.connect_openwire().publish(queue("q"), "for others")
    gateway.advance(5_000)
    assert peer.take() == []
    peer.send(MessagePull(consumer_id=peer.consumer_id(), timeout=-1))
    assert peer.texts() == ["for others"]


@pytest.mark.parametrize("timeout_ms", [2**63 - 1, -(2**63)])
def test_a_pull_waits_as_long_as_it_says(timeout_ms: int) -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"), prefetch=0)
    peer.send(MessagePull(consumer_id=peer.consumer_id(), timeout=timeout_ms))
    gateway.advance(20_000)
    assert len([one for one in peer.take() if isinstance(one, MessageDispatch)]) == (timeout_ms < 0)


def test_many_pulls_give_up_at_their_time() -> None:
    gateway = OpenWireGateway()
    peer = gateway.connect_openwire()
    for number in range(1, 501):
        peer.send(ConsumerInfo(consumer_id=peer.consumer_id(number), destination=queue("q"), prefetch_size=0))
        peer.send(MessagePull(consumer_id=peer.consumer_id(number), timeout=1_000))
    peer.consume(queue("q"), 501, 0)
    for _ in range(300):  # answered at once, so that nothing of them is left
        peer.send(MessagePull(consumer_id=peer.consumer_id(501), timeout=3_600_000))
        peer.publish(queue("other"), "x")
        peer.send(RemoveInfo(object_id=peer.consumer_id(501)))
        peer.consume(queue("q"), 501, 0)
    gateway.advance(1_000)
    gateway.advance(1_000)
    assert len([one for one in peer.take() if isinstance(one, MessageDispatch)]) == 500


def test_a_session_of_another_connection_is_unknown() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    peer.ask(RemoveInfo(object_id=SessionId("ID:other", 1)))
    peer.ask(RemoveInfo(object_id=ConnectionId("ID:other")))
    gateway.connect_openwire().publish(queue("q"), "x")
    assert peer.texts() == ["x"]


@pytest.mark.parametrize("count", [3, 100])
def test_the_consumers_of_an_ended_session_return_their_messages(count: int) -> None:
    gateway = OpenWireGateway()
    gateway.connect_openwire().publish(queue("q"), *(f"{number}" for number in range(count)))
    peer = gateway.connect_openwire()
    for number in range(1, count + 1):
        peer.consume(queue("q"), number, 1)
    assert len(peer.take()) == count
    peer.ask(RemoveInfo(object_id=SessionId(peer.connection_id, 1), last_delivered_sequence_id=-1))
    assert gateway.openwire_consumer(queue("q")).texts() == [f"{number}" for number in range(count)]


def test_every_command_that_asks_is_answered() -> None:
    OpenWireGateway().connect_openwire().ask(ConnectionControl(fault_tolerant=True))


def test_a_selector_inflates_no_more_than_a_document() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"), selector="XPATH '/a'")
    sender = gateway.connect_openwire()
    for size in (60_000, 600_000):
        content = zlib.compress(text_content("<a>" + "x" * size + "</a>"))
        sender.ask(sender.message(queue("q"), "", content=content, compressed=True))
    assert len(peer.dispatches()) == 1
    assert gateway.stats("q").depth == 2


def limited() -> tuple[OpenWireGateway, OpenWirePeer]:
    gateway = OpenWireGateway(openwire=OpenWireSettings(frame_bytes=100_000))
    return gateway, gateway.connect_openwire()


@pytest.mark.parametrize("step", [3, 70_000, 400_000])
def test_a_message_that_is_too_large_is_refused_and_skipped(step: int) -> None:
    gateway, peer = limited()
    peer.add_producer()
    large = peer.message(queue("q"), "x" * 200_000, persistent=True)
    large.command_id, large.response_required = 77, True
    small = peer.message(queue("q"), "small", persistent=True)
    small.command_id, small.response_required = 78, True
    octets = encode(large) + encode(small)
    beginning = octets[:60]
    for start in range(0, len(beginning), step):
        peer.send_octets(beginning[start : start + step])
    for start in range(60, len(octets), max(step, 70_000)):
        peer.send_octets(octets[start : start + max(step, 70_000)])
    refusal, answer = peer.take()
    assert isinstance(refusal, ExceptionResponse)
    assert refusal.exception is not None
    assert refusal.correlation_id == 77
    assert refusal.exception.class_name == "javax.jms.ResourceAllocationException"
    assert "the limit is 100000" in refusal.exception.message
    assert isinstance(answer, Response)
    assert answer.correlation_id == 78
    assert gateway.stats("q").depth == 1


def test_a_transaction_with_a_message_that_is_too_large_is_rolled_back() -> None:
    gateway, peer = limited()
    peer.add_producer()
    peer.send(peer.transact(BEGIN))
    peer.send(peer.message(queue("q"), "small", persistent=True, transaction_id=peer.transaction()))
    peer.send(peer.message(queue("q"), "x" * 200_000, persistent=True, transaction_id=peer.transaction()))
    peer.take()
    assert peer.refused(peer.transact(COMMIT_ONE_PHASE)).class_name.endswith("TransactionRolledBackException")
    assert gateway.stats("q").depth == 0


def test_a_message_that_is_too_large_has_its_time() -> None:
    gateway, peer = limited()
    peer.send_octets(encode(peer.message(queue("q"), "x" * 200_000))[:150_000])
    for _ in range(4):
        gateway.advance(10_000)
        if not peer.is_closed:
            peer.send_octets(b"x")
    assert peer.is_closed
