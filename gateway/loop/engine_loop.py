"""Sole owner of the Broker: collects what arrives in one turn of the event loop, ends the turn, lets answers go."""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from typing import Final

from engine.broker import Broker
from engine.limits.disk_watch import DiskWatch
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job
from gateway.loop.alarms import Alarms
from gateway.loop.ticks import Ticks
from gateway.process.workers import JobSink

log: Final = logging.getLogger("penstock.engine")

HELD_BACK_S: Final = 0.02  # between two looks whether there is room for output that is held back
HELD_BACK_ROUNDS: Final = 250  # of them without room for any of it; then those who have not read give some
READ_PART: Final = 100  # of all that connections may hold: who reads so much meanwhile, in all, is waited for
LAZY_SYNC_S: Final = 0.05  # what nobody waits for is synced this long after it was written


class LoopTimers(Timers):
    """Timers of the event loop; each opens a turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self.engine_loop: EngineLoop | None = None

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        delay_s = max(0, when_ms - self._clock.monotonic_ms()) / 1000
        self._loop.call_later(delay_s, self._fire, target, key)

    def _fire(self, target: TimerTarget, key: int) -> None:
        engine_loop = self.engine_loop
        if engine_loop is None:
            target.timer_fired(key)
            return
        if engine_loop.is_shut:
            return
        engine_loop.open_turn()
        try:
            target.timer_fired(key)
        except Exception:
            engine_loop.fail()


class Flushable(ABC):
    """A connection that may have octets to write at the end of a turn."""

    @abstractmethod
    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Write them.  offset: what this turn's confirmations wait for; confirmed_offset: what has come true."""


class EngineLoop(JobSink):
    """Turns: from the first input after the last turn to the end of the event loop's current round.

    now_ms: monotonic time of this turn's beginning.  is_open: a turn has begun; who calls often looks before it calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, store: Store, clock: Clock) -> None:
        self.broker = broker
        self.store_events = broker.store_events
        self.holdings = broker.holdings
        self._flow = broker.flow
        self.store = store
        self.clock = clock
        self.now_ms = clock.monotonic_ms()
        self.touched: list[Flushable] = []
        self._held_back: list[Flushable] = []
        self._held_back_rounds = 0
        self._held_back_before: set[Flushable] = set()
        self._unread_before = 0  # when the rounds began
        self.ticks = Ticks(loop, clock)
        self._loop = loop
        self.is_open = False
        self._is_sync_armed = False
        self.failed = asyncio.Event()
        self.is_shut = False  # nothing enters the engine and nothing leaves it: it has failed, or its store closes
        self.failure = ""  # what was raised
        self.disk_watch: DiskWatch | None = None
        self._alarms = Alarms(broker, store, clock)
        self.look_faults = 0

    def open_turn(self) -> None:
        """Call before each input; the first of a turn takes the time."""
        if self.is_open or self.is_shut:
            return
        self.is_open = True
        self.now_ms = self.clock.monotonic_ms()
        self.broker.begin_turn()
        self._loop.call_soon(self.end_turn)

    def end_turn(self) -> None:
        """Dispatch, write, let everything leave that may.

        A fault in here is ours and leaves the engine half-way through a turn: ``failed`` has the process stop at
        once, without marking the store as closed cleanly, and the next start recovers from the log.
        """
        if self.is_shut:
            return
        try:
            self._end_turn()
        except Exception:
            self.fail()

    def fail(self) -> None:
        """Stop the process; call it while the exception is being handled.

        From here on nothing enters the engine and nothing leaves it: it may be in the middle of anything.
        """
        log.critical("the engine failed; stopping, the next start recovers from the log", exc_info=True)
        error = sys.exception()
        self.failure = self.failure or f"{type(error).__name__}: {error}"
        self.is_shut = True
        self.failed.set()

    def shut(self) -> None:
        """Let nothing in any more: timers, chores and connections that end would write to a store that closes."""
        self.is_shut = True

    def look(self) -> None:
        """Tell the operator what has changed and no turn has shown."""
        if self.is_shut:
            return
        try:
            self._alarms.look()
        except Exception:  # who only looks changes nothing
            self.look_faults += 1
            if self.look_faults == 1:
                log.exception("a defect of the gateway in the alarms; it is logged once")

    def _end_turn(self) -> None:
        broker = self.broker
        store = self.store
        offset = broker.end_turn()
        if self.disk_watch is not None:
            self.disk_watch.turn_ended(offset, store.written_offset())
        self.is_open = False  # who was touched up to here leaves with this turn
        confirmed_offset = store.confirmed_offset()
        touched = self.touched
        if touched:
            self.touched = []
            for connection in touched:
                connection.flush(offset, confirmed_offset)
        if self.store_events.awaiting:
            store.sync()
        elif not self._is_sync_armed and broker.has_unsynced():
            self._is_sync_armed = True
            self._loop.call_later(LAZY_SYNC_S, self._sync_lazily)
        if self._flow.is_blocked or self.store_events.faulty_lanes or self._alarms.is_raised:
            self.look()
        if broker.has_more_to_do():
            self.open_turn()

    def job_done(self, job: Job) -> None:
        if self.is_shut:
            return
        self.open_turn()
        try:
            job.finish()
        except Exception:
            self.fail()

    def job_failed(self, job: Job, error: Exception) -> None:
        if self.is_shut:
            return
        try:
            raise error
        except Exception:
            log.critical("a %s raised an error that it should have returned", type(job).__name__)
            self.fail()

    def flush_later(self, connection: Flushable) -> None:
        """Have ``flush`` called again soon: what it is to write is held back."""
        if not self._held_back:
            self._loop.call_later(HELD_BACK_S, self._flush_held_back)
        self._held_back.append(connection)

    def _flush_held_back(self) -> None:
        held_back = self._held_back
        self._held_back = []
        if self.is_shut:
            return
        self.open_turn()
        has_moved = not self._held_back_before.issubset(held_back)
        self._held_back_before = set(held_back)
        holdings = self.holdings
        try:
            holdings.look_again()
            has_read = (self._unread_before - holdings.unread_bytes) * READ_PART >= holdings.limit_bytes
            if has_moved or has_read:
                self._held_back_rounds = 0
            if self._held_back_rounds == 0:
                self._unread_before = holdings.unread_bytes
            self._held_back_rounds += 1
            if self._held_back_rounds > HELD_BACK_ROUNDS:
                self._held_back_rounds = 0
                holdings.make_room()
        except Exception:
            self.fail()
            return
        self.touched += held_back

    def _sync_lazily(self) -> None:
        self._is_sync_armed = False
        if self.is_shut:
            return
        try:
            self.broker.sync()
        except Exception:
            self.fail()
