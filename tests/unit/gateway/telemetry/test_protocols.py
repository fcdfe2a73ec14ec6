"""A trace goes on between OpenWire and STOMP; tests/interop/test_spans.py has the other protocols."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from config.model import TelemetryConfig
from gateway.process.counters import GatewayCounters
from gateway.telemetry.spans import Spans
from protocols import map_message as words
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Symbol
from protocols.map_message import Typed
from protocols.openwire.wire.property_map import write_map
from tests.support.protocols.amqp_gateway import AmqpGateway, text
from tests.support.protocols.openwire_gateway import OpenWireGateway, queue

TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736
PARENT = f"00-{TRACE:032x}-00f067aa0ba902b7-01"


class TracedAmqpGateway(AmqpGateway):
    def broker_options(self) -> dict[str, Any]:
        self.exporter = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self.exporter)
        return {"tracing": Spans(TelemetryConfig(traces=True), processor, GatewayCounters())}


class TracedGateway(TracedAmqpGateway, OpenWireGateway):
    pass


def test_openwire_to_stomp_and_back() -> None:
    gateway = TracedGateway()
    stomp = gateway.subscriber("/queue/there")
    peer = gateway.openwire_consumer(queue("back"))
    properties = write_map({"traceparent": Typed(words.STRING, PARENT)})
    gateway.connect_openwire().publish(queue("there"), "x", marshalled_properties=properties)
    (received,) = stomp.messages()
    assert received.headers["traceparent"] == PARENT
    stomp.send("SEND", b"y", destination="/queue/back", traceparent=received.headers["traceparent"])
    assert peer.dispatches()
    found = [(span.name, span.context.trace_id) for span in gateway.exporter.get_finished_spans()]
    assert [one for one in found if one[0].startswith("send")] == [("send there", TRACE), ("send back", TRACE)]


@pytest.mark.parametrize("key", ["traceparent", "x-opt-qpid-tracestate"])
def test_an_annotation_of_amqp(key: str) -> None:
    gateway = TracedAmqpGateway()
    value = PARENT if key == "traceparent" else {"traceparent": PARENT}
    annotations = b"\x00\x53\x72" + encode({Symbol(key): value})
    gateway.amqp_sender("queue://there").transfer(annotations + text("x"))
    (span,) = gateway.exporter.get_finished_spans()
    assert (span.name, span.context.trace_id) == ("send there", TRACE)
