"""The pending schedules, shared by the parts that read them ahead, fire them and end them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.features.message_copies import MessageCopies
from engine.features.scheduler.held_back import Held, HeldBack
from engine.features.scheduler.owners import Owners
from engine.features.scheduler.pending_schedules import (
    REPEATING_LANE,
    Chunk,
    PendingSchedules,
    Schedule,
    due_of,
    key_of,
    merged,
)
from engine.features.scheduler.plan import ScheduleLimits
from engine.features.scheduler.sorted_keys import SortedKeys
from engine.limits.gate_words import describe_gate
from engine.limits.producer_gates import ProducerGates
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observer
from engine.sources.registry import Destinations
from engine.values.message import Message, later_ms
from engine.values.outcomes import CAUSE_CANCELLED, CAUSE_DAMAGED, DROPPED

LATE_MOST: Final = 10_000  # counted at most
ASIDE_MS: Final = 3_600_000  # between two attempts to fire a schedule that cannot be fired (a defect)
DAMAGED_RETRY_MS: Final = 10_000  # after an unreadable record; the others do not wait for it


@dataclass(slots=True, eq=False)
class ScheduleBook(TimerTarget):
    """number: of the schedule's queue in the store, 0 before its first message.

    pending, keys: pending schedules by place and by due time.  fired: how often each repeating one has fired.
    held: due messages held back by a gate.
    counts: pending schedules by the number of their destination.
    unreadable: why a record could not be read the last time, by place.
    aside: why a schedule could not be fired, by place: it is kept, may be cancelled, and is retried after ASIDE_MS.
    """

    context: Context
    destinations: Destinations
    producer_gates: ProducerGates
    acceptance: Acceptance
    copies: MessageCopies
    observers: list[Observer]
    limits: ScheduleLimits
    owners: Owners
    number: int = 0
    pending: PendingSchedules = field(default_factory=PendingSchedules)
    keys: SortedKeys = field(default_factory=SortedKeys)
    held: HeldBack = field(default_factory=HeldBack)
    fired: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    cancelled_count: int = 0
    unreadable: dict[int, str] = field(default_factory=dict)
    aside: dict[int, str] = field(default_factory=dict)

    def has_room(self, owner: int) -> bool:
        """Say whether a time of a cron expression may begin one more schedule; nobody is there to be refused."""
        return len(self.pending) < self.limits.count and self.owners.has_room(owner)

    # -- what the scheduler implements

    @abstractmethod
    def run(self) -> None:
        """Fire due messages, as many as one turn may, and read those that are due soon."""

    @abstractmethod
    def append(self, record: Message, target: int, owner: int) -> None:
        """Add a record, which is counted already, to the schedule.  target: the number of its destination."""

    @abstractmethod
    def forget(self, schedule: Schedule) -> None:
        """Forget a schedule."""

    @abstractmethod
    def move(self, schedule: Schedule, due_ms: int) -> None:
        """Change the due time of a schedule."""

    # -- pending schedules

    def schedule_at(self, place: int) -> Schedule:
        schedule = self.pending.find(place)
        assert schedule is not None, "a schedule with a key is pending"
        return schedule

    def is_repeating(self, schedule: Schedule) -> bool:
        return schedule.lane == REPEATING_LANE

    def has_use_for(self, schedule: Schedule) -> bool:
        """Say whether a record that was just read must stay in memory."""
        one = self.held.shut.get(schedule.target)
        return one is None or self.held.keep(one, schedule)

    def take_up(self, found: Chunk) -> None:
        """Restore what recovery found, by ascending place."""
        self.pending.take_up(found)
        self.counts = dict(Counter(found.targets))
        self.keys = SortedKeys(
            sorted([key_of(due_ms, place) for due_ms, place in zip(found.dues, found.places, strict=True)])
        )

    def cancel(self, schedules: list[Schedule]) -> None:
        """Cancel pending schedules: they never fire (again)."""
        self._drop(schedules, CAUSE_CANCELLED)
        self.cancelled_count += len(schedules)

    def damaged(self, place: int, reason: str) -> None:
        """The record cannot be read now: retry it later, and continue with the others."""
        schedule = self.pending.find(place)
        if schedule is not None:
            self.unreadable[place] = reason
            self.move(schedule, self.context.wall_ms + DAMAGED_RETRY_MS)

    def put_aside(self, schedule: Schedule, reason: str) -> None:
        """Put aside a schedule that cannot be fired: keep it, and continue with the others."""
        self.aside[schedule.place] = reason
        self.move(schedule, later_ms(self.context.wall_ms, ASIDE_MS))

    def lost(self, place: int) -> None:
        """The record is damaged, and the operator allows to skip it."""
        schedule = self.pending.find(place)
        if schedule is not None:
            self._drop([schedule], CAUSE_DAMAGED)

    def _drop(self, schedules: list[Schedule], cause: int) -> None:
        ended = [one.entry() for one in schedules]
        self.context.store.settle(self.number, 0, DROPPED, cause, merged(ended))
        for schedule in schedules:
            self.forget(schedule)

    # -- names and numbers

    def job_id(self, place: int) -> str:
        return f"{self.context.readers.id_prefix}{place}"

    def place_named(self, job_id: str) -> int:
        """Return the place of the schedule with this id, 0 if no schedule of this store can have it."""
        prefix = self.context.readers.id_prefix
        number = job_id.strip().removeprefix(prefix)
        if not job_id.strip().startswith(prefix) or not (number.isascii() and number.isdigit() and len(number) < 20):
            return 0
        return int(number)

    # -- state

    def aside_reason(self) -> str:
        """Return how many cannot be fired, and the reason of one of them; "" for none."""
        for place, reason in self.aside.items():
            more = f", and {len(self.aside) - 1} more" if len(self.aside) > 1 else ""
            return f"scheduled message {self.job_id(place)}: {reason}{more}"
        return ""

    def held_reason(self) -> str:
        """Return in words what holds back due messages, "" for nothing."""
        shut = self.held.shut
        if not shut:
            return ""
        more = f", and {len(shut) - 1} more destinations" if len(shut) > 1 else ""
        return f"{self._gate_of(next(iter(shut.values())))}{more}"

    def reason(self, schedule: Schedule) -> str:
        """Return in words what holds back a pending message, "" if it only waits for its time or its turn."""
        if schedule.place in self.aside:
            return f"it cannot be fired: {self.aside[schedule.place]}"
        one = self.held.shut.get(schedule.target)
        if one is None or not one.keys.has(schedule.key()):
            return ""
        since_ms = self.context.clock.monotonic_ms() - one.since_ms
        return f"{self._gate_of(one)}; for {since_ms / 1000:.1f} s"

    def _gate_of(self, one: Held) -> str:
        assert one.destination is not None, "a gate is one of a destination"
        return describe_gate(self.producer_gates, one.gate, one.destination)

    def fault(self) -> str:
        """Return which record cannot be read and why, "" for none."""
        for place, reason in self.unreadable.items():
            return f"scheduled message {self.job_id(place)}: {reason}"
        return ""

    def late_count(self) -> int:
        """Return how many are past due and have not fired, at most LATE_MOST."""
        now_key = key_of(self.context.wall_ms, 0)
        count = 0
        after = -1
        while count < LATE_MOST:
            keys = self.keys.after(after, LATE_MOST)
            late = [key for key in keys if key < now_key]
            count += len(late)
            if not keys or len(late) < len(keys):
                break
            after = keys[-1]
        return min(count, LATE_MOST)

    def next_due_ms(self) -> int:
        """Return when the first one is due, 0 if there is none."""
        return due_of(self.keys.first()) if len(self.keys) else 0
