"""The one place where a defect of a tracer ends: it costs spans, and messages go on.

The engine calls the tracer in the middle of a change, so an exception that passed through the engine would have to stop
the gateway (docs/decisions/0027).
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from engine.ports.tracing import Traced, Tracing
from gateway.process.counters import GatewayCounters

PERIOD_S: Final = 60.0  # one line in the log for all defects of this time

log: Final = logging.getLogger("penstock")


class Tracer(Tracing):
    """A tracer that exports what it hears."""

    @abstractmethod
    def stop(self) -> None:
        """Export what waits, within a limited time."""


class GuardedTracing(Tracer):
    """Calls another tracer; counts and logs the exceptions that it raises.  clock: monotonic, in seconds."""

    def __init__(self, tracer: Tracer, counters: GatewayCounters, clock: Callable[[], float] = time.monotonic) -> None:
        self._tracer = tracer
        self._counters = counters
        self._clock = clock
        self._quiet_until_s = clock()
        self._unsaid = 0

    def wants(self, parent: str, identity: str) -> bool:
        try:
            return self._tracer.wants(parent, identity)
        except Exception:
            self._failed("asked about a message")
            return False

    def accepted(self, traced: Traced) -> None:
        try:
            self._tracer.accepted(traced)
        except Exception:
            self._failed("told of an accepted message")

    def handed_over(self, traced: Traced, tag: int, delivery_count: int, consumer: dict[str, str]) -> None:
        try:
            self._tracer.handed_over(traced, tag, delivery_count, consumer)
        except Exception:
            self._failed("told of a hand-over")

    def settled(self, tag: int, outcome: str, cause: str) -> None:
        try:
            self._tracer.settled(tag, outcome, cause)
        except Exception:
            self._failed("told of a settlement")

    def ended(self, traced: Traced, outcome: str) -> None:
        try:
            self._tracer.ended(traced, outcome)
        except Exception:
            self._failed("told of the end of a message")

    def stop(self) -> None:
        self._tracer.stop()

    def _failed(self, when: str) -> None:
        """Call it while the exception is being handled."""
        self._counters.trace_faults += 1
        self._unsaid += 1
        now_s = self._clock()
        if now_s < self._quiet_until_s:
            return
        count, self._unsaid = self._unsaid, 0
        self._quiet_until_s = now_s + PERIOD_S
        log.exception(
            "telemetry: a defect of the gateway when its tracer was %s; spans are missing, messages go on; "
            "%d since the last line, the next line comes in %g s at the earliest",
            when,
            count,
            PERIOD_S,
        )
