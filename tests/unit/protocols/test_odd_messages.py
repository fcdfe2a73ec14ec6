"""Messages and frames that are well-formed and say what they should not: they end what they concern, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Released
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Disposition
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, ULong
from tests.support.protocols.amqp_gateway import DURABLE, AmqpGateway
from tests.support.typed.typed_amqp import erring_sessions


def section(code: int, value: Any) -> bytes:
    return b"\x00\x53" + bytes((code,)) + encode(value)


TEXT = section(0x77, "text")
RAW = "application/vnd.amqp-1.0"
ODD_AMQP = {
    "a list in x-opt-jms-reply-to": section(0x72, {Symbol("x-opt-jms-reply-to"): [1]})
    + section(0x73, [None, None, None, None, "answers"])
    + TEXT,
    "a data section that is a text": section(0x75, "text"),
    "a sequence that is a number": section(0x76, 7),
    "one sequence of two that is none": section(0x76, [1]) + section(0x76, {"a": 1}),
    "annotations malformed inside": bytes.fromhex("005372c10402ff4040") + TEXT,
    "properties of the application malformed inside": bytes.fromhex("005374c10402ff4040") + TEXT,
}
ODD_STOMP: dict[str, tuple[dict[str, str], bytes]] = {
    "a char of three": ({"amqp-property-types": "a=char", "a": "abc"}, b""),
    "a float too large": ({"amqp-property-types": "a=float", "a": "1e39"}, b""),
    "a huge number": ({"amqp-body": "value"}, b"18446744073709551616"),
    "deep lists": ({"amqp-body": "value"}, b"[" * 5_000 + b"]" * 5_000),
    "lists deeper than AMQP is read": ({"amqp-body": "sequence"}, b"[" * 40 + b"]" * 40),
    "half a character": ({"amqp-body": "value"}, b'"\\ud800"'),
}


@pytest.fixture
def gateway() -> AmqpGateway:
    return AmqpGateway(is_restartable=True)


@pytest.mark.parametrize("name", ODD_AMQP)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_odd_amqp_message_leaves_for_everybody(name: str, is_restarted: bool, gateway: AmqpGateway) -> None:
    sender = gateway.amqp_sender("q")
    delivery = sender.transfer(DURABLE + ODD_AMQP[name])
    assert sender.one(Disposition) == Disposition(True, delivery, None, True, Accepted())
    if is_restarted:
        gateway = AmqpGateway(earlier=gateway)
    reader = gateway.subscriber("/queue/q", selector="a IS NULL OR JMSReplyTo = 'x'")
    (message,) = reader.messages()
    assert message.body in (b"text", (DURABLE + ODD_AMQP[name]), ODD_AMQP[name])
    reader.vanish()
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=5)
    assert receiver.messages()[0].endswith(ODD_AMQP[name]), "redelivered, so its header was written anew"
    receiver.dispose(0, Released())
    assert reader.link.conversion_faults == receiver.link.conversion_faults == []


@pytest.mark.parametrize("name", ODD_STOMP)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_odd_stomp_message_leaves_for_an_amqp_receiver(name: str, is_restarted: bool, gateway: AmqpGateway) -> None:
    headers, body = ODD_STOMP[name]
    gateway.connect().publish("/queue/q", body, persistent="true", **headers)
    if is_restarted:
        gateway = AmqpGateway(earlier=gateway)
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=5)
    (payload,) = receiver.messages()
    assert headers.get("a", body.decode()).encode() in payload, "what AMQP cannot hold stays a text"
    assert receiver.link.conversion_faults == []


def test_a_list_in_the_destination_s_kind_says_nothing(gateway: AmqpGateway) -> None:
    relay = gateway.amqp_sender(None)
    said = section(0x72, {Symbol("x-opt-jms-dest"): [1, {"a": 2}]})
    delivery = relay.transfer(said + section(0x73, [None, None, "q"]) + TEXT)
    assert relay.one(Disposition) == Disposition(True, delivery, None, True, Accepted())
    assert gateway.stats("q").depth == 1


@pytest.mark.parametrize("descriptor", [[1], {"a": 1}, None, 1.5, Described(ULong(1), [])])
def test_a_filter_that_nobody_knows_is_left_out(descriptor: Any, gateway: AmqpGateway) -> None:
    peer = gateway.amqp_session()
    source = Source("q", filter={Symbol("x"): Described(descriptor, "a = 1")})
    peer.send(Attach("r", 1, True, source=source, target=Target()))
    answer = peer.one(Attach)
    assert answer.source is not None
    assert answer.source.filter is None
    peer.send(Detach(1, True))


def test_many_sessions_may_err_in_one_read(gateway: AmqpGateway) -> None:
    peer = gateway.amqp_session()
    peer.send_octets(erring_sessions(2_000))
    assert not peer.is_closed
    peer.take()
    peer.attach_sender("q")
    peer.publish("still there")
