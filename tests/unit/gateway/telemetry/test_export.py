"""Spans on their way to a collector: what does not fit is counted, and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gateway.process.counters import GatewayCounters
from gateway.telemetry.export import BATCH_MAX, QUEUE_MAX, BoundedQueue


class SlowCollector(SpanExporter):
    """Takes nothing until ``opened`` is set; then it refuses the first batch.  entered: it was asked once."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.sizes: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        assert self.opened.wait(60)
        self.sizes.append(len(spans))
        return SpanExportResult.FAILURE if len(self.sizes) == 1 else SpanExportResult.SUCCESS


def test_a_full_queue_drops_and_counts() -> None:
    collector, counters = SlowCollector(), GatewayCounters()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BoundedQueue(collector, counters))
    tracer = provider.get_tracer("test")
    for _ in range(BATCH_MAX):
        tracer.start_span("first batch").end()
    assert collector.entered.wait(60)  # with the first batch, which it holds
    for _ in range(QUEUE_MAX + 5):
        tracer.start_span("waiting").end()
    assert (counters.spans, counters.dropped_spans) == (BATCH_MAX + QUEUE_MAX, 5)
    collector.opened.set()
    provider.shutdown()
    assert sum(collector.sizes) == BATCH_MAX + QUEUE_MAX
    assert counters.failed_spans == collector.sizes[0] == BATCH_MAX
