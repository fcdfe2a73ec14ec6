"""Alarms for the operator: the log has each change once, not each event, and at most one line per second."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from logging import ERROR, WARNING
from typing import Final

from engine.backlog.address_account import ACTION_NAMES, BLOCK
from engine.broker import Broker
from engine.limits.gate_words import describe
from engine.ports.clock import Clock
from engine.ports.store import Store

CHECK_MS: Final = 100  # while something is wrong every turn checks, and a reason in words costs more than many turns
QUIET_MS: Final = 1_000  # a gate that opens and shuts with every message must not fill the log

log: Final = logging.getLogger("penstock.alarms")


@dataclass(slots=True, eq=False)
class Alarm:
    """One possible fault.  reason: returns why it is there, "" for no fault.

    raised, cleared: texts of the log lines; ``raised`` takes the reason.
    """

    _reason: Callable[[], str]
    _raised: str
    _cleared: str
    level: int = WARNING
    is_raised: bool = False  # the state in the log
    _logged_ms: int = -QUIET_MS

    def words(self) -> str:
        """Return the fault as it is now, as the log would say it; "" for none."""
        reason = self._reason()
        return self._raised % reason if reason else ""

    def check(self, now_ms: int) -> None:
        """Write a line if something has changed; one that is held back is written later, if it is still true."""
        reason = self._reason()
        is_wrong = reason != ""
        if is_wrong == self.is_raised or now_ms - self._logged_ms < QUIET_MS:
            return
        self.is_raised = is_wrong
        self._logged_ms = now_ms
        if is_wrong:
            log.log(self.level, self._raised, reason)
        else:
            log.info(self._cleared)


class Alarms:
    """The alarms.  The end of a turn only reads ``is_raised``, so they cost nothing while all is well.

    is_raised: the last line in the log reports a fault, so the next check may have to clear it.
    """

    __slots__ = (
        "is_raised",
        "_broker",
        "_store",
        "_clock",
        "_skips_logged",
        "_losses_logged_ms",
        "_checked_ms",
        "_alarms",
    )

    def __init__(self, broker: Broker, store: Store, clock: Clock) -> None:
        self.is_raised = False
        self._broker = broker
        self._store = store
        self._clock = clock
        self._skips_logged = 0
        self._losses_logged_ms = -QUIET_MS
        self._checked_ms = -CHECK_MS
        # In the order of the report.
        self._alarms = [
            Alarm(
                self._store_failure,
                "store: failed, nothing persistent is accepted: %s",
                "store: healed, it accepts again",
                ERROR,
            ),
            Alarm(
                broker.store_events.page_fault,
                "store: a page could not be read: %s",
                "store: pages can be read again",
                ERROR,
            ),
            Alarm(self._memory_in_use, "memory: the gate is shut, %s", "memory: the gate is open again"),
            Alarm(self._who_waits, "producers wait: %s", "no producer waits any more"),
            Alarm(lambda: broker.producer_gates.disk_warning, "disk: %s", "disk: there is room again"),
            Alarm(
                broker.scheduler.held_reason,
                "schedule: due messages are held back: %s",
                "schedule: nothing is held back any more",
            ),
            Alarm(
                broker.scheduler.aside_reason,
                "schedule: put aside, it cannot be fired: %s",
                "schedule: everything can be fired again",
                ERROR,
            ),
            Alarm(
                self._who_refuses,
                "full addresses drop or refuse messages: %s",
                "no full address drops or refuses messages any more",
            ),
            Alarm(
                store.retention_reason,
                "retention: space is not freed: %s",
                "retention: space is freed again",
                ERROR,
            ),
            Alarm(store.retention_hold, "retention: %s", "retention: no space waits for an export any more"),
            Alarm(
                lambda: "" if broker.spiller is None else broker.spiller.reason,
                "memory: no temporary file can be written: %s",
                "memory: temporary files work again",
                ERROR,
            ),
        ]

    def check(self) -> None:
        """Compare the state with the last lines of the log."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._checked_ms < CHECK_MS:
            return
        self._checked_ms = now_ms
        self._report_events(now_ms)
        for alarm in self._alarms:
            alarm.check(now_ms)
        self.is_raised = any(alarm.is_raised for alarm in self._alarms)

    def present(self) -> list[tuple[str, str]]:
        """Return the faults that are there now, each with its level, ``error`` or ``warning``."""
        found = [(alarm.level, alarm.words()) for alarm in self._alarms]
        return [("error" if level >= ERROR else "warning", words) for level, words in found if words]

    def _report_events(self, now_ms: int) -> None:
        """Write a line for each event since the last check."""
        broker = self._broker
        skipped = broker.store_events.skipped_records
        for text in skipped[self._skips_logged :]:
            log.error("store: a damaged record was skipped as requested, its message is lost: %s", text)
        self._skips_logged = len(skipped)
        for text in broker.slow_consumers.notices:
            log.warning("slow consumer: %s", text)
        broker.slow_consumers.notices.clear()
        pending_memory = broker.producer_gates.pending_memory
        if now_ms - self._losses_logged_ms >= QUIET_MS and pending_memory.notices:
            self._losses_logged_ms = now_ms
            for text in pending_memory.take_notices():
                log.warning("memory: %s", text)
        if broker.spiller is not None:
            for text in broker.spiller.blocks.notices:
                log.error("memory: a block of a temporary file cannot be read: %s", text)
            broker.spiller.blocks.notices.clear()

    def _store_failure(self) -> str:
        return "" if self._store.is_accepting() else self._broker.store_events.failure or "no reason is known"

    def _memory_in_use(self) -> str:
        memory = self._broker.memory
        used = f"{memory.held_bytes()} of {memory.limit_bytes} octets are used"
        return used if self._broker.producer_gates.is_memory_shut else ""

    def _who_refuses(self) -> str:
        """Return the full addresses that drop or refuse messages."""
        full = [account for account in self._broker.producer_gates.accounts.full if account.action != BLOCK]
        if not full:
            return ""
        others = f", and {len(full) - 1} more" if len(full) > 1 else ""
        return f"{ACTION_NAMES[full[0].action]} at {full[0].describe()}{others}"

    def _who_waits(self) -> str:
        producer_gates = self._broker.producer_gates
        parked = producer_gates.waits.parked
        for waits in parked.values():
            wait = next(iter(waits.values()))
            others = f", and {len(parked) - 1} more" if len(parked) > 1 else ""
            return f"{wait.client.describe().get('address', '?')} at {describe(producer_gates, wait)}{others}"
        return ""
