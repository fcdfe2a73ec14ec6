"""The schedule: accepted messages that wait for their time; firing.py sends those that are due.

Each waits as a record in a queue of the store that clients cannot access (docs/reference/log-format.md).  Memory has
only its place and its due time.  A firing is one batch: the message is sent to its destination, and its record is
settled or gets its next time.  Confirmations, recovery and retention are those of any queue.
"""

from __future__ import annotations

from typing import Final

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.features.message_copies import MessageCopies
from engine.features.scheduler.delayed_send import Delayed
from engine.features.scheduler.ending import Ending, EndsWithDestination
from engine.features.scheduler.firing import Firing
from engine.features.scheduler.owners import Owners
from engine.features.scheduler.pending_schedules import REPEATING_LANE, Schedule, due_of, key_of, lane_for, place_of
from engine.features.scheduler.plan import ScheduleLimits
from engine.features.scheduler.read_ahead import NEVER_MS, ReadAhead
from engine.features.scheduler.recovery import restore
from engine.features.scheduler.schedule_book import ScheduleBook
from engine.features.scheduler.schedule_record import to_record
from engine.limits.producer_gates import ProducerGates
from engine.sources.observer import Observer
from engine.sources.registry import Destinations
from engine.values import gates
from engine.values.destination import QUEUE, SCHEDULE_QUEUE
from engine.values.errors import LimitReached
from engine.values.message import Message

TICK_MS: Final = 5  # between two checks for due messages
HELD_CHECK_MS: Final = 20  # between two checks of shut gates; most report when they open
CLOCK_CHECK_MS: Final = 1_000  # the wall clock may be set, so timers are no longer than this
RETRY_MS: Final = 1_000  # while the disk accepts nothing


class Scheduler(ScheduleBook):
    """Accepts messages, and fires them in time."""

    __slots__ = ("ahead", "firing", "ending", "armed_ms", "scheduled_count")

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        producer_gates: ProducerGates,
        acceptance: Acceptance,
        copies: MessageCopies,
        observers: list[Observer],
        limits: ScheduleLimits,
        owners: Owners,
    ) -> None:
        super().__init__(context, destinations, producer_gates, acceptance, copies, observers, limits, owners)
        self.armed_ms = 0
        self.scheduled_count = 0
        self.ahead = ReadAhead(self)
        self.ending = Ending(self)
        self.firing = Firing(self, self.ahead, self.ending)
        restore(self, SCHEDULE_QUEUE)
        self.ending.take_up()
        self._arm()
        producer_gates.own_senders.append(self.firing)
        observers.append(EndsWithDestination(self.ending))

    # -- sending

    def take(self, delayed: Delayed, message: Message) -> int:
        """Schedule ``message``, or return the gate that holds it back.  Raises: LimitReached, InvalidOption."""
        if self.producer_gates.is_blocked:
            gate = self.producer_gates.log_gate()
            if gate != gates.OPEN:
                return gate
        self.require_room(len(delayed.parts))
        if len(delayed.parts) == 1:
            self.add(delayed, message)
            return gates.OPEN
        self.context.begin_batch()
        self.add(delayed, message)
        self.context.commit_batch()
        return gates.OPEN

    def require_room(self, count: int) -> None:
        """Raises: LimitReached."""
        if len(self.pending) + count > self.limits.count:
            more = f", {count} more would be" if count > 1 else ""
            raise LimitReached(
                f"{len(self.pending)} messages are scheduled{more}, allowed are {self.limits.count} "
                "(schedule.max-count)"
            )
        self.owners.require(self.context.sender, count)

    def open(self) -> None:
        """Make sure that the schedule's own record is in the log."""
        if not self.number:
            self.number = self.context.store.open_destination(QUEUE, SCHEDULE_QUEUE)

    def add(self, delayed: Delayed, message: Message) -> None:
        """Schedule ``message`` for each part; the message gets the log offset of the first one."""
        self.open()
        now_ms = self.context.wall_ms
        plan = delayed.plan
        due_ms = plan.first_ms(now_ms, self.limits.zone)
        lane = REPEATING_LANE if plan.is_repeating() else lane_for(due_ms - now_ms)
        for target, lines in zip(delayed.numbers, delayed.lines, strict=True):
            record = to_record(message, self.number, lane, due_ms, max(0, target), lines, now_ms, plan)
            self.append(record, target, self.owners.add(self.context.sender))
            if message.log_offset < 0:
                message.log_offset = record.log_offset

    def opened(self, delayed: Delayed) -> Delayed:
        """Return the same with deleted destinations recreated.

        Raises: what ``MessageCopies.there`` raises.
        """
        if not any(part.is_closed for part in delayed.parts):
            return delayed
        return Delayed([self.copies.there(part) for part in delayed.parts], delayed.plan)

    def is_due(self, delayed: Delayed) -> bool:
        """Say whether a delayed message is due already."""
        return bool(delayed.plan.time_ms) and delayed.plan.time_ms <= self.context.wall_ms

    def append(self, record: Message, target: int, owner: int) -> None:
        """Add a record, which is counted already, to the schedule.  target: the number of its destination."""
        due_ms = record.expires_ms
        self.context.store.append(record)
        place = record.log_offset
        schedule = Schedule(place, record.priority, record.queue_offset, due_ms, target, record.size, owner)
        self.pending.add(schedule)
        self.counts[target] = self.counts.get(target, 0) + 1
        key = schedule.key()
        self.keys.add(key)
        if key <= self.held.reached:
            self.held.came_late(target, key)
        self.scheduled_count += 1
        self.ahead.came(due_ms, record)
        if place_of(self.keys.first()) == place:
            self._arm()

    # -- firing

    def timer_fired(self, key: int) -> None:
        if key == self.armed_ms:
            self.armed_ms = 0
            self.run()

    def run(self) -> None:
        """Fire due messages, as many as one turn may, and read those that are due soon."""
        if not self.context.store.is_accepting():
            self._arm(RETRY_MS)
            return
        self.ahead.read()
        self.firing.fire()
        self.ahead.read()
        self._arm(self.ahead.pause_ms())

    # -- pending schedules

    def forget(self, schedule: Schedule) -> None:
        place = schedule.place
        target = schedule.target
        key = schedule.key()
        self.pending.remove(place)
        self.owners.give_back(schedule.owner)
        self.keys.remove(key)
        self.held.remove(target, key, place)
        self.fired.pop(place, None)
        self.unreadable.pop(place, None)
        self.aside.pop(place, None)
        self.ahead.forget(place)
        left = self.counts[target] - 1
        if left:
            self.counts[target] = left
        else:
            del self.counts[target]
            self.ending.emptied(target)

    def move(self, schedule: Schedule, due_ms: int) -> None:
        """Change the due time of a schedule."""
        place = schedule.place
        key = schedule.key()
        self.keys.remove(key)
        self.held.remove(schedule.target, key, place)
        self.keys.add(key_of(due_ms, place))
        self.pending.move(place, due_ms)
        self.ahead.moved(place, due_ms)

    # -- time

    def _arm(self, least_ms: int = 0) -> None:
        """Set the timer for the next work, unless it is set for then or earlier."""
        if not len(self.keys):
            return
        clock = self.context.clock
        wall_ms = clock.wall_ms()
        held = self.held
        following = self.keys.after(held.reached, 1)
        wake_ms = min(due_of(following[0]) if following else NEVER_MS, self.ahead.next_ms())
        if held.going:
            wake_ms = wall_ms
        elif held.shut:
            wake_ms = min(wake_ms, wall_ms + HELD_CHECK_MS)
        delay_ms = max(least_ms, TICK_MS, min(wake_ms - wall_ms, CLOCK_CHECK_MS))
        due_ms = clock.monotonic_ms() + delay_ms
        if not 0 < self.armed_ms <= due_ms:
            self.armed_ms = due_ms
            self.context.timers.call_at(due_ms, self, due_ms)
