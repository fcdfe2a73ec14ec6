"""The columns of the bridge for one message that clients of several protocols send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("proton", reason="needs python-qpid-proton (pip builds it from source)")
pytest.importorskip("pyarrow")

from proton import Message, byte, float32, int32, short, symbol

from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.proton_peer import Connect, connections
from tests.support.process.stomp_py import Connect as ConnectStomp
from tests.support.store.lake_rows import TYPED_PROPERTIES, lake_rows, typed_properties

Unique = Callable[[str], str]

OF_ITS_PLACE = ("message_id", "log_offset", "queue_offset", "store_time", "date")
HEADERS = {
    "correlation-id": "c-1",
    "type": "order",
    "reply-to": "/queue/answers",
    "JMSXGroupID": "g",
    "JMSXGroupSeq": "3",
    "colour": "red: ä",
}
PROPERTIES = {
    "correlation_id": "c-1",
    "subject": "order",
    "reply_to": "queue://answers",
    "group_id": "g",
    "group_sequence": 3,
    "properties": {"colour": "red: ä"},
}

# The same body by STOMP (octets, further headers) and by AMQP (fields of proton's Message).
BODIES: dict[str, tuple[str | bytes, dict[str, str], dict[str, Any]]] = {
    "text": ("zwölf", {"amq-msg-type": "text"}, {"body": "zwölf"}),
    "octets": (
        b"\x01\x00\xff",
        {"content-type": "application/octet-stream"},
        {"body": b"\x01\x00\xff", "inferred": True, "content_type": symbol("application/octet-stream")},
    ),
    "octets in a value": (b"\x01\xff", {"amqp-body": "binary"}, {"body": b"\x01\xff"}),
    "json in data": (
        '{"n": 1}',
        {"content-type": "application/json"},
        {"body": b'{"n": 1}', "inferred": True, "content_type": symbol("application/json")},
    ),
    "no body": ("", {}, {"body": None}),
    "map": (
        '{"name": "Ann", "age": 30}',
        {"amq-msg-type": "text", "amqp-body": "value", "content-type": "application/json"},
        {"body": {"name": "Ann", "age": int32(30)}},
    ),
    "list": (
        '[1, "s"]',
        {"amq-msg-type": "text", "amqp-body": "value", "content-type": "application/json"},
        {"body": [int32(1), "s"]},
    ),
    "sequence": (
        '[1, "s"]',
        {"amq-msg-type": "text", "amqp-body": "sequence", "content-type": "application/json"},
        {"body": [int32(1), "s"], "inferred": True},
    ),
}


@pytest.fixture
def connect_amqp(shared_gateway: GatewayProcess) -> Iterator[Connect]:
    """A function that connects; connections are closed at the end of the test."""
    yield from connections(shared_gateway)


def content(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns about the message itself; headers and properties have no order."""
    maps = {name: dict(row[name]) for name in ("headers", "properties")}
    return {name: value for name, value in row.items() if name not in OF_ITS_PLACE} | maps


@pytest.mark.parametrize("body", BODIES)
def test_a_message_has_equal_columns_by_stomp_and_by_amqp(
    body: str, shared_gateway: GatewayProcess, connect: ConnectStomp, connect_amqp: Connect, unique: Unique
) -> None:
    octets, further, fields = BODIES[body]
    connect("1.2").send(f"/queue/{unique('q')}", octets, priority="7", **HEADERS, **further)
    sender = connect_amqp().create_sender(unique("q"))
    sender.send(Message(durable=True, priority=7, **PROPERTIES, **fields))
    by_stomp, by_amqp = lake_rows(shared_gateway.data, unique("q"))
    by_stomp, by_amqp = content(by_stomp), content(by_amqp)
    by_stomp["headers"].pop("amq-msg-type", None)
    assert by_amqp["headers"] == by_stomp["headers"]
    assert by_amqp == by_stomp
    assert typed_properties(by_amqp) == {"colour": ("string", "string", "red: ä")}
    assert by_amqp["priority"] == 7
    assert by_amqp["headers"]["colour"] == "red: ä"
    assert (by_amqp["group_id"], by_amqp["group_sequence"], by_amqp["lane"]) == ("g", 3, 7)
    assert by_amqp["content_type"] == by_amqp["headers"].get("content-type")
    assert (by_amqp["correlation_id"], by_amqp["type"], by_amqp["reply_to"]) == ("c-1", "order", "/queue/answers")


def test_typed_properties_are_equal_by_stomp_and_by_amqp(
    shared_gateway: GatewayProcess, connect: ConnectStomp, connect_amqp: Connect, unique: Unique
) -> None:
    typed = {"yes": True, "byte": byte(1), "short": short(2), "int": int32(3), "long": 4, "float": float32(1.5)}
    sender = connect_amqp().create_sender(unique("q"))
    sender.send(Message(durable=True, body="x", properties=typed | {"double": 2.5, "text": "five"}))
    texts = {"yes": "true", "byte": "1", "short": "2", "int": "3", "long": "4", "float": "1.5", "double": "2.5"}
    types = ",".join(f"{name}={TYPED_PROPERTIES[name][0]}" for name in texts)
    headers = texts | {"text": "five", "amqp-property-types": types, "amq-msg-type": "text"}
    connect("1.2").send(f"/queue/{unique('q')}", "x", **headers)
    rows = lake_rows(shared_gateway.data, unique("q"))
    assert [typed_properties(row) for row in rows] == [TYPED_PROPERTIES] * 2
    assert content(rows[0]) == content(rows[1])


def test_the_body_is_what_a_stomp_consumer_gets(
    shared_gateway: GatewayProcess, connect: ConnectStomp, connect_amqp: Connect, unique: Unique
) -> None:
    sender = connect_amqp().create_sender(unique("q"))
    for _, _, fields in BODIES.values():
        sender.send(Message(durable=True, properties={"n": int32(7)}, **fields))
    client = connect("1.2", auto_decode=False)
    client.subscribe(f"/queue/{unique('q')}")
    rows = lake_rows(shared_gateway.data, unique("q"))
    assert len(rows) == len(BODIES)
    for row in rows:
        got = client.message()
        assert (row["body"] if row["body_text"] is None else row["body_text"].encode()) == got.body
        headers = dict(row["headers"])
        assert headers["amqp-property-types"] == "n=int"
        assert headers.items() <= got.headers.items()
