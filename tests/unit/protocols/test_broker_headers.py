"""What only the gateway may say of a message: nobody's header, property, annotation or user-id says it instead."""

from __future__ import annotations

from typing import Any

import pytest

from engine.values.message import JOB_ID
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Rejected
from protocols.amqp.v1_0.wire.composites.performatives import Disposition
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Symbol
from protocols.broker_headers import BROKER_HEADERS
from tests.support.protocols.amqp_gateway import AmqpGateway, AmqpPeer
from tests.unit.protocols.amqp.v1_0.mapping.test_conversion import from_queue, message, to_amqp, to_stomp

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


ODD = ("{} ", " {}", "\t{}", "{}\t", "{}\r", "{}\n", "\n{}", "{}:", " {} ")


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("form", ODD)
def test_nor_do_names_that_a_patient_reader_takes_for_them(form: str, version: str) -> None:
    """STOMP 1.0 writes no escapes, and some clients trim what they read."""
    gateway = AmqpGateway()
    forged = {form.format(name): "forged" for name in ("JMSXUserID", "subscription", "dlqCause")}
    sender = gateway.connect()
    sender.send("SEND", b"x", destination="/queue/q", colour="red", **forged)
    peer = gateway.amqp_sender("q")
    peer.transfer(message((at.VALUE, "x"), application={**forged, "colour": "red"}))
    reader = gateway.connect(version)
    reader.subscribe("/queue/q", ack="auto")
    for received in reader.messages():
        assert "forged" not in received.headers.values()
        assert received["colour"] == "red"


@pytest.mark.parametrize(
    "name",
    [
        *("x-opt-jms-msg-type", "x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-ingress-time", "x-opt-dlqCause"),
        "x-opt-JMSXUserID",
    ],
)
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


# -- which schedule delivered it


def test_an_amqp_property_names_no_schedule_to_stomp_clients() -> None:
    received = to_stomp(message((at.VALUE, "x"), application={JOB_ID: "forged", "colour": "red"}))
    assert JOB_ID not in received.headers
    assert received["colour"] == "red"


@pytest.mark.parametrize("more", [{}, {"AMQ_SCHEDULER_ACTION": "REMOVE"}, {"reply-to": "/temp-queue/mine"}])
def test_a_send_names_no_schedule(more: dict[str, str]) -> None:
    sender = AmqpGateway().connect()
    sender.send("SEND", b"x", destination="/queue/q", **{"colour": "red", JOB_ID: "forged", "colours": "2", **more})
    sender.subscribe("/queue/q", ack="auto")
    (received,) = sender.messages()
    assert JOB_ID not in received.headers
    assert (received["colour"], received["colours"]) == ("red", "2")


def test_a_send_to_several_names_no_schedule_where_one_of_them_looks_after_none() -> None:
    sender = AmqpGateway().connect()
    asked = {"AMQ_SCHEDULER_ACTION": "REMOVEALL", JOB_ID: "forged"}
    sender.send("SEND", b"x", destination="/queue/q,/topic/ActiveMQ.Scheduler.Management", **asked)
    sender.subscribe("/queue/q", ack="auto")
    (received,) = sender.messages()
    assert JOB_ID not in received.headers


def test_a_send_names_no_schedule_to_amqp_clients() -> None:
    found = to_amqp(b"x", **{JOB_ID: "forged", f"JMS_AMQP_MA_x-opt-{JOB_ID}": "forged", "colour": "red"})
    assert found[at.APPLICATION_PROPERTIES] == {"colour": "red"}
    assert Symbol(f"x-opt-{JOB_ID}") not in found[at.MESSAGE_ANNOTATIONS]


def test_what_asks_for_the_schedule_names_one() -> None:
    gateway = AmqpGateway()
    sender = gateway.connect()
    sender.send("SEND", b"x", destination="/queue/q", AMQ_SCHEDULED_DELAY="1000")
    (place,) = gateway.schedule.places()
    job_id = gateway.schedule.job_id(place)
    asked = {"AMQ_SCHEDULER_ACTION": "REMOVE", JOB_ID: job_id}
    sender.send("SEND", b"", destination="/topic/ActiveMQ.Scheduler.Management", **asked)
    assert len(gateway.schedule) == 0


# -- what AMQP clients say to each other: as in Artemis it is theirs, and the gateway's own is written over it


FORGED = "x-opt-original-destination"


def dead_letter(annotations: dict[str, Any]) -> dict[int, Any]:
    """Send one message by AMQP that a receiver rejects; return what the next one finds among the dead letters."""
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    sender.transfer(message((at.VALUE, "x"), annotations=annotations))
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=1)
    (transfer,) = receiver.transfers()
    receiver.send(Disposition(True, transfer.delivery_id or 0, None, True, Rejected()))
    return from_queue(gateway, "ActiveMQ.DLQ")


def test_what_an_amqp_sender_says_in_its_annotations_reaches_amqp_receivers() -> None:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    sender.transfer(message((at.VALUE, "x"), annotations={FORGED: "/queue/other"}))
    assert from_queue(gateway, "q")[at.MESSAGE_ANNOTATIONS] == {Symbol(FORGED): "/queue/other"}


def test_a_retry_goes_by_what_the_gateway_wrote() -> None:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("ActiveMQ.DLQ")
    sender.transfer(message((at.VALUE, "x"), annotations={FORGED: "/queue/other"}))
    run = gateway.retry(gateway.queue("ActiveMQ.DLQ"))
    gateway.settle()
    gateway.advance(1_000)
    assert (run.moved_count, run.skipped_count) == (0, 1)


def test_what_the_gateway_says_is_written_over_it() -> None:
    found = dead_letter({FORGED: "/queue/forged", "x-opt-dlqCause": "forged"})
    assert found[at.MESSAGE_ANNOTATIONS][Symbol(FORGED)] == "/queue/q"
    assert found[at.MESSAGE_ANNOTATIONS][Symbol("x-opt-dlqCause")] != "forged"


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


@pytest.mark.parametrize("name", ["JMSXUserID", "JMS_AMQP_MA_x-opt-JMSXUserID"])
def test_a_header_of_a_send_becomes_no_user_id(name: str) -> None:
    found = to_amqp(b"x", **{name: "admin", "colour": "red"})
    assert found[at.PROPERTIES][at.USER_ID] is None
    assert found[at.APPLICATION_PROPERTIES] == {"colour": "red"}
    assert "admin" not in str(found)


def test_a_user_id_on_wide_descriptors_is_looked_at_too() -> None:
    peer = logged_in("ann")
    peer.attach_sender("q")
    narrow = of_user(b"admin")
    assert narrow[:3] == b"\x00\x53\x73"
    peer.transfer(b"\x00" + encode(Symbol("amqp:properties:list")) + narrow[3:])
    assert isinstance(peer.one(Disposition).state, Rejected)


DATA = b"\x00\x53\x75" + encode(b"x")
FOOTER = b"\x00\x53\x78" + encode({})


@pytest.mark.parametrize(
    ("body", "is_taken"),
    [
        (message((at.VALUE, "x")), True),
        (DATA * 3 + FOOTER, True),
        (b"\x00" + encode(Symbol("amqp:data:binary")) + encode(b"x"), True),
        (DATA + of_user(b"admin"), False),  # lenient clients read their sections in any order
        (DATA + b"\x00" + encode(Symbol("amqp:properties:list")) + encode([None, b"admin"]), False),
        (FOOTER + of_user(b"admin"), False),
        (DATA[:-1], False),
        (DATA * 1_001, False),
    ],
)
def test_nothing_but_a_body_stands_behind_a_body_of_a_checked_login(body: bytes, is_taken: bool) -> None:
    for peer, expected in ((logged_in("ann"), is_taken), (logged_in(""), True)):
        peer.attach_sender("q")
        for head in (b"", b"\x00\x53\x70" + encode([True]), b"\x00\x53\x70" + encode([True]), b"\x00\x53\x73\x45"):
            peer.transfer(head + body)
            state = peer.one(Disposition).state
            assert isinstance(state, Accepted) is expected, f"{head!r}: {state}"


@pytest.mark.parametrize("login", ["ann", ""])
def test_on_wide_descriptors_sections_keep_their_order(login: str) -> None:
    peer = logged_in(login)
    peer.attach_sender("q")
    peer.transfer(b"\x00" + encode(Symbol("amqp:data:binary")) + encode(b"x") + of_user(b"admin"))
    assert isinstance(peer.one(Disposition).state, Rejected)
    assert peer.gateway.stats("q").depth == 0


def test_where_no_login_is_checked_a_user_id_says_what_it_likes() -> None:
    assert to_stomp(of_user(b"me"))["JMSXUserID"] == "me"


def test_a_user_id_that_is_no_binary_is_refused() -> None:
    peer = logged_in("")
    peer.attach_sender("q")
    peer.transfer(of_user("admin"))
    assert isinstance(peer.one(Disposition).state, Rejected)
