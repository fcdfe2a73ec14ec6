"""A defect in spans is counted and logged, and messages go on."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.ports.tracing import Traced
from gateway.process.counters import GatewayCounters
from gateway.telemetry.guarded_tracing import PERIOD_S, GuardedTracing, Tracer
from tests.support.engine.engine_world import EngineWorld, address

CALLS = ("wants", "accepted", "handed_over", "settled", "ended")


class BrokenTracer(Tracer):
    """Notes each call, and raises in some."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.calls: list[str] = []

    def note(self, call: str) -> None:
        self.calls.append(call)
        if call in self.broken:
            raise ValueError(f"ours, in {call}")

    def wants(self, parent: str, identity: str) -> bool:
        self.note("wants")
        return True

    def accepted(self, traced: Traced) -> None:
        self.note("accepted")

    def handed_over(self, traced: Traced, tag: int, delivery_count: int, consumer: dict[str, str]) -> None:
        self.note("handed_over")

    def settled(self, tag: int, outcome: str, cause: str) -> None:
        self.note("settled")

    def ended(self, traced: Traced, outcome: str) -> None:
        self.note("ended")

    def stop(self) -> None:
        self.note("stop")


class Guarded:
    """A world whose tracer has defects."""

    def __init__(self, *broken: str) -> None:
        self.tracer = BrokenTracer(*broken)
        self.counters = GatewayCounters()
        self.now_s = 100.0
        self.tracing = GuardedTracing(self.tracer, self.counters, lambda: self.now_s)
        entry = address("q", redelivery__maximum_redeliveries=0)
        self.world = EngineWorld(entry, tracing=self.tracing, has_message_times=True)


@pytest.mark.parametrize("broken", CALLS)
def test_messages_go_on(broken: str) -> None:
    guarded = Guarded(broken)
    world = guarded.world
    client = world.subscriber(prefetch=2)
    world.send(b"1", b"2")
    first, second = client.take()
    world.acknowledge(first)
    world.refuse(second)
    assert world.subscriber("ActiveMQ.DLQ", ack_mode=AUTO).bodies() == [b"2"]
    assert world.stats().depth == 0
    calls = guarded.tracer.calls
    assert guarded.counters.trace_faults == calls.count(broken) > 0
    assert (set(calls) == set(CALLS)) == (broken != "wants"), "what it does not want is not traced"


def test_the_log_has_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guarded(*CALLS)
    for _ in range(3):
        guarded.world.send(b"x")
    guarded.now_s += PERIOD_S
    guarded.world.send(b"x")
    first, second = caplog.records
    assert "a defect of the gateway when its tracer was asked about a message" in first.getMessage()
    assert "; 1 since the last line" in first.getMessage() and "; 3 since the last line" in second.getMessage()
    assert first.exc_info is not None and "ours, in wants" in str(first.exc_info[1])
    assert guarded.counters.trace_faults == 4


def test_a_stop_exports_the_rest() -> None:
    guarded = Guarded()
    guarded.tracing.stop()
    assert guarded.tracer.calls == ["stop"]
