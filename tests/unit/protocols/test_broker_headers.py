"""What only the gateway may say of a message: nobody's header, property, annotation or user-id says it instead."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire import sections as at
from protocols.amqp.v1_0.wire.delivery_states import Accepted, Rejected
from protocols.amqp.v1_0.wire.performatives import Disposition
from protocols.amqp.v1_0.wire.value_encoder import encode
from protocols.amqp.v1_0.wire.values import Byte, Symbol
from protocols.broker_headers import BROKER_HEADERS
from tests.support.amqp_gateway import AmqpGateway, AmqpPeer
from tests.unit.protocols.test_amqp_conversion import from_queue, message, to_amqp, to_stomp

# Each is written by a gateway that has reason to; this one has none.
UNSAID = sorted(
    BROKER_HEADERS - {"destination", "message-id", "subscription", "priority", "expires", "JMSXDeliveryCount"}
)


def of_user(user_id: Any) -> bytes:
    return message((at.VALUE, "x"), properties={at.USER_ID: user_id})


def logged_in(login: str) -> AmqpPeer:
    """Return a session of a client whose login was checked."""
    peer = AmqpGateway(amqp=AmqpSettings()).amqp_session()
    peer.connection.user = login
    return peer


def test_properties_of_amqp_do_not_become_headers_that_are_the_gateway_s() -> None:
    forged = dict.fromkeys(BROKER_HEADERS, "forged")
    received = to_stomp(message((at.VALUE, "x"), application={**forged, "colour": "red"}))
    assert "forged" not in received.headers.values()
    assert received["colour"] == "red"
    assert [name for name in UNSAID if name in received.headers] == []


def test_headers_of_a_send_are_dropped_by_the_same_table() -> None:
    gateway = AmqpGateway()
    forged = {name: "forged" for name in UNSAID if name not in ("persistent", "content-length")}
    sender = gateway.connect()
    sender.send("SEND", b"x", destination="/queue/q", colour="red", **forged)
    sender.subscribe("/queue/q", ack="auto")
    (received,) = sender.messages()
    assert "forged" not in received.headers.values()
    assert received["colour"] == "red"


@pytest.mark.parametrize("name", ["x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-ingress-time", "x-opt-dlqCause"])
def test_a_send_does_not_write_annotations_that_jms_clients_cast(name: str) -> None:
    plain = to_amqp(b"x")[at.MESSAGE_ANNOTATIONS]
    assert plain[Symbol("x-opt-jms-msg-type")] == Byte(5) or plain[Symbol("x-opt-jms-msg-type")] == Byte(3)
    assert to_amqp(b"x", **{f"JMS_AMQP_MA_{name}": "forged"})[at.MESSAGE_ANNOTATIONS] == plain


@pytest.mark.parametrize(("text", "expected"), [("1234", 1234), ("soon", None), ("-1", None), ("9" * 30, None)])
def test_a_delivery_time_is_a_number_or_none(text: str, expected: int | None) -> None:
    found = to_amqp(b"x", **{"JMS_AMQP_MA_x-opt-delivery-time": text})
    assert found[at.MESSAGE_ANNOTATIONS].get(Symbol("x-opt-delivery-time")) == expected


def test_other_annotations_pass() -> None:
    assert to_amqp(b"x", **{"JMS_AMQP_MA_x-mine": "y"})[at.MESSAGE_ANNOTATIONS][Symbol("x-mine")] == "y"


def test_why_a_map_could_not_be_converted_reaches_amqp() -> None:
    found = to_amqp(b"{", transformation="jms-map-json")
    assert "transformation-error" in found[at.APPLICATION_PROPERTIES]


# -- who sent it


def test_a_user_id_that_is_another_login_is_refused() -> None:
    peer = logged_in("ann")
    peer.attach_sender("q")
    peer.transfer(of_user(b"admin"))
    state = peer.one(Disposition).state
    assert isinstance(state, Rejected) and state.error is not None
    assert state.error.condition == "amqp:unauthorized-access"
    assert "'admin'" in str(state.error.description) and "'ann'" in str(state.error.description)
    assert peer.gateway.stats("q").depth == 0


@pytest.mark.parametrize("user_id", [b"ann", b"", None])
def test_one_s_own_user_id_and_none_pass(user_id: bytes | None) -> None:
    peer = logged_in("ann")
    peer.attach_sender("q")
    peer.transfer(of_user(user_id))
    assert isinstance(peer.one(Disposition).state, Accepted)
    assert from_queue(peer.gateway, "q")[at.PROPERTIES][at.USER_ID :][:1] in ([user_id], [])


def test_a_user_id_on_wide_descriptors_is_looked_at_too() -> None:
    peer = logged_in("ann")
    peer.attach_sender("q")
    narrow = of_user(b"admin")
    assert narrow[:3] == b"\x00\x53\x73"
    peer.transfer(b"\x00" + encode(Symbol("amqp:properties:list")) + narrow[3:])
    assert isinstance(peer.one(Disposition).state, Rejected)


def test_where_no_login_is_checked_a_user_id_says_what_it_likes() -> None:
    assert to_stomp(of_user(b"me"))["JMSXUserID"] == "me"


def test_a_user_id_that_is_no_binary_is_refused() -> None:
    peer = logged_in("")
    peer.attach_sender("q")
    peer.transfer(of_user("admin"))
    assert isinstance(peer.one(Disposition).state, Rejected)
