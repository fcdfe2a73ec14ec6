"""Sole owner of the Broker: collects the inputs of one turn of the event loop, ends the turn, releases the answers."""

from __future__ import annotations

import asyncio
import logging
import sys
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from engine.broker import Broker
from engine.limits.disk_watch import DiskWatch
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job
from gateway.loop.alarms import Alarms
from gateway.loop.few_a_turn import FewATurn
from gateway.loop.ticks import Ticks
from gateway.process.workers import JobSink
from protocols.peer_socket import PeerSocket

log: Final = logging.getLogger("penstock.engine")

HELD_BACK_S: Final = 0.02  # between two checks whether held-back output has room
HELD_BACK_ROUNDS: Final = 250  # checks without room for any of it; then connections end
READ_PART: Final = 100  # part of the connections' budget: while they read this much in total, they are waited for
READS_A_TURN: Final = 4  # of sockets whose last read was full, all together: they keep one turn busy
LOGIN_ENDS_A_TURN: Final = 16  # an end costs up to 0.2 ms with a few dozen subscriptions and messages
LAZY_SYNC_S: Final = 0.05  # records that nobody waits for are synced this long after they were written

TurnEnd = Callable[[int, int], None]  # with the arguments of ``Flushable.flush``


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


@mypyc_attr(allow_interpreted_subclasses=True)
class Flushable(PeerSocket):
    """A socket whose session may have octets to write at the end of a turn."""

    @abstractmethod
    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Write them.  offset: awaited by this turn's confirmations; confirmed_offset: reached already."""


class EngineLoop(JobSink):
    """Turns: from the first input after the last turn to the end of the event loop's current round.

    now_ms: monotonic time of this turn's beginning.  is_open: a turn has begun; frequent callers check this first.
    turn: its number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, broker: Broker, store: Store, clock: Clock) -> None:
        self.broker = broker
        self.store_events = broker.store_events
        self.holdings = broker.holdings
        self._producer_gates = broker.producer_gates
        self.store = store
        self.clock = clock
        self.now_ms = clock.monotonic_ms()
        self.touched: list[Flushable] = []
        self._ends: list[TurnEnd] = []
        self._held_back: list[Flushable] = []
        self._held_back_rounds = 0
        self._held_back_before: set[Flushable] = set()
        self._unread_before = 0  # at the beginning of the rounds
        self.ticks = Ticks(loop, clock)
        self.full_reads = FewATurn(loop, READS_A_TURN)
        self.login_ends = FewATurn(loop, LOGIN_ENDS_A_TURN)
        self._loop = loop
        self.is_open = False
        self._is_ending = False  # a turn ends; the next one, which may be open already, is not scheduled yet
        self._has_synced_here = False  # a short sync ran within this end of a turn
        self.turn = 0
        self._is_sync_armed = False
        self.failed = asyncio.Event()
        self.is_shut = False  # nothing enters or leaves the engine: it has failed, or its store closes
        self.failure = ""  # the exception in words
        self.disk_watch: DiskWatch | None = None
        self._alarms = Alarms(broker, store, clock)
        self.check_faults = 0

    def open_turn(self) -> None:
        """Begin a turn if none is open; call it before each input."""
        if self.is_open or self.is_shut:
            return
        self.is_open = True
        self.turn += 1
        self.now_ms = self.clock.monotonic_ms()
        self.broker.begin_turn()
        if not self._is_ending:
            self._loop.call_soon(self.end_turn)

    def end_turn(self) -> None:
        """Dispatch, write the log, send all output that may be sent.

        A short sync runs in here, and what it confirms leaves in here, too: waiting for the event loop's next round
        would cost a lone sender 7 % of its rate.

        A fault in here is ours and interrupts the engine in the middle of a turn.  ``failed`` then stops the process at
        once, without a clean close of the store, and the next start recovers from the log.
        """
        if self.is_shut:
            return
        self._is_ending = True
        self._has_synced_here = False
        try:
            self._end_turn()
            if self._has_synced_here:
                self._end_turn()
            if self._producer_gates.is_blocked or self.store_events.faulty_lanes or self._alarms.is_raised:
                self.check()
            if self.broker.has_more_to_do():
                self.open_turn()
        except Exception:
            self.fail()
            return
        self._is_ending = False
        if self.is_open:
            self._loop.call_soon(self.end_turn)

    def _end_turn(self) -> None:
        store = self.store
        offset = self.broker.end_turn()
        if self.disk_watch is not None:
            self.disk_watch.turn_ended(offset, store.written_offset())
        self.is_open = False  # connections touched up to here are flushed in this turn
        confirmed_offset = store.confirmed_offset()
        if self._ends:
            ends, self._ends = self._ends, []
            for turn_end in ends:
                turn_end(offset, confirmed_offset)
        touched = self.touched
        if touched:
            self.touched = []
            for connection in touched:
                connection.flush(offset, confirmed_offset)
        if self.store_events.awaiting:
            store.sync()
        elif not self._is_sync_armed and self.broker.has_unsynced():
            self._is_sync_armed = True
            self._loop.call_later(LAZY_SYNC_S, self._sync_lazily)

    def fail(self) -> None:
        """Stop the process; call it while the exception is being handled.

        From here on nothing enters or leaves the engine, because any change in it may be incomplete.
        """
        log.critical("the engine failed; stopping, the next start recovers from the log", exc_info=True)
        error = sys.exception()
        self.failure = self.failure or f"{type(error).__name__}: {error}"
        self.is_shut = True
        self.failed.set()

    def shut(self) -> None:
        """Accept nothing more: timers, chores and ending connections would write to a closing store."""
        self.is_shut = True

    def check(self) -> None:
        """Log changes that no turn has reported."""
        if self.is_shut:
            return
        try:
            self._alarms.check()
        except Exception:  # a check changes nothing in the engine
            self._alarms_failed()

    def present_alarms(self) -> list[tuple[str, str]]:
        """Return the faults that are there now, each with its level, ``error`` or ``warning``."""
        try:
            return self._alarms.present()
        except Exception:  # likewise
            self._alarms_failed()
            return []

    def _alarms_failed(self) -> None:
        self.check_faults += 1
        if self.check_faults == 1:
            log.exception("a defect of the gateway in the alarms; it is logged once")

    def job_done(self, job: Job) -> None:
        if self.is_shut:
            return
        self.open_turn()
        self._has_synced_here = self._is_ending
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

    def at_turn_end(self, turn_end: TurnEnd) -> None:
        """Call ``turn_end`` once when the present turn ends; open one if there is none."""
        self._ends.append(turn_end)
        self.open_turn()

    def flush_later(self, connection: Flushable) -> None:
        """Have ``flush`` called again soon, because its output is held back."""
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
            holdings.count_again()
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
