"""Messages between OpenWire and the other protocols, typed, and temporary destinations."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from engine.values.destination import ADVISORY_PREFIX
from protocols import map_message as words
from protocols.amqp.v1_0.mapping.contents import read_contents
from protocols.amqp.v1_0.mapping.jms_types import (
    BYTES_MESSAGE,
    MAP_MESSAGE,
    OBJECT_MESSAGE,
    STREAM_MESSAGE,
    TEXT_MESSAGE,
)
from protocols.amqp.v1_0.wire.types.value_encoder import encode as amqp_value
from protocols.amqp.v1_0.wire.types.values import Byte, Described, Float, Int, Short, Symbol, UInt, ULong, Value
from protocols.broker_headers import JMS_TYPE
from protocols.map_message import Map, Typed, read_map
from protocols.message_lines import JAVA_OBJECT, MESSAGE_ID_HEADER, TYPES_HEADER
from protocols.openwire.mapping.contents import text_content, text_of
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    ConsumerInfo,
    DestinationInfo,
    MessageDispatch,
    RemoveInfo,
)
from protocols.openwire.wire.identities import ConnectionId, Destination
from protocols.openwire.wire.messages import (
    BytesMessage,
    MapMessage,
    ObjectMessage,
    StreamMessage,
    TextMessage,
    WireMessage,
)
from protocols.openwire.wire.property_map import read_map as read_property_map
from protocols.openwire.wire.property_map import read_stream, write_map, write_stream
from tests.support.engine.engine_world import address
from tests.support.protocols.openwire_gateway import (
    OpenWireGateway,
    OpenWirePeer,
    message_in,
    queue,
    strings,
    topic,
)

PROPERTIES: Map = {
    "flag": Typed(words.BOOLEAN, True),
    "n": Typed(words.INT, 7),
    "big": Typed(words.LONG, 1 << 40),
    "small": Typed(words.BYTE, -3),
    "half": Typed(words.DOUBLE, 0.5),
    "colour": Typed(words.STRING, "röd"),
}
MAP: Map = {"i": Typed(words.INT, 5), "s": Typed(words.STRING, "x"), "b": Typed(words.BYTES, b"\x09")}
STREAM = [Typed(words.LONG, 8), Typed(words.STRING, "s")]


def compressed(content: bytes, *, sized: bool = False) -> dict[str, Any]:
    size = len(content).to_bytes(4, "big") if sized else b""
    return {"compressed": True, "content": size + zlib.compress(content)}


# -- to others

BODIES = [
    pytest.param(TextMessage, {"content": text_content("hé \0 😀")}, "hé \0 😀".encode(), TEXT_MESSAGE, id="text"),
    pytest.param(TextMessage, compressed(text_content("hé")), "hé".encode(), TEXT_MESSAGE, id="deflated text"),
    pytest.param(TextMessage, {"content": b"\xff\xff\xff\xff"}, b"", TEXT_MESSAGE, id="null text"),
    pytest.param(BytesMessage, {"content": b"\1\xff"}, b"\1\xff", BYTES_MESSAGE, id="bytes"),
    pytest.param(BytesMessage, compressed(b"\1\xff", sized=True), b"\1\xff", BYTES_MESSAGE, id="deflated bytes"),
    pytest.param(StreamMessage, {"content": write_stream(STREAM)}, b'[8, "s"]', STREAM_MESSAGE, id="stream"),
    pytest.param(ObjectMessage, {"content": b"\xac\xed\0"}, b"\xac\xed\0", OBJECT_MESSAGE, id="object"),
    pytest.param(MapMessage, {"content": write_map(MAP)}, None, MAP_MESSAGE, id="map"),
    pytest.param(WireMessage, {}, b"", BYTES_MESSAGE, id="plain"),
]


@pytest.mark.parametrize(("made", "fields", "body", "kind"), BODIES)
def test_stomp_and_amqp_get_what_openwire_sends(
    made: type[WireMessage], fields: dict[str, Any], body: bytes | None, kind: int
) -> None:
    gateway = OpenWireGateway()
    stomp = gateway.subscriber("/topic/t")
    amqp = gateway.amqp_session()
    amqp.attach_receiver("topic://t", credit=10)
    peer = gateway.connect_openwire()
    message = peer.message(
        topic("t"),
        "",
        made,
        correlation_id="c:1",
        type="order",
        reply_to=queue("answers"),
        priority=7,
        group_id="g",
        marshalled_properties=write_map(PROPERTIES),
        **fields,
    )
    peer.send(message)
    (received,) = stomp.messages()
    assert received["correlation-id"] == "c:1"
    assert received["type"] == "order"
    assert received["reply-to"] == "/queue/answers"
    assert received["priority"] == "7"
    assert received["JMSXGroupID"] == "g"
    assert (received["n"], received["colour"], received["flag"]) == ("7", "röd", "true")
    assert received[TYPES_HEADER] == "flag=boolean,n=int,big=long,small=byte,half=double"
    assert received[MESSAGE_ID_HEADER] == str(message.message_id)
    if body is None:
        assert read_map(received.body, received["transformation"]) == MAP
    else:
        assert received.body == body
    amqp.take()
    (payload,) = [one for one in amqp.payloads if one]
    contents = read_contents(payload, payload)
    assert contents.annotation(JMS_TYPE) == kind
    assert contents.application_properties["n"] == Int(7)
    assert type(contents.application_properties["n"]) is Int
    assert contents.application_properties["half"] == 0.5
    assert contents.field(0) == str(message.message_id)
    if made is MapMessage:
        assert contents.sections == [{"i": 5, "s": "x", "b": b"\x09"}]
    elif made is ObjectMessage:
        assert contents.field(6) == JAVA_OBJECT
        assert contents.sections == [body]


def test_a_content_that_cannot_be_read_comes_as_it_was() -> None:
    gateway = OpenWireGateway()
    stomp = gateway.subscriber("/queue/q")
    peer = gateway.connect_openwire()
    peer.publish(queue("q"), "", content=b"\0\0\0\x09short")
    (received,) = stomp.messages()
    assert received["content-type"] == "application/vnd.openwire"
    assert received.body == b"\0\0\0\x09short"
    assert stomp.link.conversion_faults == []


# -- from others


def test_openwire_gets_what_stomp_sends() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    stomp = gateway.connect()
    headers = {"correlation-id": "c", "type": "order", "JMSXGroupID": "g", "colour": "red", "priority": "8"}
    stomp.publish("/queue/q", "hé 😀".encode(), persistent="true", reply_to="/queue/answers", **headers)
    stomp.send("SEND", b"\1\xff", destination="/queue/q", content_length="2")
    form = json.dumps({"map": {"entry": [{"string": "a", "int": 5}]}}).encode()
    stomp.publish("/queue/q", form, transformation="jms-map-json")
    text, octets, the_map = (message_in(one) for one in peer.dispatches())
    assert (text.CODE, text_of(text.content)) == (TextMessage.CODE, "hé 😀")
    assert (text.correlation_id, text.type, text.group_id, text.priority) == ("c", "order", "g", 8)
    assert text.persistent
    assert text.reply_to == queue("answers")
    assert read_properties(text.marshalled_properties) == strings(colour="red")
    assert (octets.CODE, octets.content) == (BytesMessage.CODE, b"\1\xff")
    assert the_map.CODE == MapMessage.CODE
    assert read_property_map(the_map.content or b"") == {"a": Typed(words.INT, 5)}


def sections(value: Value, **properties: Value) -> bytes:
    named: dict[Value, Value] = dict(properties)
    return amqp_value(Described(ULong(0x74), named)) + amqp_value(Described(ULong(0x77), value))


def test_openwire_gets_what_amqp_sends() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    sender = gateway.amqp_sender("queue://q")
    sender.transfer(sections("hé", n=Int(7), u=UInt(9), s=Symbol("y")), settled=True)
    sender.transfer(sections({"i": Int(5), "d": 0.5}), settled=True)
    sender.transfer(sections({"b": b"\1\xff"}), settled=True)
    sender.transfer(amqp_value(Described(ULong(0x76), [1, "s"])), settled=True)
    sender.transfer(amqp_value(Described(ULong(0x75), b"\1\xff")), settled=True)
    text, the_map, map_of_octets, stream, octets = (message_in(one) for one in peer.dispatches())
    assert text_of(text.content) == "hé"
    assert read_property_map(map_of_octets.content or b"") == {"b": Typed(words.BYTES, b"\1\xff")}
    assert read_properties(text.marshalled_properties) == {
        "n": Typed(words.INT, 7),
        "u": Typed(words.LONG, 9),
        "s": Typed(words.STRING, "y"),
    }
    assert read_property_map(the_map.content or b"") == {"i": Typed(words.INT, 5), "d": Typed(words.DOUBLE, 0.5)}
    assert read_stream(stream.content or b"") == [Typed(words.BYTE, 1), Typed(words.STRING, "s")]
    assert octets.content == b"\1\xff"


TYPES: dict[str, Any] = {words.BYTE: Byte, words.SHORT: Short, words.INT: Int, words.FLOAT: Float}
NUMBERS = [
    (words.BYTE, -128), (words.SHORT, 128), (words.INT, 2**15), (words.INT, -(2**31)), (words.LONG, 2**31),
    (words.LONG, 2**63 - 1), (words.FLOAT, 1.5), (words.DOUBLE, 0.1), (words.DOUBLE, 1e300), (words.BOOLEAN, True),
]  # fmt: skip


def test_numbers_of_a_stream_cross_in_the_smallest_type_which_jms_reads_as_any_larger_one() -> None:
    gateway = OpenWireGateway()
    amqp, stomp = gateway.amqp_session(), gateway.connect()
    amqp.attach_receiver("topic://t", credit=10)
    peer = gateway.openwire_consumer(topic("t"))
    stomp.publish("/topic/t", json.dumps([value for _, value in NUMBERS]).encode(), amqp_body="sequence")
    (dispatch,) = peer.dispatches()
    assert read_stream(message_in(dispatch).content or b"") == [Typed(kind, value) for kind, value in NUMBERS]
    (payload,) = amqp.messages()
    sequence = [
        value if kind in (words.LONG, words.DOUBLE, words.BOOLEAN) else TYPES[kind](value) for kind, value in NUMBERS
    ]
    assert payload.endswith(amqp_value(Described(ULong(0x76), sequence)))


@pytest.mark.parametrize("key", ["", "JMSXGroupFirstForConsumer"])
def test_the_first_message_of_a_group_is_marked_in_its_field(key: str) -> None:
    gateway = OpenWireGateway(address("q", queue__group_first_key=key))
    peer = gateway.openwire_consumer(queue("q"))
    producer = gateway.connect_openwire()
    producer.publish(queue("q"), "a", "b", group_id="g")
    producer.publish(queue("q"), "c")
    marks = [message_in(one).jmsx_group_first_for_consumer for one in peer.dispatches()]
    assert marks == [True, False, False]
    peer.vanish()
    again = gateway.openwire_consumer(queue("q")).dispatches()
    assert [message_in(one).jmsx_group_first_for_consumer for one in again] == marks


def test_ids_of_other_protocols_rise_and_stay() -> None:
    gateway = OpenWireGateway()
    peer = gateway.openwire_consumer(queue("q"))
    gateway.connect().publish("/queue/q", b"a", b"b", persistent="true")
    first, second = (message_in(one).message_id for one in peer.dispatches())
    assert first is not None and second is not None
    assert first.producer_id == second.producer_id
    assert 1 <= first.sequence < second.sequence < 2**31
    peer.vanish()
    again = [message_in(one).message_id for one in gateway.openwire_consumer(queue("q")).dispatches()]
    assert [(one.producer_id, one.sequence, one.text_view) for one in again if one is not None] == [
        (one.producer_id, one.sequence, one.text_view) for one in (first, second)
    ]


def test_a_message_there_and_back_is_the_same() -> None:
    gateway = OpenWireGateway()
    stomp = gateway.subscriber("/queue/there")
    peer = gateway.openwire_consumer(queue("back"))
    producer = gateway.connect_openwire()
    producer.publish(queue("there"), "hé", marshalled_properties=write_map(PROPERTIES), correlation_id="c")
    (received,) = stomp.messages()
    kept = {name: text for name, text in received.headers.items() if name in (*PROPERTIES, TYPES_HEADER)}
    stomp.send("SEND", received.body, destination="/queue/back", **kept)
    (dispatch,) = peer.dispatches()
    assert read_properties(message_in(dispatch).marshalled_properties) == PROPERTIES
    assert text_of(message_in(dispatch).content) == "hé"


# -- temporary destinations


def temporary(peer: OpenWirePeer) -> Destination:
    return Destination(identities.TEMP_QUEUE, f"{peer.connection_id}:1")


def add(peer: OpenWirePeer, operation: int = 0) -> DestinationInfo:
    return DestinationInfo(
        connection_id=ConnectionId(peer.connection_id), destination=temporary(peer), operation_type=operation
    )


ADVISORIES = topic(f"{ADVISORY_PREFIX}TempQueue,{ADVISORY_PREFIX}TempTopic")


def watch(peer: OpenWirePeer) -> None:
    peer.send(ConsumerInfo(50, True, consumer_id=peer.consumer_id(-1), destination=ADVISORIES, prefetch_size=1_000))


def heard(peer: OpenWirePeer) -> list[tuple[Destination | None, int]]:
    """Return what advisories say; messages beside them are left out."""
    found = []
    for one in peer.take():
        if isinstance(one, MessageDispatch) and message_in(one).type == "Advisory":
            info = message_in(one).data_structure
            assert isinstance(info, DestinationInfo)
            found.append((info.destination, info.operation_type))
    return found


def server_of(gateway: OpenWireGateway, host: str = "198.51.100.9") -> OpenWirePeer:
    server = gateway.connect_openwire()
    server.link.address = f"{host}:1"
    watch(server)
    server.consume(topic("rpc"), 2)
    server.take()
    return server


def test_clients_hear_of_temporary_destinations_that_messages_name() -> None:
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire()
    watch(owner)
    owner.take()
    server = server_of(gateway)
    owner.send(add(owner))
    name = temporary(owner)
    assert heard(owner) == [(name, 0)]
    assert heard(server) == []
    owner.send(owner.message(topic("rpc"), "ask", reply_to=name))
    advisory, dispatch = server.dispatches()
    assert message_in(advisory).data_structure == DestinationInfo(
        connection_id=ConnectionId(owner.connection_id), destination=name
    )
    assert message_in(dispatch).reply_to == name
    owner.send(owner.message(topic("rpc"), "ask", reply_to=name))
    assert heard(server) == []
    owner.send(add(owner, 1))
    assert heard(owner) == heard(server) == [(name, 1)]
    owner.send(owner.message(topic("rpc"), "ask", reply_to=name))
    assert heard(server) == []


def test_who_knew_a_temporary_destination_hears_that_it_is_back() -> None:
    """The requester reconnects, and the server still has its request."""
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire()
    owner.send(add(owner))
    name = temporary(owner)
    server, other = server_of(gateway), server_of(gateway, "198.51.100.10")
    owner.send(owner.message(topic("rpc"), "ask", reply_to=name))
    assert heard(server) == heard(other) == [(name, 0)]
    owner.vanish()
    assert heard(server) == heard(other) == [(name, 1)]
    other.vanish()
    again = gateway.connect_openwire(connection_id=owner.connection_id, failover_reconnect=True)
    again.send(add(again))
    assert heard(server) == [(name, 0)]
    last = gateway.connect_openwire(connection_id=owner.connection_id, failover_reconnect=True)  # takes it over
    last.send(add(last))
    assert heard(server) == [(name, 1), (name, 0)]


def test_other_connections_of_an_application_may_answer() -> None:
    """It may take a message on one connection, and send on another, from a pool."""
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire()
    owner.send(add(owner))
    name = temporary(owner)
    sender, stranger = gateway.connect_openwire(), gateway.connect_openwire()
    stranger.link.address = "198.51.100.10:1"
    sender.link.address = "198.51.100.9:2"
    watch(sender)
    watch(stranger)
    server = server_of(gateway)
    owner.send(owner.message(topic("rpc"), "ask", reply_to=name))
    assert heard(server) == heard(sender) == [(name, 0)]
    late = server_of(gateway)
    watch(late)
    late.take()
    last = gateway.connect_openwire()
    last.link.address = "198.51.100.9:3"
    watch(last)
    assert heard(last) == [(name, 0)]
    server.vanish()
    owner.send(add(owner, 1))
    assert heard(sender) == heard(last) == [(name, 1)]
    assert heard(stranger) == []


def test_many_advisories_take_several_turns() -> None:
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire()
    watch(owner)
    for number in range(400):
        owner.send(
            DestinationInfo(
                connection_id=ConnectionId(owner.connection_id),
                destination=Destination(identities.TEMP_QUEUE, f"{owner.connection_id}:{number}"),
            )
        )
    assert len(heard(owner)) == 400
    late = gateway.connect_openwire()
    watch(late)
    gateway.advance(100)
    assert len(heard(late)) == 400
    owner.vanish()
    gateway.advance(100)
    assert [operation for _, operation in heard(late)] == [1] * 400


@pytest.mark.parametrize("version", [9, 12])
def test_a_text_that_looks_like_a_temporary_destination(version: int) -> None:
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire(version=version)
    server = server_of(gateway)
    looks = b"\x01\x66\x01\0\x01x".decode()
    owner.send(owner.message(topic("rpc"), "ask", correlation_id=looks, type=looks))
    (dispatch,) = server.dispatches()
    assert message_in(dispatch).correlation_id == looks


def test_few_consumers_of_a_connection_take_advisories() -> None:
    peer = OpenWireGateway().connect_openwire()
    for number in range(1, 11):
        peer.consume(ADVISORIES, number)
    info = ConsumerInfo(consumer_id=peer.consumer_id(11), destination=ADVISORIES)
    assert peer.refused(info).class_name == "javax.jms.ResourceAllocationException"
    peer.send(RemoveInfo(object_id=peer.consumer_id(1)))
    peer.ask(info)


def test_request_and_reply() -> None:
    gateway = OpenWireGateway()
    asker = gateway.connect_openwire()
    asker.ask(add(asker))
    asker.consume(temporary(asker))
    server = gateway.openwire_consumer(queue("rpc"))
    asker.send(asker.message(queue("rpc"), "ask", reply_to=temporary(asker)))
    (dispatch,) = server.dispatches()
    reply_to = message_in(dispatch).reply_to
    assert reply_to == temporary(asker)
    server.send(server.message(reply_to, "answer"))
    assert asker.texts() == ["answer"]
    assert asker.refused(add(asker, 1)).class_name == "javax.jms.JMSException"  # it has a consumer
    asker.send(RemoveInfo(object_id=asker.consumer_id()))
    asker.ask(add(asker, 1))
    assert (
        server.refused(server.message(temporary(asker), "late")).class_name == "javax.jms.InvalidDestinationException"
    )


def test_others_answer_to_temporary_queues() -> None:
    gateway = OpenWireGateway()
    asker = gateway.connect_openwire()
    asker.ask(add(asker))
    asker.consume(temporary(asker))
    stomp = gateway.subscriber("/queue/rpc")
    asker.send(asker.message(queue("rpc"), "ask", reply_to=temporary(asker)))
    (request,) = stomp.messages()
    stomp.publish(request["reply-to"], b"answer")
    assert asker.texts() == ["answer"]


@pytest.mark.parametrize(("kind", "shown_as"), [("queue", identities.QUEUE), ("topic", identities.TOPIC)])
def test_openwire_answers_to_temporary_destinations_of_others(kind: str, shown_as: int) -> None:
    gateway = OpenWireGateway()
    stomp = gateway.subscriber(f"/temp-{kind}/answers", ack="auto")
    server = gateway.openwire_consumer(queue("rpc"))
    stomp.publish("/queue/rpc", b"ask", reply_to=f"/temp-{kind}/answers")
    (dispatch,) = server.dispatches()
    reply_to = message_in(dispatch).reply_to
    assert reply_to is not None
    assert reply_to.kind == shown_as  # clients publish to temporary ones only if they have heard of them
    server.send(server.message(reply_to, "answer"))
    assert stomp.bodies() == [b"answer"]
    stomp.vanish()
    assert server.refused(server.message(reply_to, "late")).class_name == "javax.jms.InvalidDestinationException"


def test_a_temporary_destination_of_another_connection() -> None:
    gateway = OpenWireGateway()
    owner = gateway.connect_openwire()
    owner.ask(add(owner))
    thief = gateway.connect_openwire()
    info = ConsumerInfo(consumer_id=thief.consumer_id(), destination=temporary(owner), prefetch_size=1)
    assert "belongs to another connection" in thief.refused(info).message


def test_destinations_are_made_by_their_use() -> None:
    peer = OpenWireGateway().connect_openwire()
    exception = peer.refused(DestinationInfo(destination=queue("q"), operation_type=1))
    assert "cannot add or remove queue://q" in exception.message


def test_a_small_content_inflates_to_little() -> None:
    gateway = OpenWireGateway()
    stomp = gateway.subscriber("/queue/q")
    bomb = zlib.compress(b"x" * 50_000_000)
    gateway.connect_openwire().publish(queue("q"), "", compressed=True, content=bomb)
    (received,) = stomp.messages()
    assert received["content-type"] == "application/vnd.openwire"
    assert received.body == bomb
