"""What the engine reads of an AMQP message by JMS names."""

from __future__ import annotations

import pytest

from engine.values.message import AMQP_1_0, Message
from protocols.amqp.v1_0.mapping.selector_properties import AmqpPropertyReader
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Byte, Symbol, Value


@pytest.mark.parametrize(
    ("address", "kind", "expected"),
    [
        ("answers", None, "queue://answers"),
        ("answers", Byte(1), "topic://answers"),
        ("ID:7", Byte(2), "temp-queue://ID:7"),
        ("ID:7", Byte(3), "temp-topic://ID:7"),
        ("topic://answers", Byte(0), "topic://answers"),
        ("/queue/answers", None, "/queue/answers"),
        ("answers", "odd", "queue://answers"),
        (None, Byte(1), None),
    ],
)
def test_a_reply_to_names_its_kind(address: str | None, kind: Value, expected: str | None) -> None:
    headers = b"" if kind is None else b"\x00\x53\x72" + encode({Symbol("x-opt-jms-reply-to"): kind})
    headers += described_list(0x73, 5, encode(None) * 4 + encode(address))
    message = Message(1, AMQP_1_0, 0, 4, 0, 0, 0, b"", headers, b"")
    assert AmqpPropertyReader().read(message, 1, False).get("JMSReplyTo") == expected


@pytest.mark.parametrize(
    ("annotations", "properties", "expected"),
    [
        ({}, {"traceparent": "p"}, ("p", "")),
        ({}, {"traceparent": "p", "tracestate": "s"}, ("p", "s")),
        ({"traceparent": "a", "tracestate": "t"}, {"traceparent": "p", "tracestate": "s"}, ("a", "t")),
        ({"traceparent": "a"}, {"traceparent": "p", "tracestate": "s"}, ("a", "")),
        ({"tracestate": "t"}, {"traceparent": "p"}, ("p", "")),
        ({"x-opt-qpid-tracestate": {"traceparent": "q", "tracestate": "u"}}, {"traceparent": "p"}, ("q", "u")),
        ({"x-opt-qpid-tracestate": {"uber-trace-id": "q"}}, {"traceparent": "p"}, ("p", "")),
        ({"traceparent": 1, "x-opt-qpid-tracestate": "q"}, {"traceparent": 2}, ("", "")),
        ({}, {}, ("", "")),
    ],
    ids=str,
)
def test_the_trace_context_of_annotations_goes_before_that_of_properties(
    annotations: dict[str, Value], properties: dict[str, Value], expected: tuple[str, str]
) -> None:
    headers = b"\x00\x53\x72" + encode({Symbol(name): value for name, value in annotations.items()})
    headers += b"\x00\x53\x74" + encode(dict(properties))
    message = Message(1, AMQP_1_0, 0, 4, 0, 0, 0, b"", headers, b"")
    assert AmqpPropertyReader().read(message, 1, False).trace_context() == expected


@pytest.mark.parametrize("headers", [b"\x00\x53\x72\xff", b"\x00\x53\x72" + encode([])], ids=["cut", "list"])
def test_unreadable_sections_have_no_trace_context(headers: bytes) -> None:
    message = Message(1, AMQP_1_0, 0, 4, 0, 0, 0, b"", headers, b"")
    assert AmqpPropertyReader().read(message, 1, False).trace_context() == ("", "")
