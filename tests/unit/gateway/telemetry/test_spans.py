"""Which spans the way of a message has.  Source: OpenTelemetry's semantic conventions for messaging."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from typing import Any, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from config.model import TelemetryConfig
from engine.consumers.consumer import AUTO
from engine.consumers.departures import HELD_AT_ONCE
from engine.open_transaction import Transaction, TransactionLimits
from engine.ports.tracing import Traced
from engine.values.delivery import Refusal
from engine.values.message import Message
from gateway.process.counters import GatewayCounters
from gateway.telemetry.spans import UNDER_WAY_MAX, Spans
from tests.support.engine.engine_world import EngineWorld, address

TRACE = 0x4BF92F3577B34DA6A3CE929D0E0E4736
SENDER = 0x00F067AA0BA902B7
PARENT = f"00-{TRACE:032x}-{SENDER:016x}-01"
TRACED = f"traceparent:{PARENT} tracestate:congo=t61rcWkg"
UNSAMPLED = f"traceparent:{PARENT[:-1]}0"


class Traces:
    """A world with a tracer, and what it has exported."""

    def __init__(self, *addresses: Any, sampling_ratio: float = 0.0, has_message_times: bool = False) -> None:
        self.exporter = InMemorySpanExporter()
        self.counters = GatewayCounters()
        self.now_ns = 1_000
        config = TelemetryConfig(traces=True, sampling_ratio=sampling_ratio)
        self.spans = Spans(config, SimpleSpanProcessor(self.exporter), self.counters, lambda: self.now_ns)
        self.world = EngineWorld(*addresses, tracing=self.spans, has_message_times=has_message_times)

    def finished(self) -> list[ReadableSpan]:
        found = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return found

    def names(self) -> list[str]:
        return [span.name for span in self.finished()]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_send_deliver_and_acknowledge_are_in_the_trace_of_the_sender() -> None:
    traces = Traces()
    world = traces.world
    world.send(b"body", headers=TRACED)
    (send,) = traces.finished()
    assert (send.name, send.kind, send.start_time, send.end_time) == ("send q", SpanKind.SERVER, 1_000, 1_000)
    assert send.parent is not None
    assert (send.context.trace_id, send.parent.span_id) == (TRACE, SENDER)
    assert send.context.trace_state.to_header() == "congo=t61rcWkg"
    traces.now_ns = 2_000
    client = world.subscriber()
    assert traces.finished() == []
    traces.now_ns = 5_000
    world.acknowledge(*client.take())
    (deliver,) = traces.finished()
    assert (deliver.name, deliver.kind) == ("deliver q", SpanKind.CONSUMER)
    assert (deliver.start_time, deliver.end_time) == (2_000, 5_000)
    assert deliver.parent is not None
    assert (deliver.context.trace_id, deliver.parent.span_id) == (TRACE, send.context.span_id)
    assert [(link.context.trace_id, link.context.span_id) for link in deliver.links] == [(TRACE, SENDER)]
    assert deliver.status.status_code is StatusCode.UNSET
    assert attributes(deliver) == {
        "messaging.system": "penstock",
        "messaging.destination.name": "q",
        "messaging.operation.name": "deliver",
        "messaging.operation.type": "process",
        "messaging.message.id": attributes(send)["messaging.message.id"],
        "messaging.message.body.size": 4,
        "messaging.message.envelope.size": attributes(send)["messaging.message.envelope.size"],
        "messaging.destination.subscription.name": "sub",
        "penstock.destination.kind": "queue",
        "penstock.delivery_count": 1,
        "penstock.outcome": "acknowledged",
    }
    assert attributes(send)["messaging.operation.type"] == "send"


@pytest.mark.parametrize("headers", ["", UNSAMPLED, "traceparent:nonsense", "traceparent:ff" + PARENT[2:]])
def test_other_messages_have_no_spans(headers: str) -> None:
    traces = Traces()
    client = traces.world.subscriber()
    traces.world.send(b"1", headers=headers)
    traces.world.acknowledge(*client.take())
    assert traces.finished() == []


@pytest.mark.parametrize("headers", ["", "traceparent:nonsense"])
def test_the_sampler_begins_traces_of_its_own(headers: str) -> None:
    traces = Traces(sampling_ratio=1.0)
    client = traces.world.subscriber()
    traces.world.send(b"1", headers=headers)
    traces.world.acknowledge(*client.take())
    send, deliver = traces.finished()
    assert send.parent is None and not deliver.links
    assert deliver.parent is not None and deliver.parent.span_id == send.context.span_id
    assert deliver.context.trace_id == send.context.trace_id


@pytest.mark.parametrize("state", ["", "no state", "a=" + "x" * 511, "a=1,a=2", "é=ü"])
def test_a_state_that_cannot_be_read_is_left_out(state: str, caplog: pytest.LogCaptureFixture) -> None:
    traces = Traces()
    message = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"")
    traces.spans.accepted(Traced(message, "ID:1", PARENT, state, "q", False))
    (send,) = traces.finished()
    assert (send.context.trace_id, send.context.trace_state.to_header()) == (TRACE, "")
    assert caplog.records == []


@pytest.mark.parametrize("parent", [PARENT + "-more", PARENT + "\u0661", "01" + PARENT[2:] + "-" + "x" * 100_000])
def test_odd_parents_do_no_harm(parent: str) -> None:
    traces = Traces(sampling_ratio=1.0)
    assert traces.spans.wants(parent, "ID:1")
    message = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"")
    traced = Traced(message, "ID:1", parent, "", "q", False)
    traces.spans.accepted(traced)
    traces.spans.handed_over(traced, 1, 1, {})
    traces.spans.settled(1, "acknowledged", "")
    send, deliver = traces.finished()
    assert deliver.parent is not None and deliver.parent.span_id == send.context.span_id
    assert deliver.context.trace_id == send.context.trace_id


def test_the_sampler_leaves_the_decision_of_the_sender() -> None:
    traces = Traces(sampling_ratio=1.0)
    traces.world.send(b"1", headers=UNSAMPLED)
    assert traces.finished() == []


def test_about_the_ratio_is_chosen() -> None:
    traces = Traces(sampling_ratio=0.25)
    traces.world.send(*[b"%d" % number for number in range(400)])
    assert 60 < len(traces.finished()) < 140


@pytest.mark.parametrize("is_persistent", [True, False])
def test_runs_of_acknowledgements_and_automatic_ones(is_persistent: bool) -> None:
    traces = Traces(has_message_times=True)
    world = traces.world
    client = world.subscriber()
    world.send(b"1", b"2", b"3", headers=TRACED, persistent=is_persistent)
    assert traces.names() == ["send q"] * 3
    world.broker.acknowledge_all(client.take())
    world.turn()
    assert traces.names() == ["deliver q"] * 3
    world.consumer(world.client(), "other", AUTO)
    world.send(b"4", b"5", to="other", headers=TRACED, persistent=is_persistent)
    assert traces.names() == ["send other"] * 2 + ["deliver other"] * 2
    assert world.broker.inspect().until_acknowledged is not None


def test_a_failed_attempt_and_the_next_one() -> None:
    traces = Traces(address("q", redelivery__redelivery_delay_ms=100))
    world = traces.world
    client = world.subscriber()
    world.send(b"1", headers=TRACED)
    world.refuse(*client.take())
    _, failed = traces.finished()
    assert (failed.status.status_code, attributes(failed)["error.type"]) == (StatusCode.ERROR, "nack")
    assert attributes(failed)["penstock.outcome"] == "failed"
    world.advance(1_000)
    world.acknowledge(*client.take())
    (deliver,) = traces.finished()
    assert attributes(deliver)["penstock.delivery_count"] == 2
    assert attributes(deliver)["penstock.outcome"] == "acknowledged"


def test_what_is_requeued_or_held_at_the_end_of_a_consumer_is_released() -> None:
    traces = Traces()
    world = traces.world
    client = world.subscriber()
    world.send(b"1", headers=TRACED)
    world.refuse(*client.take(), refusal=Refusal("requeue"))
    assert [attributes(span).get("penstock.outcome") for span in traces.finished()] == [None, "released"]
    world.leave(client)
    assert [attributes(span)["penstock.outcome"] for span in traces.finished()] == ["released"]


@pytest.mark.parametrize("count", [2, 3 * HELD_AT_ONCE])
@pytest.mark.parametrize("is_lost", [True, False])
def test_what_is_held_at_the_end_of_a_subscription_is_released(count: int, is_lost: bool) -> None:
    traces = Traces()
    world = traces.world
    topic = world.topic("t")
    client = world.client()
    world.subscribe(client, topic, prefetch=count)
    world.send(*[b"x"] * count, to=topic, headers=TRACED)
    assert traces.names() == ["send t"] * count
    (world.lose if is_lost else world.leave)(client)
    world.advance(1_000)
    assert [attributes(span)["penstock.outcome"] for span in traces.finished()] == ["released"] * count


@pytest.mark.parametrize("is_refused", [True, False])
def test_what_a_transaction_holds_for_a_subscription_that_has_ended_is_released(is_refused: bool) -> None:
    traces = Traces()
    world = traces.world
    topic = world.topic("t")
    client = world.client()
    consumer = world.subscribe(client, topic)
    world.send(b"x", to=topic, headers=TRACED)
    transaction = Transaction(client, "1", TransactionLimits(10, 1_000))
    if is_refused:
        transaction.add_refused(client.take(), Refusal())
    else:
        transaction.add_accepted(client.take())
    world.unsubscribe(consumer)
    assert traces.names() == ["send t"]
    (world.broker.commit if is_refused else world.broker.abort)(transaction)
    world.turn()
    assert [attributes(span)["penstock.outcome"] for span in traces.finished()] == ["released"]


def test_a_lost_consumer_fails_its_attempt() -> None:
    traces = Traces(address("q", blame="all"))
    client = traces.world.subscriber()
    traces.world.send(b"1", headers=TRACED)
    traces.world.lose(client)
    deliver = traces.finished()[1]
    assert attributes(deliver)["error.type"] == "connection-lost"


def test_a_dead_letter_goes_on_in_the_trace() -> None:
    traces = Traces()
    world = traces.world
    client = world.subscriber()
    world.send(b"1", headers=TRACED)
    world.refuse(*client.take(), refusal=Refusal("dead-letter"))
    send, failed, given_up = traces.finished()
    assert [failed.name, given_up.name] == ["deliver q", "given-up q"]
    assert attributes(given_up)["messaging.operation.type"] == "settle"
    assert given_up.parent is not None and given_up.parent.span_id == send.context.span_id
    world.dead_letters()
    (deliver,) = traces.finished()
    assert deliver.parent is not None
    assert (deliver.name, deliver.parent.span_id, deliver.context.trace_id) == ("deliver ActiveMQ.DLQ", SENDER, TRACE)


@pytest.mark.parametrize("has_address", [True, False])
def test_an_expired_message(has_address: bool) -> None:
    traces = Traces(*([address("q", expiry_address="late")] if has_address else []))
    world = traces.world
    world.send(b"1", headers=TRACED, expires_ms=world.clock.wall_ms() + 5)
    world.advance(10)
    world.subscriber()
    assert traces.names() == ["send q", "expired q"]


def test_a_topic_and_a_subscription_that_wants_some() -> None:
    traces = Traces()
    world = traces.world
    client = world.client()
    world.consumer(client, world.topic("t"))
    world.consumer(client, world.topic("t"))
    world.send(b"1", to=world.topic("t"), headers=TRACED)
    world.acknowledge(*client.take())
    send, *delivered = traces.finished()
    assert attributes(send)["penstock.destination.kind"] == "topic"
    assert [span.parent.span_id for span in delivered if span.parent] == [send.context.span_id] * 2


def test_a_call_that_has_failed_leaves_no_id_behind() -> None:
    traces = Traces()
    message = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"")
    with pytest.raises((AttributeError, TypeError)):
        traces.spans.accepted(Traced(cast(Message, None), "ID:1", PARENT, "", "q", False))
    traces.spans.handed_over(Traced(message, "ID:1", PARENT, "", "q", False), 1, 1, {})
    traces.spans.settled(1, "acknowledged", "")
    (deliver,) = traces.finished()
    assert deliver.parent is not None and deliver.context.span_id != deliver.parent.span_id


def test_spans_under_way_are_bounded() -> None:
    traces = Traces()
    message = Message(1, 1, 0, 4, 0, 0, 0, b"", b"", b"")
    for tag in range(1, UNDER_WAY_MAX + 3):
        traces.spans.handed_over(Traced(message, f"ID:{tag}", PARENT, "", "q", False), tag, 1, {})
    assert traces.counters.dropped_spans == 2
    for tag in (1, 2, 3):
        traces.spans.settled(tag, "acknowledged", "")
    assert len(traces.finished()) == 1
