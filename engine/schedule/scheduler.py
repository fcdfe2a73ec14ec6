"""The schedule: messages that have been accepted and wait for their time.

Each waits as a record of its own in a queue of the store that no client knows (docs/log-format.md); in memory is only
where it stands and when it is due.  A firing is one batch: the message goes where it was sent to, and its record is
settled, or told when it is due next.  Confirmations, recovery and retention are those of any queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine import gates
from engine.composite import Composite, Target
from engine.destination import QUEUE, SCHEDULE_QUEUE, TOPIC
from engine.errors import EngineError, LimitReached
from engine.message import Message
from engine.ports import (
    ACKNOWLEDGED,
    CAUSE_CANCELLED,
    CAUSE_DAMAGED,
    CAUSE_FIRED,
    DELIVERY_COUNT_MAX,
    DROPPED,
    Range,
    TimerTarget,
)
from engine.schedule.delayed import Delayed
from engine.schedule.lanes import REPEATING_LANE, lane_for
from engine.schedule.pending import PendingSchedules, Schedule
from engine.schedule.plan import ScheduleLimits
from engine.schedule.read_ahead import ReadAhead
from engine.schedule.restoring import restore
from engine.schedule.sorted_keys import SortedKeys
from engine.schedule.ticket import Ticket, read_ticket, standing_lines, to_message, to_record

if TYPE_CHECKING:
    from engine.broker import Broker

PLACE_BITS: Final = 52  # of a key: log offset below, due time above
PLACE_MASK: Final = (1 << PLACE_BITS) - 1

FIRE_MESSAGES: Final = 256  # in one turn
FIRE_BYTES: Final = 4 * 1024 * 1024  # in one batch; one message always fits
TICK_MS: Final = 5  # between two looks at what is due
CLOCK_CHECK_MS: Final = 1_000  # the wall clock may be set; nobody sleeps past that for longer
RETRY_MS: Final = 1_000  # after a disk that takes nothing
LATE_MOST: Final = 10_000  # that a look at the schedule counts
DAMAGED_RETRY_MS: Final = 10_000  # after a record that cannot be read; the others do not wait for it


class Due:
    """One firing, worked out before its batch begins.

    sends: what is delivered, and where.  child: the schedule that begins at this time of a cron expression.
    next_ms: when it is due again, 0 for never.
    """

    __slots__ = ("schedule", "sends", "child", "child_target", "child_due_ms", "next_ms")

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.sends: list[tuple[Target, Message]] = []
        self.child: Message | None = None
        self.child_target = 0
        self.child_due_ms = 0
        self.next_ms = 0


class Scheduler(TimerTarget):
    """number: of the schedule's queue in the store, 0 before its first message.

    pending, keys: what waits, by place and by due time.  fired: how often each one that repeats has fired.
    counts: pending schedules by the number of where they go.
    unreadable: why a record could not be read the last time, by place.
    """

    __slots__ = (
        "broker",
        "limits",
        "number",
        "pending",
        "keys",
        "ahead",
        "fired",
        "counts",
        "armed_ms",
        "scheduled_count",
        "fired_count",
        "cancelled_count",
        "unreadable",
    )

    def __init__(self, broker: Broker, limits: ScheduleLimits) -> None:
        self.broker = broker
        self.limits = limits
        self.number = 0
        self.pending = PendingSchedules()
        self.keys = SortedKeys()
        self.ahead = ReadAhead(self)
        self.fired: dict[int, int] = {}
        self.counts: dict[int, int] = {}
        self.armed_ms = 0
        self.scheduled_count = 0
        self.fired_count = 0
        self.cancelled_count = 0
        self.unreadable: dict[int, str] = {}
        restore(self, SCHEDULE_QUEUE)
        self._arm()

    # -- sending

    def take(self, delayed: Delayed, message: Message) -> int:
        """Schedule ``message``, or return the gate that holds it back.  Raises: LimitReached, InvalidOption."""
        broker = self.broker
        for part in delayed.parts:
            if part.is_closed:
                delayed = self._open_parts(delayed)
                break
        if delayed.plan.time_ms and delayed.plan.time_ms <= broker.wall_ms:
            return self._send_now(delayed, message)
        if broker.flow.is_blocked:
            gate = broker.flow.schedule_gate()
            if gate != gates.OPEN:
                return gate
        self.require_room(len(delayed.parts))
        if len(delayed.parts) == 1:
            self.add(delayed, message)
            return gates.OPEN
        self.open()
        broker.begin_batch(self.reserve_bytes(delayed, message))
        self.add(delayed, message)
        broker.commit_batch()
        return gates.OPEN

    def require_room(self, count: int) -> None:
        """Raises: LimitReached."""
        if len(self.pending) + count > self.limits.count:
            more = f", {count} more are to be" if count > 1 else ""
            raise LimitReached(
                f"{len(self.pending)} messages are scheduled{more}, allowed are {self.limits.count} "
                "(schedule.max-count)"
            )

    def open(self) -> None:
        """Make sure of the schedule's own record in the log; outside of a batch, which holds what was reserved for."""
        if not self.number:
            self.number = self.broker.store.open_destination(QUEUE, SCHEDULE_QUEUE)

    def reserve_bytes(self, delayed: Delayed, message: Message) -> int:
        """Return the octets that ``add`` takes in the log at most."""
        plan = delayed.plan
        return sum(
            self.broker.store.record_bytes(to_record(message, 0, 0, 0, 0, lines, self.broker.wall_ms, plan))
            for lines in delayed.lines
        )

    def add(self, delayed: Delayed, message: Message) -> None:
        """Schedule ``message`` for each part; it takes the place of the first one in the log."""
        self.open()
        now_ms = self.broker.wall_ms
        plan = delayed.plan
        due_ms = plan.first_ms(now_ms, self.limits.zone)
        lane = REPEATING_LANE if plan.is_repeating() else lane_for(due_ms - now_ms)
        for target, lines in zip(delayed.numbers, delayed.lines, strict=True):
            record = to_record(message, self.number, lane, due_ms, target, lines, now_ms, plan)
            self._append(record, target)
            if message.log_offset < 0:
                message.log_offset = record.log_offset

    def _open_parts(self, delayed: Delayed) -> Delayed:
        """Return the same with what was deleted since it was made there again.

        Raises: InvalidDestination for a temporary destination that is gone.
        """
        target = self.broker.destinations.target
        parts = [target(part.kind, part.name) if part.is_closed else part for part in delayed.parts]
        return Delayed(parts, delayed.plan)

    def _send_now(self, delayed: Delayed, message: Message) -> int:
        """Send what is due already as any other message."""
        broker = self.broker
        if len(delayed.parts) == 1:
            message.destination_id = delayed.parts[0].destination_id
            return broker.send(delayed.parts[0], message)
        return broker.send(Composite(delayed.parts), message)

    def _append(self, record: Message, target: int) -> None:
        due_ms = record.expires_ms
        self.broker.store.append(record)
        place = record.log_offset
        self.pending.add(Schedule(place, record.priority, record.queue_offset, due_ms, target, record.size))
        self.counts[target] = self.counts.get(target, 0) + 1
        self.keys.add(due_ms << PLACE_BITS | place)
        self.scheduled_count += 1
        self.ahead.came(due_ms, record)
        if self.keys.first() & PLACE_MASK == place:
            self._arm()

    # -- firing

    def timer_fired(self, key: int) -> None:
        if key == self.armed_ms:
            self.armed_ms = 0
            self.run()

    def run(self) -> None:
        """Fire what is due, as much as one turn may hold, and have read what is due soon."""
        broker = self.broker
        if not broker.store.is_accepting():
            self._arm(RETRY_MS)
            return
        now_ms = broker.wall_ms
        self.ahead.read()
        left = FIRE_MESSAGES
        while left > 0:
            batch = self._take_due(now_ms, left)
            if not batch:
                break
            self._fire(batch, now_ms)
            left -= len(batch)
        self.ahead.read()
        self._arm(self.ahead.pause_ms())

    def _take_due(self, now_ms: int, most: int) -> list[tuple[Schedule, Message]]:
        """Return what is due and read, in order, as much as one batch may hold."""
        found: list[tuple[Schedule, Message]] = []
        size_bytes = 0
        last = -1
        while len(found) < most and size_bytes < FIRE_BYTES:
            following = self.keys.after(last, 1)
            if not following or following[0] >> PLACE_BITS > now_ms:
                break
            last = following[0]
            place = last & PLACE_MASK
            message = self.ahead.loaded.get(place)
            if message is None:
                if not found:
                    self.ahead.want(place)
                break
            schedule = self.pending.find(place)
            assert schedule is not None, "what has a key is pending"
            found.append((schedule, message))
            size_bytes += message.size
        return found

    def _fire(self, batch: list[tuple[Schedule, Message]], now_ms: int) -> None:
        """Deliver and settle some in one batch of the log."""
        broker = self.broker
        store = broker.store
        due = [self._work_out(schedule, message, now_ms) for schedule, message in batch]
        reserve = 0
        for one in due:
            reserve += store.settlement_bytes(1)
            reserve += sum(broker.accept_bytes(target, message) for target, message in one.sends)
            if one.child is not None:
                reserve += store.record_bytes(one.child)
        settled: list[Range] = []
        broker.begin_batch(reserve)
        for one, (schedule, record) in zip(due, batch, strict=True):
            for target, message in one.sends:
                broker.publish_own(target, message)
            if one.child is not None:
                self._append(one.child, one.child_target)
            if one.next_ms:
                count = min(self.fired[schedule.place], DELIVERY_COUNT_MAX)
                again = Range(schedule.lane, schedule.queue_offset, 1, count)
                store.fail_attempts(self.number, 0, CAUSE_FIRED, one.next_ms, [again])
                self._move(schedule, one.next_ms)
            else:
                settled.append(Range(schedule.lane, schedule.queue_offset, 1, 0, record.size, (record.size,)))
                self._forget(schedule)
        if settled:
            store.settle(self.number, 0, ACKNOWLEDGED, CAUSE_FIRED, _merged(settled))
        broker.commit_batch()
        self.fired_count += len(due)
        for one in due:
            for target, message in one.sends:
                if target.is_told:
                    broker.advisories.sent(target, message)

    def _work_out(self, schedule: Schedule, record: Message, now_ms: int) -> Due:
        broker = self.broker
        one = Due(schedule)
        ticket, own = read_ticket(record.annotations)
        plan = ticket.plan
        if plan.is_repeating():
            count = self.fired.get(schedule.place, 0) + 1
            self.fired[schedule.place] = count
            one.next_ms = plan.next_ms(schedule.due_ms, now_ms, count, self.limits.zone)
        target = self._target(ticket)
        if target is None:
            one.next_ms = 0  # a temporary destination, gone with its connection
            return one
        job_id = self.job_id(schedule.place)
        message = to_message(record, ticket, own, target.destination_id, job_id, now_ms)
        begins = plan.at_hit() if plan.cron else None
        if begins is None:
            one.sends = broker.copies.expand(target, message)
        else:
            lines = standing_lines(ticket.kind, ticket.name, begins)
            message.annotations = own
            message.size = len(own) + len(message.headers) + len(message.body)
            due_ms = begins.first_ms(schedule.due_ms, self.limits.zone)
            lane = REPEATING_LANE if begins.is_repeating() else lane_for(due_ms - now_ms)
            one.child_target = schedule.target
            one.child = to_record(message, self.number, lane, due_ms, schedule.target, lines, now_ms, begins)
        return one

    def _target(self, ticket: Ticket) -> Target | None:
        """Return where a message goes, made again if it was deleted; None for a temporary one that is gone."""
        destinations = self.broker.destinations
        if ticket.kind == QUEUE:
            return destinations.own_queue(ticket.name)
        if ticket.kind == TOPIC:
            return destinations.own_topic(ticket.name)
        try:
            return destinations.temporary(ticket.kind, ticket.name)
        except EngineError:
            return None

    # -- what waits

    def cancel(self, schedules: list[Schedule]) -> None:
        """Let some that are pending never fire (again)."""
        self._drop(schedules, CAUSE_CANCELLED)
        self.cancelled_count += len(schedules)

    def cancel_for(self, target: int) -> None:
        """Cancel all that is for the destination with this number, which ends."""
        if target > 0 and target in self.counts:
            self.cancel([one for one in self.pending if one.target == target])

    def job_id(self, place: int) -> str:
        """Return how a schedule is named to clients."""
        return f"{self.broker.readers.id_prefix}{place}"

    def place_named(self, job_id: str) -> int:
        """Return the place of the schedule with this id, 0 if no schedule of this store can have it."""
        prefix = self.broker.readers.id_prefix
        number = job_id.strip().removeprefix(prefix)
        if not job_id.strip().startswith(prefix) or not (number.isascii() and number.isdigit() and len(number) < 20):
            return 0
        return int(number)

    def damaged(self, place: int, reason: str) -> None:
        """The record cannot be read now: try again later, and let the others pass."""
        schedule = self.pending.find(place)
        if schedule is not None:
            self.unreadable[place] = reason
            self._move(schedule, self.broker.wall_ms + DAMAGED_RETRY_MS)

    def lost(self, place: int) -> None:
        """The record is damaged, and the operator asked to go on without it."""
        schedule = self.pending.find(place)
        if schedule is not None:
            self._drop([schedule], CAUSE_DAMAGED)

    def take_up(self, found: list[Schedule]) -> None:
        """Take over what recovery found, by ascending place."""
        for schedule in found:
            self.pending.add(schedule)
            self.counts[schedule.target] = self.counts.get(schedule.target, 0) + 1
        self.keys = SortedKeys(sorted([one.due_ms << PLACE_BITS | one.place for one in found]))

    @staticmethod
    def key_of(due_ms: int, place: int) -> int:
        return due_ms << PLACE_BITS | place

    @staticmethod
    def due_of(key: int) -> int:
        return key >> PLACE_BITS

    @staticmethod
    def place_of(key: int) -> int:
        return key & PLACE_MASK

    def is_repeating(self, schedule: Schedule) -> bool:
        return schedule.lane == REPEATING_LANE

    def fault(self) -> str:
        """Return which record cannot be read and why, "" if all can."""
        for place, reason in self.unreadable.items():
            return f"scheduled message {self.job_id(place)}: {reason}"
        return ""

    def late_count(self) -> int:
        """Return how many are past due and have not fired, LATE_MOST for that many or more."""
        now_key = self.key_of(self.broker.wall_ms, 0)
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
        """Return when the first one is due, 0 without any."""
        return self.keys.first() >> PLACE_BITS if len(self.keys) else 0

    def _drop(self, schedules: list[Schedule], cause: int) -> None:
        ended = [Range(one.lane, one.queue_offset, 1, 0, one.size, (one.size,)) for one in schedules]
        self.broker.store.settle(self.number, 0, DROPPED, cause, _merged(ended))
        for schedule in schedules:
            self._forget(schedule)

    def _forget(self, schedule: Schedule) -> None:
        place = schedule.place
        self.pending.remove(place)
        self.keys.remove(schedule.due_ms << PLACE_BITS | place)
        self.fired.pop(place, None)
        self.unreadable.pop(place, None)
        self.ahead.forget(place)
        left = self.counts[schedule.target] - 1
        if left:
            self.counts[schedule.target] = left
        else:
            del self.counts[schedule.target]

    def _move(self, schedule: Schedule, due_ms: int) -> None:
        """Let a schedule be due at another time."""
        place = schedule.place
        self.keys.remove(schedule.due_ms << PLACE_BITS | place)
        self.keys.add(due_ms << PLACE_BITS | place)
        self.pending.move(place, due_ms)
        self.ahead.moved(place, due_ms)

    # -- time

    def _arm(self, least_ms: int = 0) -> None:
        """Set the timer for what is to be done next, unless it is set for then or earlier."""
        if not len(self.keys):
            return
        clock = self.broker.clock
        wall_ms = clock.wall_ms()
        wake_ms = min(self.next_due_ms(), self.ahead.next_ms())
        delay_ms = max(least_ms, TICK_MS, min(wake_ms - wall_ms, CLOCK_CHECK_MS))
        due_ms = clock.monotonic_ms() + delay_ms
        if not 0 < self.armed_ms <= due_ms:
            self.armed_ms = due_ms
            self.broker.timers.call_at(due_ms, self, due_ms)


def _merged(ranges: list[Range]) -> list[Range]:
    """Return the same with neighbours put together."""
    ranges.sort(key=_where)
    merged: list[Range] = []
    for one in ranges:
        last = merged[-1] if merged else None
        if last is not None and last.priority == one.priority and last.first + last.count == one.first:
            last.count += 1
            last.size_bytes += one.size_bytes
        else:
            merged.append(one)
    return merged


def _where(one: Range) -> tuple[int, int]:
    return one.priority, one.first
