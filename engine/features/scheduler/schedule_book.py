"""The pending schedules, shared by the parts that read them ahead, fire them and end them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Final

from engine.backlog.context import Context
from engine.fate.acceptance import Acceptance
from engine.features.message_copies import MessageCopies
from engine.features.scheduler.held_back import HeldBack
from engine.features.scheduler.lanes import REPEATING_LANE
from engine.features.scheduler.owners import Owners
from engine.features.scheduler.pending_schedules import Chunk, PendingSchedules, Schedule, merged
from engine.features.scheduler.plan import ScheduleLimits
from engine.features.scheduler.sorted_keys import SortedKeys
from engine.limits.producer_gate import Flow
from engine.ports.timers import TimerTarget
from engine.sources.observer import Observers
from engine.sources.registry import Destinations
from engine.values.message import Message, later_ms
from engine.values.outcomes import CAUSE_CANCELLED, CAUSE_DAMAGED, DROPPED

PLACE_BITS: Final = 52  # of a key: log offset below, due time above
PLACE_MASK: Final = (1 << PLACE_BITS) - 1

LATE_MOST: Final = 10_000  # counted at most
ASIDE_MS: Final = 3_600_000  # between two attempts to fire a schedule that cannot be fired (a defect)
DAMAGED_RETRY_MS: Final = 10_000  # after an unreadable record; the others do not wait for it


class ScheduleBook(TimerTarget):
    """number: of the schedule's queue in the store, 0 before its first message.

    pending, keys: pending schedules by place and by due time.  fired: how often each repeating one has fired.
    held: due messages held back by a gate.
    counts: pending schedules by the number of their destination.
    unreadable: why a record could not be read the last time, by place.
    aside: why a schedule could not be fired, by place: it is kept, may be cancelled, and is retried after ASIDE_MS.
    """

    __slots__ = (
        "context",
        "destinations",
        "flow",
        "acceptance",
        "copies",
        "observers",
        "limits",
        "owners",
        "number",
        "pending",
        "keys",
        "held",
        "fired",
        "counts",
        "cancelled_count",
        "unreadable",
        "aside",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        flow: Flow,
        acceptance: Acceptance,
        copies: MessageCopies,
        observers: Observers,
        limits: ScheduleLimits,
        owners: Owners,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.flow = flow
        self.acceptance = acceptance
        self.copies = copies
        self.observers = observers
        self.limits = limits
        self.owners = owners
        self.number = 0
        self.pending = PendingSchedules()
        self.keys = SortedKeys()
        self.held = HeldBack()
        self.fired: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.cancelled_count = 0
        self.unreadable: dict[int, str] = {}
        self.aside: dict[int, str] = {}

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

    @abstractmethod
    def has_use_for(self, schedule: Schedule) -> bool:
        """Say whether the record of a schedule, just read, is needed."""

    # -- pending schedules

    def schedule_at(self, place: int) -> Schedule:
        """Return a schedule that is pending."""
        schedule = self.pending.find(place)
        assert schedule is not None, "a schedule with a key is pending"
        return schedule

    def is_repeating(self, schedule: Schedule) -> bool:
        return schedule.lane == REPEATING_LANE

    def take_up(self, found: Chunk) -> None:
        """Restore what recovery found, by ascending place."""
        self.pending.take_up(found)
        self.counts = dict(Counter(found.targets))
        self.keys = SortedKeys(
            sorted([due_ms << PLACE_BITS | place for due_ms, place in zip(found.dues, found.places, strict=True)])
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
        """Return the id of a schedule for clients."""
        return f"{self.context.readers.id_prefix}{place}"

    def place_named(self, job_id: str) -> int:
        """Return the place of the schedule with this id, 0 if no schedule of this store can have it."""
        prefix = self.context.readers.id_prefix
        number = job_id.strip().removeprefix(prefix)
        if not job_id.strip().startswith(prefix) or not (number.isascii() and number.isdigit() and len(number) < 20):
            return 0
        return int(number)

    @staticmethod
    def key_of(due_ms: int, place: int) -> int:
        return due_ms << PLACE_BITS | place

    @staticmethod
    def due_of(key: int) -> int:
        return key >> PLACE_BITS

    @staticmethod
    def place_of(key: int) -> int:
        return key & PLACE_MASK

    # -- state

    def aside_reason(self) -> str:
        """Return how many cannot be fired, and the reason of one of them; "" for none."""
        for place, reason in self.aside.items():
            more = f", and {len(self.aside) - 1} more" if len(self.aside) > 1 else ""
            return f"scheduled message {self.job_id(place)}: {reason}{more}"
        return ""

    def fault(self) -> str:
        """Return which record cannot be read and why, "" for none."""
        for place, reason in self.unreadable.items():
            return f"scheduled message {self.job_id(place)}: {reason}"
        return ""

    def late_count(self) -> int:
        """Return how many are past due and have not fired, at most LATE_MOST."""
        now_key = self.key_of(self.context.wall_ms, 0)
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
        return self.keys.first() >> PLACE_BITS if len(self.keys) else 0
