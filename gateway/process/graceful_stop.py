"""The stop of the gateway: what it waits for, how long, and what cuts the wait short.

    SERVING --signal--> SETTLING --nothing is held, the time is over, a second signal--> ENDING

While SETTLING, consumers settle what they hold (engine.features.last_settlements); connections end afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

from engine.features.last_settlements import Held, LastSettlements
from engine.ports.clock import Clock
from gateway.process.log_lines import one_line

SECOND_SIGNAL: Final = "a second signal stops at once"
LOOK_S: Final = 0.02  # between two looks at what is held
REPORT_MS: Final = 5_000  # between two log lines about it

log: Final = logging.getLogger("penstock")


class Phase(Enum):
    SERVING = "serving"
    SETTLING = "settling"
    ENDING = "ending"


class Event(Enum):
    SIGNAL = "signal"
    SETTLED = "settled"
    TIME_OVER = "time-over"


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.SERVING, Event.SIGNAL): Phase.SETTLING,
    (Phase.SETTLING, Event.SIGNAL): Phase.ENDING,
    (Phase.SETTLING, Event.SETTLED): Phase.ENDING,
    (Phase.SETTLING, Event.TIME_OVER): Phase.ENDING,
}


class GracefulStop:
    """drain_time_ms: limit of SETTLING, 0 for none of it.

    asked: the first signal has come.  hurried: a second one has.
    """

    def __init__(self, last: LastSettlements, clock: Clock, drain_time_ms: int) -> None:
        self._last = last
        self._clock = clock
        self._drain_time_ms = drain_time_ms
        self._begun_ms = 0
        self._report_ms = 0
        self._is_awaited = False  # something was held when the first signal came
        self.phase = Phase.SERVING
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def signalled(self) -> None:
        """SIGTERM or SIGINT has come."""
        if self.asked.is_set():
            self.hurried.set()
        self.asked.set()

    def begin(self) -> None:
        """Pause the engine; call it in a turn, once a signal has come."""
        self._advance(Event.SIGNAL)
        held = Held()
        if self._drain_time_ms > 0:
            self._last.begin()
            held = self._last.held()
        self._begun_ms = self._clock.monotonic_ms()
        self._report_ms = self._begun_ms + REPORT_MS
        self._is_awaited = held.messages > 0
        if self._is_awaited:
            log.info("stopping: up to %g s for %s; %s", self._drain_time_ms / 1000, _words(held), SECOND_SIGNAL)
        else:
            log.info("stopping")

    def look(self) -> None:
        """Find out whether connections may end: the phase is ENDING then."""
        if self.phase is not Phase.SETTLING:
            return
        waited_ms = self._clock.monotonic_ms() - self._begun_ms
        if not (self._drain_time_ms > 0 and self._last.is_held()):
            if self._is_awaited:
                log.info("stopping: consumers hold nothing any more, after %.1f s", waited_ms / 1000)
            self._advance(Event.SETTLED)
        elif self.hurried.is_set():
            self._leave(waited_ms, "a second signal")
            self._advance(Event.SIGNAL)
        elif waited_ms >= self._drain_time_ms:
            self._leave(waited_ms, "stop.drain-time-ms")
            self._advance(Event.TIME_OVER)
        elif self._clock.monotonic_ms() >= self._report_ms:
            self._report_ms += REPORT_MS
            left_s = (self._drain_time_ms - waited_ms) / 1000
            log.info("stopping: %.1f s more for %s; %s", left_s, _words(self._last.held()), SECOND_SIGNAL)

    async def settled(self, failed: asyncio.Event, in_turn: Callable[[], None]) -> None:
        """Return once connections may end, or the engine has failed.  in_turn: opens a turn of the engine."""
        in_turn()
        self.begin()
        self.look()
        while self.phase is Phase.SETTLING and not failed.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self.hurried, failed)]
            await asyncio.wait(waits, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            self.look()

    def _leave(self, waited_ms: int, cause: str) -> None:
        held = self._last.held()
        words = "stopping after %.1f s (%s) without the settlements of %s; they are delivered again: %s"
        largest = one_line("; ".join(held.largest))
        log.warning(words, waited_ms / 1000, cause, _words(held), largest)

    def _advance(self, event: Event) -> None:
        after = TRANSITIONS.get((self.phase, event))
        assert after is not None, f"no transition from {self.phase} on {event}"
        self.phase = after


def _words(held: Held) -> str:
    messages = f"{held.messages} message{'' if held.messages == 1 else 's'}"
    return f"{messages} that {held.consumers} consumer{' holds' if held.consumers == 1 else 's hold'}"


async def stopped_by_fault(stopping: asyncio.Event, failed: asyncio.Event) -> bool:
    """Wait for the first of both events; say whether it was ``failed``."""
    waits = [asyncio.ensure_future(event.wait()) for event in (stopping, failed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    return failed.is_set()
