"""Spans of the way of messages: send, deliver, settle.

The id of a span of ``send`` follows from the message's id, and so does that of a trace that begins here.  The hand-over
finds its parent by that, also after a restart, and nothing is remembered of messages that wait.

Source: OpenTelemetry's semantic conventions for messaging; https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from config.model import TelemetryConfig
from engine.ports.tracing import Traced, Tracing
from engine.values.message import DEAD_LETTER
from gateway.process.counters import GatewayCounters

UNDER_WAY_MAX: Final = 10_000  # hand-overs that are not settled; of more than that, the oldest have no span
SYSTEM: Final = "penstock"
_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(?:-.*)?")
_ROOM_OF_IDS: Final = 1 << 64
_STATE_CHARACTERS_MAX: Final = 512
_PROPAGATOR: Final = TraceContextTextMapPropagator()

# These log what clients have written, a line for each message; a state that cannot be read is left out anyway.
for _name in ("opentelemetry.trace.span", "opentelemetry.trace.propagation.tracecontext"):
    logging.getLogger(_name).setLevel(logging.ERROR)


class MessageIds(RandomIdGenerator):
    """Ids as they are set for the next span; without any, random ones."""

    def __init__(self) -> None:
        self.trace_id = 0
        self.span_id = 0

    def generate_trace_id(self) -> int:
        given, self.trace_id = self.trace_id, 0
        return given or super().generate_trace_id()

    def generate_span_id(self) -> int:
        given, self.span_id = self.span_id, 0
        return given or super().generate_span_id()

    def is_trace_id_random(self) -> bool:
        return False


class Spans(Tracing):
    """processor: takes the spans that have ended.  clock_ns: nanoseconds since the epoch."""

    def __init__(
        self,
        config: TelemetryConfig,
        processor: SpanProcessor,
        counters: GatewayCounters,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._counters = counters
        self._clock_ns = clock_ns
        self._chosen_below = int(config.sampling_ratio * _ROOM_OF_IDS)
        self._ids = MessageIds()
        self._under_way: dict[int, Span] = {}
        self.provider = TracerProvider(
            sampler=ALWAYS_ON,  # what is not sampled does not come this far
            resource=_resource(config.service_name),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        self.provider.add_span_processor(processor)
        self._tracer = self.provider.get_tracer("penstock")

    def wants(self, parent: str, identity: str) -> bool:
        found = _PARENT.fullmatch(parent) if parent else None
        if found is not None:
            return bool(int(found[1], 16) & TraceFlags.SAMPLED)
        return self._chosen_below > 0 and _trace_id(identity) % _ROOM_OF_IDS < self._chosen_below

    def accepted(self, traced: Traced) -> None:
        now_ns = self._clock_ns()
        span_id = _span_id(traced.identity)
        self._start(traced, "send", "send", SpanKind.SERVER, _sender(traced), now_ns, span_id=span_id).end(now_ns)

    def handed_over(self, traced: Traced, tag: int, delivery_count: int, consumer: dict[str, str]) -> None:
        created = get_current_span(_sender(traced)).get_span_context()
        links = [Link(created)] if created.is_valid else []
        span = self._start(
            traced, "deliver", "process", SpanKind.CONSUMER, _acceptance(traced), self._clock_ns(), links
        )
        span.set_attribute("penstock.delivery_count", delivery_count)
        for key, name in (
            ("client_id", "messaging.client.id"),
            ("subscription", "messaging.destination.subscription.name"),
        ):
            if consumer.get(key):
                span.set_attribute(name, consumer[key])
        if len(self._under_way) >= UNDER_WAY_MAX:
            del self._under_way[next(iter(self._under_way))]
            self._counters.dropped_spans += 1
        self._under_way[tag] = span

    def settled(self, tag: int, outcome: str, cause: str) -> None:
        span = self._under_way.pop(tag, None)
        if span is None:
            return
        span.set_attribute("penstock.outcome", outcome)
        if cause:
            span.set_attribute("error.type", cause)
            span.set_status(StatusCode.ERROR)
        span.end(self._clock_ns())

    def ended(self, traced: Traced, outcome: str) -> None:
        now_ns = self._clock_ns()
        span = self._start(traced, outcome, "settle", SpanKind.INTERNAL, _acceptance(traced), now_ns)
        span.set_attribute("penstock.outcome", outcome)
        span.end(now_ns)

    def _start(
        self,
        traced: Traced,
        name: str,
        kind_of_operation: str,
        kind: SpanKind,
        context: Context,
        now_ns: int,
        links: list[Link] | None = None,
        span_id: int = 0,
    ) -> Span:
        # Both at once, as those of a call that has failed may be left over.
        self._ids.trace_id = _trace_id(traced.identity)  # of a trace that begins with this span
        self._ids.span_id = span_id
        attributes: dict[str, str | int] = {
            "messaging.system": SYSTEM,
            "messaging.destination.name": traced.destination,
            "messaging.operation.name": name,
            "messaging.operation.type": kind_of_operation,
            "messaging.message.id": traced.identity,
            "messaging.message.body.size": len(traced.message.body),
            "messaging.message.envelope.size": traced.message.size,
            "penstock.destination.kind": "topic" if traced.is_topic else "queue",
        }
        return self._tracer.start_span(
            f"{name} {traced.destination}", context, kind, attributes, links, start_time=now_ns
        )


def _sender(traced: Traced) -> Context:
    """Return the context that the sender gave the message, an empty one without any."""
    if not traced.parent:
        return Context()
    state = traced.state if len(traced.state) <= _STATE_CHARACTERS_MAX else ""
    return _PROPAGATOR.extract({"traceparent": traced.parent, "tracestate": state}, Context())


def _acceptance(traced: Traced) -> Context:
    """Return the context of the span of ``send``; a dead letter has none, it was not sent here by a client."""
    sender = _sender(traced)
    if traced.message.flags & DEAD_LETTER:
        return sender
    created = get_current_span(sender).get_span_context()
    trace_id = created.trace_id if created.is_valid else _trace_id(traced.identity)
    flags = TraceFlags(TraceFlags.SAMPLED)
    context = SpanContext(trace_id, _span_id(traced.identity), True, flags, created.trace_state)
    return set_span_in_context(NonRecordingSpan(context), Context())


def _trace_id(identity: str) -> int:
    return int.from_bytes(blake2b(identity.encode(), digest_size=16, person=b"trace").digest(), "big") or 1


def _span_id(identity: str) -> int:
    return int.from_bytes(blake2b(identity.encode(), digest_size=8, person=b"send").digest(), "big") or 1


def _resource(service_name: str) -> Resource:
    """Return what the environment says of the service; the setting goes before it."""
    resource = Resource.create({"service.name": service_name} if service_name else {})
    if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": SYSTEM}))
    return resource
