"""Finds the messages of a queue that match each selector; each message is read once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.lane import SERIAL_BITS, Lane
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Steps
from engine.dispatch.priority_and_exclusive import Turns
from engine.dispatch.selector_view import END, SPILLED, START, Cursor, LaneCursors, View, seat_of
from engine.dispatch.undeliverable_here import Exclusions
from engine.selector.properties import Properties, PropertyReaders
from engine.selector.table import ASKED_AT_ONCE, SelectorTable
from engine.sources.queue import Queue
from engine.values.delivery import READY, Delivery
from engine.values.message import Message

SCAN_STEPS: Final = 1_500  # per queue and turn; the rest follows in the next turn
SCAN_LEAST: Final = 16  # the same if other queues have used up the turn's steps
READING_STEPS: Final = 2  # to read the properties of a message
FINDING_STEPS: Final = 6  # for each view that finds a message
EVALUATIONS_A_STEP: Final = 1  # conditions evaluated per step on a message already read
WITHOUT_LIMIT: Final = 1 << 62
_ENTRY_MASK: Final = (1 << SERIAL_BITS) - 1


@dataclass(slots=True, eq=False)
class SelectorIndex:
    """The views of one queue's consumers, and how far each has read.

    views: by their keys.  all_views: of the consumers without a selector.  run_views: of purges and retries.
    cursors: priority -> cursors of that lane; priority + SPILLED -> those of its temporary files.
    exclusions: messages that some consumers refuse, None before the first; they are in no view.
    budget: steps left for this queue in this turn.
    arrived_count: messages matched on arrival.
    """

    queue: Queue
    readers: PropertyReaders
    turns: Turns
    steps: Steps
    views: dict[str, View] = field(default_factory=dict)
    by_number: dict[int, View] = field(default_factory=dict)
    table: SelectorTable = field(default_factory=SelectorTable)
    all_views: list[View] = field(default_factory=list)
    run_views: list[View] = field(default_factory=list)
    next_number: int = 1
    cursors: dict[int, LaneCursors] = field(default_factory=dict)
    exclusions: Exclusions | None = None
    budget: int = SCAN_STEPS
    arrived_count: int = 0
    _found: dict[int, View] = field(default_factory=dict)

    # -- selectors are added and removed

    def view_for(self, consumer: Consumer) -> View:
        """Return the view of a consumer; those with the same selector share it, apart from the broker's own runs."""
        selector = consumer.selector
        key = ("" if consumer.is_ruled else "\0") + ("" if selector is None else selector.text)
        view = self.views.get(key)
        if view is not None:
            return view
        is_strict = not self.turns.is_in_turn
        view = View(self.next_number, key, selector, consumer.is_ruled, self.arrived_count, is_strict)
        self.next_number += 1
        for lane in self.queue.used_lanes:
            self.cursors_of(lane.priority).add(view, START)
            if lane.spill is not None:
                self.cursors_of(lane.priority + SPILLED).add(view, START)
        for cursors in self.cursors.values():
            if cursors.key not in view.cursors:
                cursors.add(view, END)
        self.views[key] = view
        self.by_number[view.number] = view
        if not view.is_ruled:
            self.run_views.append(view)
        if selector is None:
            self.all_views.append(view)
        else:
            self.table.add(view.number, selector)
        return view

    def drop(self, view: View) -> None:
        """Forget a view without consumers."""
        for cursors in self.cursors.values():
            cursors.remove(view)
        del self.by_number[view.number]
        del self.views[view.key]
        if not view.is_ruled:
            self.run_views.remove(view)
        if view.selector is None:
            self.all_views.remove(view)
        else:
            self.table.remove(view.number)

    def cursors_of(self, key: int) -> LaneCursors:
        """Return the cursors of a lane or of its temporary files; for a new lane all views are at the end."""
        cursors = self.cursors.get(key)
        if cursors is None:
            cursors = self.cursors[key] = LaneCursors(key)
            for view in self.by_number.values():
                cursors.add(view, END)
        return cursors

    # -- new messages

    def arrived(self, lane: Lane, message: Message) -> None:
        """A message was added to the queue: in memory or, without room, on disk only."""
        priority = lane.priority
        delivery = lane.newest(message)
        is_spilled = delivery is None and self.queue.is_in_memory(message)
        cursors = self.cursors_of(priority + SPILLED if is_spilled else priority)
        front = cursors.front()
        if front is None:
            return
        is_unjudged = delivery is None and not is_spilled and self.queue.feed.selector is not None
        if is_unjudged or (self.steps.left <= 0 and self.table.cost()):
            cursors.advance(front, lane.last_position)  # it is read in a later turn, or with its page
            self.queue.mark_dirty()
            return
        self.arrived_count += 1
        for view in self.views_of(message, 1, False):
            if view.cursors[cursors.key] is not front:
                continue
            if is_spilled:
                cursors.move(view, lane.last_position)
                if view.idle:
                    self.queue.mark_dirty()
                continue
            if view.is_full(priority):
                cursors.move(view, lane.last_position)
                continue
            if delivery is None:
                if lane.is_ahead_full() or (lane.memory.is_short() and not view.idle):
                    cursors.move(view, lane.last_position)
                    continue
                delivery = lane.keep_ahead(message)
            self.put(view, delivery)
        for view in self.unasked():
            if view.cursors[cursors.key] is front:
                cursors.move(view, lane.last_position)
                self.queue.mark_dirty()
        self.steps.left -= self.table.take_asked() // EVALUATIONS_A_STEP

    def show(self, delivery: Delivery) -> None:
        """Offer a delivery that is READY again, in memory or ahead of it."""
        self.budget -= READING_STEPS
        message = delivery.message
        for view in self.views_of(message, delivery.failed_attempts + 1, delivery.is_redelivered, WITHOUT_LIMIT):
            cursor = view.cursors.get(delivery.lane.priority)
            if cursor is None or delivery.position < cursor.position:
                self.put(view, delivery)  # otherwise its reading will find it
        self.budget -= self.table.take_asked() // EVALUATIONS_A_STEP

    def properties(self, delivery: Delivery) -> Properties:
        return self.readers.properties(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered)

    def views_of(
        self, message: Message, delivery_count: int, is_redelivered: bool, most: int = ASKED_AT_ONCE
    ) -> list[View]:
        """Return the views that a message belongs to; conditions beyond ``most`` are left ``unasked``."""
        found = self.all_views.copy()
        if self.table.selectors:
            properties = self.readers.properties(message, delivery_count, is_redelivered)
            by_number = self.by_number
            found += [by_number[number] for number in self.table.matching(properties, most)]
        return found

    def matches(self, view: View, delivery: Delivery) -> bool:
        selector = view.selector
        if selector is None:
            return True
        is_match = selector.matches(self.properties(delivery))
        self.budget -= selector.last_cost() // EVALUATIONS_A_STEP
        return is_match

    def is_excluded(self, consumer: Consumer, delivery: Delivery) -> bool:
        return self.exclusions is not None and self.exclusions.excludes(delivery, consumer)

    def put(self, view: View, delivery: Delivery) -> None:
        """Give ``view`` a message that it matches, and wake one of its consumers."""
        if self.add(view, delivery) and view.idle:
            self.turns.wake_one(view)

    def add(self, view: View, delivery: Delivery) -> bool:
        if self.exclusions is not None and self.exclusions.holds(delivery):
            return False  # it waits with each consumer that may have it
        self.budget -= FINDING_STEPS
        view.matched_count += 1
        view.waiting.push(delivery)
        return True

    # -- messages in memory

    def search(self, lane: Lane) -> bool:
        """Search memory for messages for idle consumers; return False if that is too much for this turn."""
        cursors = self.cursors_of(lane.priority)
        for cursor in cursors.behind():
            if self.budget <= 0:
                cursors.resume_at = cursor.position
                return False
            if cursor.idle and self._has_taker(cursor):
                self.scan_memory(cursor, lane)
        return True

    def _has_taker(self, cursor: Cursor) -> bool:
        """Say whether an idle consumer may have what ``cursor`` reads; others get nothing beside an active one."""
        active = self.turns.active
        if active is None:
            return True
        seat = seat_of(active)
        if seat is not None and seat.view.number in cursor.idle and active in seat.view.idle:
            return True
        return any(view.number in cursor.idle for view in self.run_views)

    def feed(self, view: View) -> None:
        """Read on where a view is behind: at higher priorities than it has messages of, or anywhere if it has none."""
        for lane in self.queue.used_lanes:
            cursor = view.cursors.get(lane.priority)
            if cursor is None or cursor.position == END:
                continue
            first = view.waiting.first()
            if first is not None and (
                first.lane.priority > lane.priority or (first.lane is lane and view.has_passed(first))
            ):
                return
            self.scan_memory(cursor, lane)

    def scan_memory(self, cursor: Cursor, lane: Lane) -> None:
        """Read a lane's messages in memory for all views of ``cursor``, from its place on."""
        if self.budget <= 0:
            return
        entry = max((cursor.position + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
        end = END if entry >= lane.tail else entry << SERIAL_BITS
        cursors = self.cursors_of(lane.priority)
        cursors.detach(cursor)  # a view left at this place gets a cursor of its own
        cursor.is_reading = True
        for delivery in lane.in_memory_from(cursor.position):
            if delivery.position >= end:
                break
            if self.budget <= 0 or not cursor.views:
                end = delivery.position
                break
            if delivery.state == READY:
                self._show_to(cursor, delivery)
        cursors.attach(cursor, end)
        self.wake_found()

    def _show_to(self, cursor: Cursor, delivery: Delivery) -> None:
        """Offer a delivery to the views of one cursor."""
        views = cursor.views
        if len(views) == 1 or len(views) <= self.table.cost():
            self.budget -= READING_STEPS
            cursor.examined_count += 1
            properties = self.properties(delivery)
            for place, view in enumerate(asking := list(views.values())):
                if view.selector is None or view.selector.matches(properties):
                    self.find(view, delivery)
                self.budget -= 1 if view.selector is None else view.selector.last_cost() // EVALUATIONS_A_STEP
                if self.budget <= 0:
                    self.leave(asking[place + 1 :], delivery.lane.priority, delivery.position)
                    return
            return
        self.show_all(delivery, [cursor])

    def show_all(self, delivery: Delivery, reading: list[Cursor]) -> None:
        """Offer a delivery to all views that are reading and have reached it."""
        self.budget -= READING_STEPS
        for cursor in reading:
            cursor.examined_count += 1
        for view in self.views_of(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered):
            if is_reading(view, delivery.lane.priority, delivery.position):
                self.find(view, delivery)
        self.leave(self.unasked(), delivery.lane.priority, delivery.position)
        self.budget -= self.table.take_asked() // EVALUATIONS_A_STEP

    def unasked(self) -> list[View]:
        """Return the views whose selectors were not evaluated for the last message, because it took too long."""
        by_number = self.by_number
        return [by_number[number] for number in self.table.unasked if number in by_number]

    def leave(self, views: list[View], priority: int, position: int) -> None:
        """Let those of ``views`` that are reading continue at this message in a later turn."""
        for view in views:
            if is_reading(view, priority, position):
                self.cursors_of(priority).move(view, position)

    def find(self, view: View, delivery: Delivery) -> None:
        """Add a matching delivery to a view that is reading; a full one goes on if its first may come behind others."""
        lane = delivery.lane
        if not view.wants_more_of(lane.priority) and view.is_full(lane.priority):
            self.cursors_of(lane.priority).move(view, delivery.position)
        elif self.add(view, delivery):
            self._found[view.number] = view

    def wake_found(self) -> None:
        """Wake as many consumers as there are found messages, once the reading has passed them."""
        if self._found:
            found, self._found = self._found, {}
            for view in found.values():
                for _ in range(min(len(view.idle), len(view.waiting))):
                    self.turns.wake_one(view)

    def has_idle(self) -> bool:
        for cursors in self.cursors.values():
            for cursor in cursors.by_position.values():
                if cursor.idle:
                    return True
        return False

    def wanting(self, cursors: LaneCursors) -> list[Cursor]:
        """Return the cursors that are behind and have an idle consumer that wants more of this lane."""
        active = self.turns.active
        priority = cursors.key % SPILLED
        if active is None:
            return [one for one in cursors.behind() if one.wants_more_of(priority)]
        seat = seat_of(active)
        views = [] if seat is None else [seat.view]
        views += self.run_views
        found = [view.cursors[cursors.key] for view in views if view.wants_more_of(priority)]
        return [cursor for cursor in found if cursor.position != END]


def is_reading(view: View, priority: int, position: int) -> bool:
    cursor = view.cursors[priority]
    return cursor.is_reading and cursor.position <= position
