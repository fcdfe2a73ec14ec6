"""Exports spans to a collector by OTLP over HTTP, on the SDK's own thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from config.model import TelemetryConfig
from gateway.process.counters import GatewayCounters
from gateway.telemetry.guarded_tracing import Tracer
from gateway.telemetry.spans import Spans

QUEUE_MAX: Final = 2_048  # spans that wait for the exporter
BATCH_MAX: Final = 512
STOP_PATIENCE_S: Final = 5.0

log: Final = logging.getLogger("penstock")


class CountedExporter(SpanExporter):
    """Counts what another exporter takes, and what it cannot deliver; called on the SDK's thread alone.

    taken: spans it was given.
    """

    def __init__(self, exporter: SpanExporter, counters: GatewayCounters) -> None:
        self._exporter = exporter
        self._counters = counters
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            if result is not SpanExportResult.SUCCESS:
                self._counters.failed_spans += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class BoundedQueue(SpanProcessor):
    """Hands spans to the SDK's queue while there is room, and counts those without; it never waits."""

    def __init__(self, exporter: SpanExporter, counters: GatewayCounters) -> None:
        self._exporter = CountedExporter(exporter, counters)
        self._counters = counters
        self._queue = BatchSpanProcessor(self._exporter, max_queue_size=QUEUE_MAX, max_export_batch_size=BATCH_MAX)
        self._given = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing."""

    def on_end(self, span: ReadableSpan) -> None:
        if self._given - self._exporter.taken >= QUEUE_MAX:
            self._counters.dropped_spans += 1
            return
        self._given += 1
        self._counters.spans += 1
        self._queue.on_end(span)

    def shutdown(self) -> None:
        self._queue.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._queue.force_flush(timeout_millis))


class ExportedSpans(Spans, Tracer):
    """Spans that go to a collector."""

    def __init__(self, config: TelemetryConfig, counters: GatewayCounters) -> None:
        exporter = OTLPSpanExporter(endpoint=config.endpoint or None)
        super().__init__(config, BoundedQueue(exporter, counters), counters)

    def stop(self) -> None:
        """Export what waits, within a limited time: the collector may be gone."""
        ending = threading.Thread(target=self.provider.shutdown, name="penstock-spans", daemon=True)
        ending.start()
        ending.join(STOP_PATIENCE_S)
        if ending.is_alive():
            log.warning("telemetry: the collector has not taken the last spans within %g s", STOP_PATIENCE_S)
