"""Alarms for the operator: the log has each change once, not each event, and at most one line per second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from logging import ERROR, WARNING
from typing import Final

from engine.backlog.address_account import ACTION_NAMES, BLOCK
from engine.broker import Broker
from engine.ports.clock import Clock
from engine.ports.store import Store

LOOK_MS: Final = 100  # while something is wrong every turn checks, and a reason in words costs more than many turns
QUIET_MS: Final = 1_000  # a gate that opens and shuts with every message must not fill the log

log: Final = logging.getLogger("penstock.alarms")


class Alarm:
    """One possible fault.  raised, cleared: texts of the log lines; ``raised`` takes the reason."""

    __slots__ = ("is_raised", "_raised", "_cleared", "_level", "_told_ms")

    def __init__(self, raised: str, cleared: str, level: int) -> None:
        self.is_raised = False  # the state in the log
        self._raised = raised
        self._cleared = cleared
        self._level = level
        self._told_ms = -QUIET_MS

    def see(self, reason: str, now_ms: int) -> None:
        """Take the present reason, "" for no fault.  A line that is held back is written later, if it is still true."""
        is_wrong = reason != ""
        if is_wrong == self.is_raised or now_ms - self._told_ms < QUIET_MS:
            return
        self.is_raised = is_wrong
        self._told_ms = now_ms
        if is_wrong:
            log.log(self._level, self._raised, reason)
        else:
            log.info(self._cleared)


class Alarms:
    """The alarms.  The end of a turn only reads ``is_raised``, so they cost nothing while all is well.

    is_raised: the last line in the log reports a fault, so the next look may have to clear it.
    """

    __slots__ = (
        "is_raised",
        "_store",
        "_store_events",
        "_memory_budget",
        "_flow",
        "_slow_consumers",
        "_spiller",
        "_scheduler",
        "_clock",
        "_skips_told",
        "_looked_ms",
        "_watched",
    )

    def __init__(self, broker: Broker, store: Store, clock: Clock) -> None:
        self.is_raised = False
        self._store = store
        self._store_events = broker.store_events
        self._memory_budget = broker.memory
        self._flow = broker.flow
        self._slow_consumers = broker.slow_consumers
        self._spiller = broker.spiller
        self._scheduler = broker.scheduler
        self._clock = clock
        self._skips_told = 0
        self._looked_ms = -LOOK_MS
        # In the order of the report: the function that gives the reason, and its alarm.
        self._watched: Final[tuple[tuple[Callable[[], str], Alarm], ...]] = (
            (
                self._store_failure,
                Alarm("store: failed, nothing persistent is accepted: %s", "store: healed, it accepts again", ERROR),
            ),
            (
                self._store_events.page_fault,
                Alarm("store: a page could not be read: %s", "store: pages can be read again", ERROR),
            ),
            (self._memory_in_use, Alarm("memory: the gate is shut, %s", "memory: the gate is open again", WARNING)),
            (self._who_waits, Alarm("producers wait: %s", "no producer waits any more", WARNING)),
            (lambda: self._flow.disk_warning, Alarm("disk: %s", "disk: there is room again", WARNING)),
            (
                self._scheduler.firing.describe,
                Alarm("schedule: due messages are held back: %s", "schedule: nothing is held back any more", WARNING),
            ),
            (
                self._scheduler.aside_reason,
                Alarm("schedule: put aside, it cannot be fired: %s", "schedule: everything can be fired again", ERROR),
            ),
            (
                self._who_refuses,
                Alarm(
                    "full addresses drop or refuse messages: %s",
                    "no full address drops or refuses messages any more",
                    WARNING,
                ),
            ),
            (
                store.retention_reason,
                Alarm("retention: space is not freed: %s", "retention: space is freed again", ERROR),
            ),
            (store.retention_hold, Alarm("retention: %s", "retention: no space waits for an export any more", WARNING)),
            (
                lambda: "" if self._spiller is None else self._spiller.reason,
                Alarm("memory: no temporary file can be written: %s", "memory: temporary files work again", ERROR),
            ),
        )

    def look(self) -> None:
        """Compare the state with the last lines of the log."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        self._report_events()
        for reason, alarm in self._watched:
            alarm.see(reason(), now_ms)
        self.is_raised = any(alarm.is_raised for _, alarm in self._watched)

    def _report_events(self) -> None:
        """Write a line for each event since the last look."""
        skipped = self._store_events.skipped_records
        for text in skipped[self._skips_told :]:
            log.error("store: a damaged record was skipped as requested, its message is lost: %s", text)
        self._skips_told = len(skipped)
        for text in self._slow_consumers.notices:
            log.warning("slow consumer: %s", text)
        self._slow_consumers.notices.clear()
        if self._spiller is not None:
            for text in self._spiller.notices:
                log.error("memory: a block of a temporary file cannot be read: %s", text)
            self._spiller.notices.clear()

    def _store_failure(self) -> str:
        return "" if self._store.is_accepting() else self._store_events.failure or "no reason is known"

    def _memory_in_use(self) -> str:
        memory = self._memory_budget
        used = f"{memory.held_bytes()} of {memory.limit_bytes} octets are used"
        return used if self._flow.is_memory_shut else ""

    def _who_refuses(self) -> str:
        """Return the full addresses that drop or refuse messages."""
        full = [account for account in self._flow.accounts.full if account.action != BLOCK]
        if not full:
            return ""
        others = f", and {len(full) - 1} more" if len(full) > 1 else ""
        return f"{ACTION_NAMES[full[0].action]} at {full[0].describe()}{others}"

    def _who_waits(self) -> str:
        flow = self._flow
        for waits in flow.waits.parked.values():
            wait = next(iter(waits.values()))
            others = f", and {len(flow.waits.parked) - 1} more" if len(flow.waits.parked) > 1 else ""
            return f"{wait.client.describe().get('address', '?')} at {flow.describe(wait)}{others}"
        return ""
