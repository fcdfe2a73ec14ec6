"""Alarms for the operator: the log has each change once, not each event, and at most one line a second."""

from __future__ import annotations

import logging
from typing import Final

from engine.backlog.address_account import ACTION_NAMES, BLOCK
from engine.broker import Broker
from engine.ports.clock import Clock
from engine.ports.store import Store

LOOK_MS: Final = 100  # while something is wrong every turn looks, and a reason in words costs more than many turns
QUIET_MS: Final = 1_000  # a gate that opens and shuts for every message must not fill the log

log: Final = logging.getLogger("penstock.alarms")


class Alarm:
    """One thing that can be wrong.  raised, cleared: what is said; ``raised`` takes the reason."""

    __slots__ = ("is_raised", "_raised", "_cleared", "_level", "_told_ms")

    def __init__(self, raised: str, cleared: str, level: int) -> None:
        self.is_raised = False  # as the log has it
        self._raised = raised
        self._cleared = cleared
        self._level = level
        self._told_ms = -QUIET_MS

    def see(self, reason: str, now_ms: int) -> None:
        """Take how it is now; "" is well.  What is held back for quiet is told at a later look, if it is still so."""
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
    """Looks at attributes only: whoever asks at the end of a turn pays nothing while all is well.

    is_raised: something was wrong when the log last spoke, so that the next look may have to take it back.
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
        "_failed",
        "_unread",
        "_memory",
        "_blocked",
        "_retention",
        "_hold",
        "_spill",
        "_lossy",
        "_late",
        "_aside",
        "_disk",
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
        self._failed = Alarm(
            "store: failed, nothing persistent is accepted: %s", "store: healed, it accepts again", logging.ERROR
        )
        self._unread = Alarm("store: a page could not be read: %s", "store: pages can be read again", logging.ERROR)
        self._memory = Alarm("memory: the gate is shut, %s", "memory: the gate is open again", logging.WARNING)
        self._blocked = Alarm("producers wait: %s", "no producer waits any more", logging.WARNING)
        self._disk = Alarm("disk: %s", "disk: there is room again", logging.WARNING)
        self._lossy = Alarm(
            "full addresses drop or refuse messages: %s", "no full address drops or refuses messages", logging.WARNING
        )
        self._late = Alarm(
            "schedule: due messages are held back: %s", "schedule: nothing is held back any more", logging.WARNING
        )
        self._aside = Alarm(
            "schedule: put aside, it cannot be fired: %s", "schedule: everything can be fired again", logging.ERROR
        )
        self._retention = Alarm("retention: space is not freed: %s", "retention: space is freed again", logging.ERROR)
        self._spill = Alarm(
            "memory: no temporary file can be written: %s", "memory: temporary files work again", logging.ERROR
        )
        self._hold = Alarm("retention: %s", "retention: it waits for no export any more", logging.WARNING)

    def look(self) -> None:
        """Compare with what the log said last."""
        events = self._store_events
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        reason = events.failure
        is_accepting = self._store.is_accepting()
        self._failed.see("" if is_accepting else reason or "no reason is known", now_ms)
        self._unread.see(events.page_fault(), now_ms)
        for text in events.skipped_records[self._skips_told :]:
            log.error("store: a damaged record was left out as requested, its message is lost: %s", text)
        self._skips_told = len(events.skipped_records)
        memory = self._memory_budget
        used = f"{memory.held_bytes()} of {memory.limit_bytes} octets are used"
        self._memory.see(used if self._flow.is_memory_shut else "", now_ms)
        self._blocked.see(self._who_waits(), now_ms)
        for text in self._slow_consumers.notices:
            log.warning("slow consumer: %s", text)
        self._slow_consumers.notices.clear()
        spiller = self._spiller
        if spiller is not None:
            for text in spiller.notices:
                log.error("memory: a block of a temporary file cannot be read: %s", text)
            spiller.notices.clear()
        self._disk.see(self._flow.disk_warning, now_ms)
        self._late.see(self._scheduler.firing.describe(), now_ms)
        self._aside.see(self._scheduler.aside_reason(), now_ms)
        self._lossy.see(self._who_refuses(), now_ms)
        self._retention.see(self._store.retention_reason(), now_ms)
        self._hold.see(self._store.retention_hold(), now_ms)
        self._spill.see("" if spiller is None else spiller.reason, now_ms)
        alarms = (self._failed, self._unread, self._memory, self._blocked, self._retention, self._hold, self._lossy)
        self.is_raised = (
            self._disk.is_raised
            or self._spill.is_raised
            or self._late.is_raised
            or self._aside.is_raised
            or any(alarm.is_raised for alarm in alarms)
        )

    def _who_refuses(self) -> str:
        """Return the full addresses that drop or refuse what comes."""
        full = [account for account in self._flow.accounts.full if account.action != BLOCK]
        if not full:
            return ""
        others = f", and {len(full) - 1} more" if len(full) > 1 else ""
        return f"{ACTION_NAMES[full[0].action]} at {full[0].describe()}{others}"

    def _who_waits(self) -> str:
        flow = self._flow
        for waits in flow.parked.values():
            wait = next(iter(waits.values()))
            others = f", and {len(flow.parked) - 1} more" if len(flow.parked) > 1 else ""
            return f"{wait.client.describe().get('address', '?')} at {flow.describe(wait)}{others}"
        return ""
