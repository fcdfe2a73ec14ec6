"""STOMP <-> AMQP 1.0, both ways and back, as clients see it."""

from __future__ import annotations

import tracemalloc
import uuid
from typing import Any

import pytest

from protocols.amqp.v1_0.mapping.jms_ids import id_text, id_value
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted, Released
from protocols.amqp.v1_0.wire.composites.performatives import Disposition
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_decoder import ITEMS_MAX, decode
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import (
    Array,
    Byte,
    Char,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.stomp_gateway import Received


def message(
    *body: tuple[int, Any],
    properties: dict[int, Any] | None = None,
    application: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    header: bytes = b"",
) -> bytes:
    octets = header
    if annotations:
        octets += b"\x00\x53\x72" + encode({Symbol(key): value for key, value in annotations.items()})
    if properties:
        fields = [properties.get(place) for place in range(max(properties) + 1)]
        octets += described_list(at.PROPERTIES, len(fields), b"".join(map(encode, fields)))
    if application:
        octets += b"\x00\x53\x74" + encode(application)
    return octets + b"".join(encode(Described(ULong(code), value)) for code, value in body)


def to_stomp(octets: bytes) -> Received:
    """Send one message by AMQP, return what a STOMP client gets."""
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    sender.transfer(octets)
    receiver = gateway.subscriber("/queue/q", ack="auto")
    (received,) = receiver.messages()
    return received


def through_stomp(octets: bytes) -> dict[int, Any]:
    """Send one message by AMQP, let a STOMP client pass it on as it got it, return what an AMQP client gets."""
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    sender.transfer(octets)
    stomp = gateway.subscriber("/queue/q", ack="auto")
    (received,) = stomp.messages()
    kept = {
        name: value
        for name, value in received.headers.items()
        if name not in ("destination", "message-id", "subscription", "content-length")
    }
    if received.has_length:
        kept["content-length"] = str(len(received.body))
    stomp.send("SEND", received.body, destination="/queue/back", **kept)
    return from_queue(gateway, "back")


def from_queue(gateway: AmqpGateway, name: str) -> dict[int, Any]:
    """Return the sections of the message that an AMQP client gets."""
    receiver = gateway.amqp_session()
    receiver.attach_receiver(name, credit=1)
    receiver.transfers()
    return sections_of(b"".join(receiver.payloads))


def sections_of(payload: bytes) -> dict[int, Any]:
    found: dict[int, Any] = {}
    position = 0
    while position < len(payload):
        section, position = decode(payload, position)
        found[int(section.descriptor)] = section.value
    return found


def to_amqp(body: bytes, **headers: str) -> dict[int, Any]:
    gateway = AmqpGateway()
    gateway.connect().send("SEND", body, destination="/queue/q", **headers)
    return from_queue(gateway, "q")


# -- AMQP to STOMP


@pytest.mark.parametrize(
    ("body", "content_type", "expected", "is_text"),
    [
        ((at.VALUE, "text \u00e4"), None, "text \u00e4".encode(), True),
        ((at.VALUE, None), None, b"", True),
        ((at.VALUE, b"\x00\xff"), None, b"\x00\xff", False),
        ((at.DATA, b"\x00\xff"), None, b"\x00\xff", False),
        ((at.DATA, b"\x00\xff"), "application/octet-stream", b"\x00\xff", False),
        ((at.DATA, b'{"a": 1}'), "application/json", b'{"a": 1}', True),
        ((at.DATA, b"\xff"), "text/plain", b"\xff", False),
        ((at.VALUE, {"a": 1, "b": [True, None, 1.5]}), None, b'{"a": 1, "b": [true, null, 1.5]}', True),
        ((at.SEQUENCE, [1, "x"]), None, b'[1, "x"]', True),
        ((at.VALUE, Int(7)), None, b"7", True),
    ],
)
def test_bodies_for_stomp(body: tuple[int, Any], content_type: str | None, expected: bytes, is_text: bool) -> None:
    properties = {} if content_type is None else {at.CONTENT_TYPE: Symbol(content_type)}
    received = to_stomp(message(body, properties=properties))
    assert received.body == expected
    assert received.has_length is not is_text


def test_several_data_sections_are_one_body() -> None:
    assert to_stomp(message((at.DATA, b"a"), (at.DATA, b"b"))).body == b"ab"


def test_a_message_without_body() -> None:
    assert to_stomp(message(properties={at.SUBJECT: "s"})).body == b""


def test_what_json_cannot_hold_goes_as_it_came() -> None:
    octets = message((at.VALUE, {"bytes": b"\xff"}))
    received = to_stomp(octets)
    assert received.body == octets
    assert received["content-type"] == "application/vnd.amqp-1.0"


@pytest.mark.parametrize(
    "octets",
    [
        message((at.DATA, b"")) * (at.BODY_SECTIONS_MOST + 1),
        message((at.SEQUENCE, [None] * 300)) * (ITEMS_MAX // 300 + 1),
    ],
    ids=["sections", "items"],
)
def test_a_message_of_too_many_parts_goes_as_it_came(octets: bytes) -> None:
    received = to_stomp(octets)
    assert received.body == octets
    assert received["content-type"] == "application/vnd.amqp-1.0"
    few = message((at.SEQUENCE, [None] * 300)) * (ITEMS_MAX // 300)
    assert to_stomp(few).body.count(b"null") == ITEMS_MAX // 300 * 300


def test_properties_for_stomp() -> None:
    received = to_stomp(
        message(
            (at.VALUE, "x"),
            header=bytes.fromhex("005370c00402415007"),
            properties={
                at.MESSAGE_ID: "ID:1",
                at.USER_ID: b"alice",
                at.SUBJECT: "order",
                at.REPLY_TO: "answers",
                at.CORRELATION_ID: "c-1",
                at.CONTENT_TYPE: Symbol("text/plain"),
                at.CONTENT_ENCODING: Symbol("identity"),
                at.CREATION_TIME: Timestamp(1_600_000_000_000),
                at.GROUP_ID: "g",
                at.GROUP_SEQUENCE: UInt(3),
                at.REPLY_TO_GROUP_ID: "rg",
            },
            annotations={"x-opt-jms-reply-to": Byte(1), "x-opt-jms-msg-type": Byte(5), "x-opt-mine": "kept"},
            application={"colour": "red", "n": Int(5), "yes": True, "ratio": 1.5},
        )
    )
    expected = {
        "amqp-message-id": "ID:1",
        "JMSXUserID": "alice",
        "type": "order",
        "reply-to": "/topic/answers",
        "correlation-id": "c-1",
        "content-type": "text/plain",
        "content-encoding": "identity",
        "timestamp": "1600000000000",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": "3",
        "JMS_AMQP_REPLY_TO_GROUP_ID": "rg",
        "JMS_AMQP_MA_x-opt-mine": "kept",
        "colour": "red",
        "n": "5",
        "yes": "true",
        "ratio": "1.5",
        "priority": "7",
        "persistent": "true",
    }
    assert {name: received.headers.get(name) for name in expected} == expected
    assert received["message-id"].startswith("ID:c0ffee00-")


GROUP_SEQUENCES = [("-1", 2**32 - 1), ("-2147483648", 2**31), ("0", 0), ("2147483647", 2**31 - 1)]


@pytest.mark.parametrize(("jms", "amqp"), GROUP_SEQUENCES)
def test_a_group_sequence_is_an_int_of_java_with_the_same_bits(jms: str, amqp: int) -> None:
    received = to_stomp(message((at.VALUE, "x"), properties={at.GROUP_ID: "g", at.GROUP_SEQUENCE: UInt(amqp)}))
    assert received["JMSXGroupSeq"] == jms
    sent = to_amqp(b"x", JMSXGroupID="g", JMSXGroupSeq=jms)[at.PROPERTIES]
    assert sent[at.GROUP_SEQUENCE] == UInt(amqp)


@pytest.mark.parametrize("text", ["-2147483649", "4294967296", "--1", "-", "1.5", ""])
def test_a_group_sequence_that_is_no_int_has_no_field(text: str) -> None:
    sent = to_amqp(b"x", JMSXGroupID="g", JMSXGroupSeq=text)[at.PROPERTIES]
    assert len(sent) <= at.GROUP_SEQUENCE


def test_a_jms_client_of_amqp_ends_a_group() -> None:
    gateway = AmqpGateway()
    peer = gateway.amqp_sender("q")
    readers = [gateway.amqp_session() for _ in range(2)]
    for reader in readers:
        reader.attach_receiver("q", credit=10)
    for body, sequence in (("1", 1), ("2", 2**32 - 1), ("3", 1)):
        peer.transfer(message((at.VALUE, body), properties={at.GROUP_ID: "g", at.GROUP_SEQUENCE: UInt(sequence)}))
    first, second = (reader.messages() for reader in readers)
    assert (len(first), len(second)) == (2, 1)


# -- STOMP to AMQP


def test_a_text_for_amqp() -> None:
    got = to_amqp(b"hello", type="order", correlation_id="c", colour="red")
    assert got[at.VALUE] == "hello"
    assert got[at.MESSAGE_ANNOTATIONS] == {"x-opt-jms-dest": 0, "x-opt-jms-msg-type": 5}
    assert all(type(value) is Byte for value in got[at.MESSAGE_ANNOTATIONS].values())
    properties = got[at.PROPERTIES]
    assert properties[at.MESSAGE_ID].startswith("ID:c0ffee00-")
    assert properties[at.TO] == "q"
    assert properties[at.SUBJECT] == "order"
    assert properties[at.CORRELATION_ID] == "c"
    assert type(properties[at.CREATION_TIME]) is Timestamp
    assert got[at.APPLICATION_PROPERTIES] == {"colour": "red"}
    assert at.HEADER not in got


def test_octets_for_amqp() -> None:
    got = to_amqp(b"\x00\xff", content_length="2", persistent="true", priority="9")
    assert got[at.DATA] == b"\x00\xff"
    assert got[at.PROPERTIES][at.CONTENT_TYPE] == "application/octet-stream"
    assert got[at.MESSAGE_ANNOTATIONS]["x-opt-jms-msg-type"] == 3
    assert got[at.HEADER] == [True, 9]


@pytest.mark.parametrize("item", [b"{}", b"[]"])
def test_json_of_too_many_items_is_not_read(item: bytes) -> None:
    """It is a text for AMQP, whose sender has made it from fewer."""
    tracemalloc.start()
    try:
        body = b"[" + b",".join([item] * 300_000) + b"]"
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert to_amqp(body, amqp_body="value")[at.VALUE] == body.decode()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 10 * len(body), f"{peak - before} octets of memory for {len(body)} of a message"
    few = b"[" + b",".join([item] * 1_000) + b"]"
    assert len(to_amqp(few, amqp_body="value")[at.VALUE]) == 1_000


def test_reply_to_for_amqp() -> None:
    for text, address, kind in (("/queue/a", "a", 0), ("/topic/a", "a", 1), ("elsewhere", "elsewhere", None)):
        got = to_amqp(b"x", reply_to=text)
        assert got[at.PROPERTIES][at.REPLY_TO] == address
        assert got[at.MESSAGE_ANNOTATIONS].get("x-opt-jms-reply-to") == kind


def test_a_redelivery_of_a_stomp_message_says_so() -> None:
    gateway = AmqpGateway()
    gateway.connect().send("SEND", b"x", destination="/queue/q")
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q", credit=2)
    receiver.transfers()
    receiver.dispose(0, Released())
    receiver.transfers()
    (payload,) = receiver.payloads
    # durable, priority, ttl are absent, first-acquirer is false, delivery-count is 0
    assert sections_of(payload)[at.HEADER] == [None, None, None, False]
    receiver.dispose(1, Accepted())
    assert gateway.stats("q").depth == 0
    assert not [frame for frame in receiver.take() if isinstance(frame, Disposition)]


# -- and back


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        UByte(1),
        UShort(2),
        UInt(3),
        ULong(4),
        Byte(-5),
        Short(-6),
        Int(-7),
        -8,
        Float(1.5),
        2.5,
        Timestamp(9),
        Char("\u00e4"),
        "text",
        "with:colon\nand\\more",
        Symbol("symbol"),
        b"\x00\xff",
        uuid.UUID(int=10),
    ],
    ids=lambda value: type(value).__name__,
)
def test_types_of_properties_survive_stomp(value: Any) -> None:
    got = through_stomp(message((at.VALUE, "x"), application={"p": value}))
    back = got[at.APPLICATION_PROPERTIES]["p"]
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize(
    "body",
    [
        (at.VALUE, "text"),
        (at.VALUE, ""),
        (at.VALUE, None),
        (at.VALUE, b"octets"),
        (at.DATA, b"octets\x00"),
        (at.VALUE, {"a": "b"}),
        (at.VALUE, ["a", True]),
        (at.SEQUENCE, ["a", True]),
        (at.VALUE, {"not json": Array(0xB0, [b"\xff"])}),
    ],
    ids=str,
)
def test_bodies_survive_stomp(body: tuple[int, Any]) -> None:
    got = through_stomp(message(body))
    assert {code: value for code, value in got.items() if code >= at.DATA} == {body[0]: body[1]}


@pytest.mark.parametrize("identity", ["ID:1", "plain", ULong(7), uuid.UUID(int=7), b"\x01\xff", "ID:AMQP_ULONG:7"])
def test_ids_survive_stomp(identity: Any) -> None:
    got = through_stomp(message((at.VALUE, "x"), properties={at.MESSAGE_ID: identity, at.CORRELATION_ID: identity}))
    properties = got[at.PROPERTIES]
    for place in (at.MESSAGE_ID, at.CORRELATION_ID):
        assert type(properties[place]) is type(identity)
        assert properties[place] == identity


def test_a_stomp_message_passed_on_by_amqp_is_as_it_was() -> None:
    gateway = AmqpGateway()
    stomp = gateway.connect()
    stomp.send("SEND", b"hello", destination="/queue/q", colour="red", type="order", reply_to="/queue/a")
    amqp = gateway.amqp_session()
    amqp.attach_receiver("q", credit=1)
    amqp.transfers()
    (payload,) = amqp.payloads
    amqp.attach_sender("back")
    amqp.transfer(payload)
    stomp.subscribe("/queue/back", ack="auto")
    (received,) = stomp.messages()
    assert received.body == b"hello"
    assert not received.has_length
    assert (received["colour"], received["type"], received["reply-to"]) == ("red", "order", "/queue/a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ULong(5), "ID:AMQP_ULONG:5"),
        (b"\x0a", "ID:AMQP_BINARY:0A"),
        (uuid.UUID(int=1), "ID:AMQP_UUID:00000000-0000-0000-0000-000000000001"),
        ("plain", "plain"),
        ("ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
    ],
)
def test_ids_in_the_form_of_jms(value: Any, text: str) -> None:
    assert id_text(value) == text
    assert id_value(text) == value


@pytest.mark.parametrize("text", ["ID:AMQP_ULONG:x", "ID:AMQP_ULONG:-1", "ID:AMQP_UUID:1", "ID:AMQP_BINARY:0"])
def test_what_only_looks_like_an_id_stays_a_string(text: str) -> None:
    assert id_value(text) == text
    assert id_text(None) is None
    assert id_text("plain", is_message_id=True) == "ID:AMQP_NO_PREFIX:plain"
