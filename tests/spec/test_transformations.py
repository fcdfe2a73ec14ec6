"""``transformation`` on SEND and SUBSCRIBE, over STOMP and to and from AMQP's MapMessages (docs/reference/stomp.md)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from engine.values.message import STOMP, TEXT
from protocols.amqp.v1_0.mapping.contents import Contents, read_contents
from protocols.amqp.v1_0.mapping.jms_types import MAP_MESSAGE, OBJECT_MESSAGE, TEXT_MESSAGE
from protocols.amqp.v1_0.wire.messages.sections import VALUE
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Char, Decimal, Float, Int, Short, Symbol, UInt, ULong
from protocols.broker_headers import JMS_TYPE
from protocols.map_message import BYTES_MAX, JSON, XML, read_map, write_map
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.stomp_gateway import Peer, Received

VERSIONS = ["1.0", "1.1", "1.2"]
MAP_XML = (
    b"<map>\n  <entry>\n    <string>name</string>\n    <string>Ann: 1</string>\n  </entry>\n"
    b"  <entry>\n    <string>age</string>\n    <int>30</int>\n  </entry>\n</map>"
)
MAP_JSON = b'{"map":{"entry":[{"string":["name","Ann: 1"]},{"string":"age","int":30}]}}'
TEXTS = {XML: MAP_XML, JSON: MAP_JSON}


def contents(octets: bytes) -> Contents:
    return read_contents(octets, octets)


def map_octets(value: Any, jms_type: int | None = MAP_MESSAGE, **properties: str) -> bytes:
    octets = b"" if jms_type is None else b"\x00\x53\x72" + encode({Symbol(JMS_TYPE): Byte(jms_type)})
    if properties:
        octets += b"\x00\x53\x74" + encode(dict(properties))
    return octets + b"\x00\x53\x77" + encode(value)


def to_amqp(body: bytes, **headers: str) -> Contents:
    """Return what an AMQP receiver gets of a SEND."""
    gateway = AmqpGateway()
    peer = gateway.connect()
    peer.publish("/queue/q", body, **headers)
    receiver = gateway.amqp_session()
    receiver.attach_receiver("q")
    receiver.credit(1, 10)
    octets = b"".join(receiver.messages())
    return contents(octets)


def from_amqp(octets: bytes, transformation: str, version: str = "1.2") -> Received:
    gateway = AmqpGateway()
    sender = gateway.amqp_sender("q")
    sender.transfer(octets)
    peer = gateway.connect(version)
    peer.subscribe("/queue/q", "auto", transformation=transformation)
    (message,) = peer.messages()
    return message


def subscribed(transformation: str, version: str = "1.2") -> Peer:
    peer = AmqpGateway().connect(version)
    peer.subscribe("/queue/q", "auto", transformation=transformation)
    return peer


# -- SEND


@pytest.mark.parametrize("form", [XML, JSON])
def test_amqp_gets_a_map_message(form: str) -> None:
    found = to_amqp(TEXTS[form], transformation=form)
    assert (found.annotation(JMS_TYPE), found.body_kind) == (MAP_MESSAGE, VALUE)
    assert found.sections == [{"name": "Ann: 1", "age": 30}]
    assert [type(value) for value in found.sections[0].values()] == [str, Int]
    assert found.application_properties == {"transformation": form}


def test_every_type_arrives_as_it_is() -> None:
    text = b"".join(
        b"<entry><string>%b</string><%b>%b</%b></entry>" % (kind, kind, value, kind)
        for kind, value in [
            (b"boolean", b"true"),
            (b"byte", b"-1"),
            (b"short", b"2"),
            (b"int", b"3"),
            (b"long", b"4"),
            (b"float", b"1e300"),
            (b"double", b"0.5"),
            (b"char", b"x"),
            (b"string", b"s"),
            (b"byte-array", b"AAE="),
            (b"null", b""),
            (b"list", b"<int>1</int><null/>"),
            (b"map", b"<entry><string>k</string><long>1</long></entry>"),
        ]
    )
    (found,) = to_amqp(b"<map>%b</map>" % text, transformation=XML).sections
    inner = [type(value) for value in found.values()]
    kinds: list[type] = [bool, Byte, Short, Int, int, Float, float, Char, str, bytes, type(None), list, dict]
    assert inner == kinds
    assert (found["float"], found["byte-array"], found["list"], found["map"]) == (
        float("inf"),
        b"\0\1",
        [1, None],
        {"k": 1},
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", [XML, JSON])
def test_what_is_no_map_goes_on_with_the_reason(form: str, version: str) -> None:
    peer = AmqpGateway().connect(version)
    peer.subscribe("/queue/q", "auto", id="s")
    peer.publish("/queue/q", b"Hello", b"Hello again", TEXTS[form], b"Hello", transformation=form)
    first, second, third, fourth = peer.messages()
    assert [one.body for one in (first, second, third, fourth)] == [b"Hello", b"Hello again", TEXTS[form], b"Hello"]
    for one in (first, second, fourth):
        assert one["transformation-error"].startswith("the text is no "), one
    assert "transformation-error" not in third.headers


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"Hello", {"transformation": XML}),
        (b" " * BYTES_MAX + MAP_XML, {"transformation": XML}),
        (MAP_XML, {"transformation": "jms-object-xml"}),
        (MAP_XML, {"transformation": "unknown"}),
    ],
)
def test_amqp_gets_the_text_of_what_is_no_map(body: bytes, headers: dict[str, str]) -> None:
    found = to_amqp(body, **headers)
    assert (found.annotation(JMS_TYPE), found.sections) == (TEXT_MESSAGE, [body.decode()])
    assert found.application_properties["transformation-error"]


def test_a_body_of_octets_is_never_a_map() -> None:
    found = to_amqp(MAP_XML, transformation=XML, content_length=str(len(MAP_XML)))
    assert found.sections == [MAP_XML]
    assert found.application_properties == {"transformation": XML}


def test_a_scheduled_map_is_looked_at_each_time() -> None:
    gateway = AmqpGateway()
    peer = gateway.subscriber("/queue/q", "auto")
    peer.publish("/queue/q", MAP_XML, b"Hello", transformation=XML, AMQ_SCHEDULED_DELAY="10")
    gateway.advance(1_000)
    good, bad = peer.messages()
    assert "transformation-error" not in good.headers
    assert "transformation-error" in bad.headers


# -- SUBSCRIBE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sent", [XML, JSON])
@pytest.mark.parametrize(
    ("asked", "form"),
    [
        ("jms-map-xml", XML),
        ("jms-map-json", JSON),
        ("jms-xml", XML),
        ("jms-json", JSON),
        ("jms-object-xml", XML),
        ("jms-object-json", JSON),
    ],
)
def test_a_map_becomes_what_was_asked_for(asked: str, form: str, sent: str, version: str) -> None:
    peer = subscribed(asked, version)
    peer.publish("/queue/q", TEXTS[sent], transformation=sent, colour="a:b")
    (message,) = peer.messages()
    assert (message["transformation"], message["colour"], message.has_length) == (form, "a:b", False)
    assert message.body == TEXTS[form]


def test_ack_mode_client_gets_the_same() -> None:
    peer = AmqpGateway().subscriber("/queue/q", "client", transformation="jms-json")
    peer.publish("/queue/q", MAP_XML, transformation=XML, persistent="true")
    (message,) = peer.messages()
    assert message.body == MAP_JSON
    peer.send_confirmed("ACK", id=message["ack"])


def test_each_subscription_of_a_topic_gets_its_own_form() -> None:
    gateway = AmqpGateway()
    forms = ["jms-xml", "jms-json", ""]
    peers = [gateway.connect() for _ in forms]
    for peer, form in zip(peers, forms, strict=True):
        peer.subscribe("/topic/t", "auto", **({"transformation": form} if form else {}))
    gateway.connect().publish("/topic/t", MAP_JSON, transformation=JSON)
    assert [peer.messages()[0].body for peer in peers] == [MAP_XML, MAP_JSON, MAP_JSON]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"Hello", {}),
        (b"Hello", {"transformation": "unknown"}),
        (b"Hello", {"transformation": JSON}),
        (MAP_JSON, {"transformation": JSON, "content_length": str(len(MAP_JSON))}),
    ],
)
def test_what_is_no_map_is_delivered_as_it_is(body: bytes, headers: dict[str, str]) -> None:
    peer = subscribed("jms-xml")
    peer.publish("/queue/q", body, **headers)
    assert peer.bodies() == [body]


def test_an_unknown_transformation_is_a_warning() -> None:
    peer = subscribed("jms-yaml")
    assert peer.link.warnings == ["SUBSCRIBE has a header 'transformation' that has no effect here"]
    peer.publish("/queue/q", MAP_JSON, transformation=JSON)
    assert peer.bodies() == [MAP_JSON]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("asked", "form"), [("jms-xml", XML), ("jms-map-json", JSON)])
@pytest.mark.parametrize("jms_type", [MAP_MESSAGE, None])
def test_amqp_s_map_message_becomes_what_was_asked_for(
    asked: str, form: str, jms_type: int | None, version: str
) -> None:
    message = from_amqp(map_octets({"name": "Ann: 1", "age": Int(30)}, jms_type, colour="a:b"), asked, version)
    assert message.body == TEXTS[form]
    assert (message["transformation"], message["colour"], message.has_length) == (form, "a:b", False)
    assert not {"amqp-body", "content-type", "transformation-error"} & message.headers.keys()


@pytest.mark.parametrize("form", [XML, JSON])
def test_types_of_amqp_are_told(form: str) -> None:
    values = {"u": UInt(7), "b": b"\0", "c": Char("x"), "i": uuid.UUID(int=1), "n": None, "m": {"l": [Byte(1)]}}
    found = read_map(from_amqp(map_octets(values), form).body, form)
    kinds = {name: typed.kind for name, typed in found.items()}
    assert kinds == {"u": "long", "b": "byte-array", "c": "char", "i": "string", "n": "null", "m": "map"}
    assert write_map(found, form)


def _deep() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(20):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (map_octets({"x": Decimal(b"\0" * 4)}), "a Decimal cannot be in a map"),
        (map_octets({"x": ULong(2**64 - 1)}), "a ULong cannot be in"),
        (map_octets({Int(1): "x"}), "the name of an entry is a Int"),
        (map_octets({"x": "\x01"}), "XML cannot hold"),
        (map_octets(_deep()), "inside each other"),
        (map_octets({"x": "'" * 12_000}), "the limit is 65536"),
        (map_octets({"x": [None] * 5_000}), "more than 5000 entries and items"),
        (map_octets({"x": 1}, OBJECT_MESSAGE), "an ObjectMessage needs Java"),
    ],
)
def test_a_map_that_cannot_be_told_comes_as_it_is_with_the_reason(octets: bytes, reason: str) -> None:
    message = from_amqp(octets, "jms-xml")
    assert reason in message["transformation-error"]
    assert message.body, "what it is without a transformation"


@pytest.mark.parametrize("octets", [map_octets("Hello", TEXT_MESSAGE), map_octets(["Hello"], None)])
def test_amqp_s_other_messages_are_left_alone(octets: bytes) -> None:
    message = from_amqp(octets, "jms-xml")
    assert b"Hello" in message.body
    assert not {"transformation", "transformation-error"} & message.headers.keys()


def test_it_is_stored_as_it_came() -> None:
    gateway = AmqpGateway()
    gateway.connect().publish("/queue/q", MAP_JSON, transformation=JSON)
    (lane,) = gateway.queue_there("q").used_lanes
    message = lane.ready[0].message
    assert (message.encoding, message.body, message.flags & TEXT) == (STOMP, MAP_JSON, TEXT)
