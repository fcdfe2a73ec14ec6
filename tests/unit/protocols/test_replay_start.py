"""Replays as clients of each protocol ask for them and see them."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import Rejected
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Timestamp, ULong
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer, said, text
from tests.support.protocols.stomp_gateway import StompGateway


def consumed_queue(gateway: StompGateway) -> None:
    """Send five messages and have all of them acknowledged."""
    peer = gateway.connect()
    peer.publish("/queue/q", b"0", b"1", b"2", b"3", b"4", persistent="true")
    taker = gateway.subscriber("/queue/q", "auto")
    assert len(taker.bodies()) == 5
    taker.vanish()


def kept(gateway: StompGateway) -> None:
    """Send five messages to a topic whose durable subscription keeps the store in memory from forgetting them."""
    owner = gateway.connect(client_id="owner")
    owner.subscribe("/topic/t", **{"activemq.subscriptionName": "keeper"})
    gateway.connect().publish("/topic/t", b"0", b"1", b"2", b"3", b"4", persistent="true")
    owner.vanish()


def test_stomp_topic_and_receipt() -> None:
    gateway = StompGateway()
    kept(gateway)
    peer = gateway.subscriber("/topic/t", "auto", from_offset="2", receipt="r")
    gateway.connect().publish("/topic/t", b"5", persistent="true")
    receipt, *messages = peer.take()
    assert receipt.command == "RECEIPT"
    assert [message.body for message in messages] == [b"2", b"3", b"4", b"5"]
    assert {message["destination"] for message in messages} == {"/topic/t"}
    again = gateway.subscriber("/topic/t", "auto", from_id=messages[1]["message-id"])
    assert [message["message-id"] for message in again.messages()] == [one["message-id"] for one in messages[1:]]


def test_stomp_browser_ends() -> None:
    gateway = StompGateway()
    kept(gateway)
    peer = gateway.subscriber("/topic/t", "auto", x_stream_offset="offset=3", browser="true")
    *messages, end = peer.take()
    assert [message.body for message in messages] == [b"3", b"4"]
    assert end["browser"] == "end"


def test_stomp_window_and_answers() -> None:
    gateway = StompGateway()
    kept(gateway)
    peer = gateway.subscriber("/topic/t", from_offset="first", **{"activemq.prefetchSize": "2"})
    first, second = peer.messages()
    peer.send("ACK", id=first["ack"])
    peer.send("ACK", id=second["ack"])
    third, fourth = peer.messages()
    assert [third.body, fourth.body] == [b"2", b"3"]
    peer.send("NACK", id=third["ack"])
    error = peer.error()
    assert b"NACK names a message of a replay; a replay takes no messages" in error.body


def test_stomp_what_is_no_start() -> None:
    gateway = StompGateway()
    kept(gateway)
    for headers, message in (
        ({"from_id": "ID:other-1"}, "invalid option"),
        ({"from_offset": "x"}, "invalid option"),
        ({"from_offset": "1", "from_time": "0"}, "invalid option"),
    ):
        peer = gateway.subscriber("/topic/t", **headers)
        assert peer.error()["message"] == message


def _filter(name: str, value: Any) -> dict[Any, Any]:
    return {Symbol("from here"): Described(Symbol(name), value)}


def _replay(peer: AmqpPeer, address: str, name: str, value: Any, **fields: Any) -> list[bytes]:
    source = Source(address, filter=_filter(name, value), capabilities=[Symbol("topic")], **fields)
    attach = peer.attach_receiver(None, source=source, credit=10)
    assert attach.source is not None and attach.source.filter == source.filter, "a filter that is honoured is answered"
    frames = peer.take()
    assert all(isinstance(frame, Transfer) for frame in frames)
    return peer.payloads


def bodies(*texts: str) -> list[bytes]:
    return [text(one) for one in texts]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("penstock:from-offset", ULong(3), ("3", "4")),
        ("penstock:from-offset", "3", ("3", "4")),
        ("penstock:from-offset", "last", ("4",)),
        ("penstock:from-time", Timestamp(0), ("0", "1", "2", "3", "4")),
        ("penstock:from-time", "2000-01-01T00:00:00Z", ("0", "1", "2", "3", "4")),
        ("rabbitmq:stream-offset-spec", "first", ("0", "1", "2", "3", "4")),
        ("rabbitmq:stream-offset-spec", ULong(4), ("4",)),
        ("rabbitmq:stream-offset-spec", Timestamp(0), ("0", "1", "2", "3", "4")),
        ("rabbitmq:stream-offset-spec", "next", ()),
    ],
)
def test_amqp_filters(name: str, value: Any, expected: tuple[str, ...]) -> None:
    gateway = AmqpGateway()
    keeper = gateway.connect(client_id="owner")
    keeper.subscribe("/topic/t", **{"activemq.subscriptionName": "keeper"})
    keeper.vanish()
    sender = gateway.amqp_sender("t", capabilities=[Symbol("topic")])
    sender.publish("0", "1", "2", "3", "4", durable=True)
    peer = gateway.amqp_session(container="reader")
    seen = _replay(peer, "t", name, value)
    assert [one[-len(body) :] for one, body in zip(seen, bodies(*expected), strict=True)] == bodies(*expected)
    sender.publish("5", durable=True)
    assert len(peer.transfers()) == 1, "and then what comes"
    peer.dispose(0, Rejected())
    assert gateway.stats("t").dead_lettered == 0


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (_filter("penstock:from-id", ULong(1)), "the filter from-id is a ULong; allowed is a string"),
        (_filter("penstock:from-offset", 1.5), "allowed is a number or a string"),
        (_filter("penstock:from-offset", True), "allowed is a number or a string"),
        (_filter("penstock:from-offset", "x"), "allowed is a queue offset, first, last or next"),
        (_filter("rabbitmq:stream-offset-spec", "5"), "allowed are first, last, next, a number, a timestamp"),
        (_filter("penstock:from-offset", "x") | {Symbol("b"): Described(Symbol("penstock:from-time"), "0")}, "allowed"),
        (
            _filter("penstock:from-offset", "1") | {Symbol("b"): Described(Symbol("penstock:from-time"), "0")},
            "two filters set the start of the replay",
        ),
    ],
)
def test_amqp_filters_that_make_no_sense(filters: dict[Any, Any], words: str) -> None:
    peer = AmqpGateway().amqp_session()
    peer.send(Attach("reader", 1, True, source=Source("q", filter=filters), target=Target()))
    condition, description = peer.refusal()
    assert condition == "amqp:invalid-field" and words in description


def test_amqp_options_of_the_address() -> None:
    gateway = AmqpGateway()
    kept(gateway)
    peer = gateway.amqp_session()
    source = Source("t?consumer.fromOffset=3", capabilities=[Symbol("topic")], distribution_mode="copy")
    peer.attach_receiver(None, source=source, credit=10)
    assert len(peer.transfers()) == 2
    gateway.connect().publish("/topic/t", b"5", persistent="true")
    assert len(peer.transfers()) == 1, "copy is how Qpid JMS subscribes to any topic: it asks for no end"


def test_amqp_a_queue_that_is_deleted() -> None:
    gateway = AmqpGateway()
    consumed_queue(gateway)
    peer = gateway.amqp_session()
    peer.attach_receiver(None, source=Source("q", filter=_filter("penstock:from-offset", "next")), credit=10)
    gateway.delete(gateway.queue("q"))
    gateway.settle()
    frame = peer.one(Detach)
    assert said(frame) == ("amqp:not-found", "queue://q was deleted")
