"""Firing: sends due messages to their destinations, unless a gate there is shut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.features.scheduler.ending import Ending
from engine.features.scheduler.held_back import Held
from engine.features.scheduler.pending_schedules import REPEATING_LANE, Schedule, due_of, lane_for, merged, place_of
from engine.features.scheduler.read_ahead import ReadAhead
from engine.features.scheduler.schedule_book import ScheduleBook
from engine.features.scheduler.schedule_record import ScheduleHeader, read_header, standing_lines, to_message, to_record
from engine.limits.producer_gates import OwnSender
from engine.sources.composite import Target
from engine.sources.queue_rules import has_send_advisories
from engine.values import gates
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import DATA_FAULTS, EngineError
from engine.values.message import Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_FIRED
from engine.values.stored import DELIVERY_COUNT_MAX, Range

FIRE_MESSAGES: Final = 256  # per turn; at most half of them were held back before
FIRE_BYTES: Final = 4 * 1024 * 1024  # per batch; one message always fits
HOLD_MESSAGES: Final = 2_048  # added to those held back, per turn
TARGETS_CHECKED: Final = 256  # destinations whose gate is checked per turn

Batch = list[tuple[Schedule, Message]]


@dataclass(slots=True)
class Due:
    """One firing, computed before its batch begins.

    sends: messages and their destinations.  child: the schedule that begins at this time of a cron expression.
    count: how often it will have fired.  next_ms: when it is due again, 0 for never.
    """

    schedule: Schedule
    sends: list[tuple[Target, Message]] = field(default_factory=list)
    child: Message | None = None
    count: int = 0
    next_ms: int = 0


class Firing(OwnSender):
    """Part of the scheduler; it processes its ``keys`` in order.

    A destination whose gate is shut holds back only its own due messages.

    under_way: places being fired; at: the one being computed or delivered, 0 between them.
    doubtful: places that were under way when a defect stopped the gateway.  Each is fired alone, so that the next stop
    shows which it was.  barred: those found guilty, and why: they are not fired again.
    """

    __slots__ = ("scheduler", "ahead", "ending", "held", "fired_count", "under_way", "at", "doubtful", "barred")

    def __init__(self, scheduler: ScheduleBook, ahead: ReadAhead, ending: Ending) -> None:
        self.scheduler = scheduler
        self.ahead = ahead
        self.ending = ending
        self.held = scheduler.held
        self.fired_count = 0
        self.under_way: list[int] = []
        self.at = 0
        self.doubtful: set[int] = set()
        self.barred: dict[int, str] = {}

    def fire(self) -> None:
        """Fire due messages, as many as one turn may."""
        now_ms = self.scheduler.context.wall_ms
        left = FIRE_MESSAGES
        if self.held.count:
            self._open_gates()
            left -= self._fire_held(now_ms)
        passed = 0
        while left > 0 and passed < HOLD_MESSAGES:
            batch, passed = self._take_due(now_ms, left, passed)
            if not batch:
                break
            self._fire(batch, now_ms)
            left -= len(batch)

    def gates_opened(self) -> bool:
        """Fire, in this turn, messages whose gate has opened; return whether there were any."""
        if not self.held.shut or not self.scheduler.context.store.is_accepting() or not self._open_gates():
            return False
        self._fire_held(self.scheduler.context.wall_ms)
        return True

    def suspected(self) -> list[int]:
        """Return the places of messages whose firing may have raised; empty outside of firing."""
        return [self.at] if self.at else self.under_way[:]

    # -- the steps

    def _open_gates(self) -> bool:
        """Check some of the shut gates; return whether one has opened."""
        producer_gates = self.scheduler.producer_gates
        shut = self.held.shut
        is_any = False
        for target in list(shut)[:TARGETS_CHECKED]:
            one = shut.pop(target)
            if one.destination is None or producer_gates.is_gate_open(one.gate, one.destination):
                self.held.let_go_on(one)
                is_any = True
            else:
                shut[target] = one  # the next check begins behind it
        return is_any

    def _fire_held(self, now_ms: int) -> int:
        """Fire messages whose gate has opened; return how many."""
        held = self.held
        left = most = FIRE_MESSAGES // 2
        for target in list(held.going)[:TARGETS_CHECKED]:
            one = held.going.pop(target)
            held.going[target] = one  # the next turn begins behind it
            batch = self._take_held(one, left)
            if batch:
                self._fire(batch, now_ms)
                left -= len(batch)
                if left <= 0:
                    break
        return most - left

    def _take_held(self, one: Held, most: int) -> Batch:
        """Return released messages of one destination, as many as one batch may hold, and read what follows."""
        scheduler = self.scheduler
        found: Batch = []
        missing: list[int] = []
        size_bytes = 0
        for key in one.keys.after(-1, most):
            place = self.at = place_of(key)
            schedule = scheduler.schedule_at(place)
            if self._is_barred(schedule):
                continue
            if schedule.target in self.ending.ended:
                scheduler.cancel([schedule])
                continue
            message = self.ahead.loaded.get(place)
            if message is None or missing:
                missing.append(place)
            elif size_bytes >= FIRE_BYTES:
                break
            else:
                found.append((schedule, message))
                size_bytes += message.size
        self.at = 0
        self.ahead.want(missing)
        return found

    def _take_due(self, now_ms: int, most: int, passed: int) -> tuple[Batch, int]:
        """Return due messages that were read, in order, as many as one batch may hold.

        Messages for a destination that is held back are added to those that wait there.  passed: how many were added so
        in this turn; it is returned with those of this call.
        """
        scheduler = self.scheduler
        held = self.held
        found: Batch = []
        size_bytes = 0
        last = held.reached
        while len(found) < most and size_bytes < FIRE_BYTES and passed < HOLD_MESSAGES:
            following = scheduler.keys.after(last, 1)
            if not following or due_of(following[0]) > now_ms:
                break
            last = following[0]
            place = self.at = place_of(last)
            schedule = scheduler.schedule_at(place)
            if self._is_barred(schedule):
                passed += 1
                continue
            one = held.find(schedule.target) if held.count else None
            if schedule.target in self.ending.ended:
                scheduler.cancel([schedule])
                passed += 1
            elif one is not None:
                self._hold(one, schedule)
                passed += 1
            elif place in self.ahead.loaded:
                message = self.ahead.loaded[place]
                found.append((schedule, message))
                size_bytes += message.size
            else:
                if not found:
                    keys = scheduler.keys.after(last - 1, most)
                    self.ahead.want([place_of(key) for key in keys if due_of(key) <= now_ms])
                break
        self.at = 0
        return found, passed

    def _hold(self, one: Held, schedule: Schedule) -> None:
        self.held.add(one, schedule.key())
        if not self.held.keep(one, schedule):
            self.ahead.forget(schedule.place)

    def _keep_first(self, one: Held) -> None:
        """Keep in memory what fires first when the gate opens, and nothing else of the destination."""
        scheduler = self.scheduler
        missing: list[int] = []
        for key in one.keys.after(-1, FIRE_MESSAGES):
            schedule = scheduler.schedule_at(place_of(key))
            if not self.held.keep(one, schedule):
                self.ahead.forget(schedule.place)
            elif schedule.place not in self.ahead.loaded:
                missing.append(schedule.place)
        self.ahead.want(missing)

    def _fire(self, batch: Batch, now_ms: int) -> None:
        """Deliver and settle some messages; those that meet a shut gate are held back."""
        if not self.doubtful:
            self._fire_together(batch, now_ms)
            return
        for one in batch:
            self._fire_together([one], now_ms)
            self.doubtful.discard(one[0].place)

    def _fire_together(self, batch: Batch, now_ms: int) -> None:
        """Do so in one batch of the log."""
        scheduler = self.scheduler
        context = scheduler.context
        store = context.store
        self.under_way = [schedule.place for schedule, _ in batch]
        due = [one for schedule, message in batch if (one := self._work_out(schedule, message, now_ms)) is not None]
        self.at = 0
        settled: list[Range] = []
        fired: list[Due] = []
        refused: list[Held] = []
        context.begin_batch()
        for one in due:
            schedule = one.schedule
            self.at = schedule.place
            if scheduler.producer_gates.is_blocked and self._is_held_back(one, refused):
                continue
            fired.append(one)
            for target, message in one.sends:
                scheduler.acceptance.publish_own(target, message)
            if one.child is not None and scheduler.has_room(schedule.owner):
                scheduler.owners.add_another(schedule.owner)
                scheduler.append(one.child, schedule.target, schedule.owner)
            if one.next_ms:
                scheduler.fired[schedule.place] = one.count
                again = Range(schedule.lane, schedule.queue_offset, 1, min(one.count, DELIVERY_COUNT_MAX))
                store.fail_attempts(scheduler.number, 0, CAUSE_FIRED, one.next_ms, [again])
                scheduler.move(schedule, one.next_ms)
            else:
                settled.append(schedule.entry())
                scheduler.forget(schedule)
        self.at = 0
        if settled:
            store.settle(scheduler.number, 0, ACKNOWLEDGED, CAUSE_FIRED, merged(settled))
        context.commit_batch()
        for waiting in refused:
            self._keep_first(waiting)
        self.fired_count += len(fired)
        for one in fired:
            for target, message in one.sends:
                if has_send_advisories(target.settings):
                    for observer in scheduler.observers:
                        observer.sent(target, message)
        self.under_way = []

    def _is_held_back(self, one: Due, refused: list[Held]) -> bool:
        """Check the gates of all messages of one firing; those to be dropped are removed from it and counted.

        refused: the first refusal of a destination is added here.
        """
        producer_gates = self.scheduler.producer_gates
        schedule = one.schedule
        before = self.held.shut.get(schedule.target)
        if before is not None:  # an earlier one was refused in this batch
            self._hold(before, schedule)
            return True
        discarding: list[Target] = []
        sends: list[tuple[Target, Message]] = []
        for target, message in one.sends:
            gate = producer_gates.own_refusal(target, message)
            if gate == gates.DISCARDED:
                discarding.append(target)
            elif gate == gates.OPEN:
                sends.append((target, message))
            else:
                now_ms = self.scheduler.context.clock.monotonic_ms()
                refused.append(self.held.refuse(schedule.target, gate, target, now_ms))
                self._hold(refused[-1], schedule)
                return True
        for target in discarding:
            producer_gates.count_dropped(target)
        one.sends = sends
        return False

    def _work_out(self, schedule: Schedule, record: Message, now_ms: int) -> Due | None:
        """Return the computed firing, None if it cannot be computed: it is then put aside and reported.

        Nothing has changed yet, so a defect in one record affects no other.
        """
        self.at = schedule.place
        if self._is_barred(schedule):
            return None
        try:
            header, own = read_header(record.annotations)
        except DATA_FAULTS as error:
            self._put_aside(schedule, error)
            return None
        target = self._target(header)
        if target is None:
            return Due(schedule)  # a temporary destination that is gone with its connection
        try:
            one, message = self._computed(schedule, record, header, own, target, now_ms)
        except DATA_FAULTS as error:
            self._put_aside(schedule, error)
            return None
        if message is not None:
            try:
                one.sends = self.scheduler.copies.expand(target, message)
            except EngineError as error:
                self._put_aside(schedule, error)
                return None
        self.scheduler.aside.pop(schedule.place, None)
        return one

    def _is_barred(self, schedule: Schedule) -> bool:
        """Put a schedule aside if it is barred."""
        if schedule.place not in self.barred:
            return False
        self.scheduler.put_aside(schedule, self.barred[schedule.place])
        return True

    def _put_aside(self, schedule: Schedule, error: Exception) -> None:
        self.scheduler.put_aside(schedule, f"{type(error).__name__}: {error}")

    def _computed(
        self, schedule: Schedule, record: Message, header: ScheduleHeader, own: bytes, target: Target, now_ms: int
    ) -> tuple[Due, Message | None]:
        """Return one firing and the message that it delivers, None if it only begins a schedule.

        It computes and changes nothing.
        """
        scheduler = self.scheduler
        one = Due(schedule)
        plan = header.plan
        if plan.is_repeating():
            one.count = scheduler.fired.get(schedule.place, 0) + 1
            one.next_ms = plan.next_ms(schedule.due_ms, now_ms, one.count, scheduler.limits.zone)
        message = to_message(record, header, own, target.destination_id, scheduler.job_id(schedule.place), now_ms)
        begins = plan.at_hit() if plan.cron else None
        if begins is None:
            return one, message
        lines = standing_lines(header.kind, header.name, begins)
        message.annotations = own
        message.size = len(own) + len(message.headers) + len(message.body)
        due_ms = begins.first_ms(schedule.due_ms, scheduler.limits.zone)
        lane = REPEATING_LANE if begins.is_repeating() else lane_for(due_ms - now_ms)
        one.child = to_record(message, scheduler.number, lane, due_ms, max(0, schedule.target), lines, now_ms, begins)
        return one, None

    def _target(self, header: ScheduleHeader) -> Target | None:
        """Return the destination of a message, recreated if it was deleted; None for a temporary one that is gone."""
        destinations = self.scheduler.destinations
        if header.kind == QUEUE:
            return destinations.own_queue(header.name)
        if header.kind == TOPIC:
            return destinations.own_topic(header.name)
        try:
            return destinations.temporary(header.kind, header.name)
        except EngineError:
            return None
