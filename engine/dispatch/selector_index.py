"""Which messages of a queue match which selectors: each is looked at once a view, as it comes or in its page."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from engine.backlog.lane import SERIAL_BITS, position_of
from engine.dispatch.selector_view import View
from engine.dispatch.turn_order import Turns
from engine.dispatch.undeliverable_here import Exclusions
from engine.selector.evaluate import Selector
from engine.selector.properties import Properties
from engine.selector.readers import PropertyReaders
from engine.selector.table import SelectorTable
from engine.values.delivery import DELAYED, READY, Delivery
from engine.values.message import Message
from engine.values.stored import Attempts

if TYPE_CHECKING:
    from engine.backlog.lane import Lane
    from engine.backlog.spilled_blocks import LaneBlock
    from engine.sources.queue import Queue

SCAN_MESSAGES: Final = 2_000  # looked at in memory for all selectors of a queue in one turn; the rest in the next
SCAN_LEAST: Final = 16  # the same where other queues have used up the steps of the turn
TOGETHER_LEAST: Final = 4  # views that go on at one place, for which a message is looked at once and not by each
PAGE_STEPS: Final = 2_048  # of a page that is read ahead
PAGE_LEAST: Final = 4  # its messages, however many selectors are asked one by one
VIEWS_A_STEP: Final = 4  # that are asked how far they have looked
EVALUATIONS_A_STEP: Final = 2  # selectors that are asked one by one about a message that has been read already
READING_STEPS: Final = 2  # of a message whose properties are read for all selectors
END: Final = 1 << 62  # above every position
_ENTRY_MASK: Final = (1 << SERIAL_BITS) - 1


class Lookout:
    """The views of one queue's consumers, and how far each has looked.

    views: selector text -> view.  all_view: of the consumers without a selector.
    scan_from: priority -> entry after the last page that was read ahead.
    exclusions: messages that some consumers will not have, None before the first; they are in no view.
    budget: messages that may still be looked at in this turn.
    arrived_count: messages that were looked at as they came.
    """

    __slots__ = (
        "queue",
        "readers",
        "turns",
        "views",
        "by_number",
        "table",
        "all_view",
        "next_number",
        "scan_from",
        "exclusions",
        "budget",
        "arrived_count",
    )

    def __init__(self, queue: Queue, readers: PropertyReaders, turns: Turns) -> None:
        self.queue = queue
        self.readers = readers
        self.turns = turns
        self.views: dict[str, View] = {}
        self.by_number: dict[int, View] = {}
        self.table = SelectorTable()
        self.all_view: View | None = None
        self.next_number = 1
        self.scan_from: dict[int, int] = {}
        self.exclusions: Exclusions | None = None
        self.budget = SCAN_MESSAGES
        self.arrived_count = 0

    def view_for(self, selector: Selector | None) -> View:
        text = "" if selector is None else selector.text
        view = self.views.get(text)
        if view is not None:
            return view
        behind = spill_behind = 0
        for lane in self.queue.used_lanes:
            behind |= lane.bit
            if lane.spill is not None:
                spill_behind |= lane.bit
        view = View(self.next_number, selector, behind, spill_behind, not self.turns.is_in_turn)
        view.arrived_before = self.arrived_count
        self.next_number += 1
        self.views[text] = view
        self.by_number[view.number] = view
        if selector is None:
            self.all_view = view
        else:
            self.table.add(view.number, selector)
        for lane in self.queue.used_lanes:
            for delivery in lane.returned:
                self._look(view, delivery)
        return view

    def drop(self, view: View) -> None:
        """Forget a view without consumers."""
        del self.by_number[view.number]
        if view.selector is None:
            del self.views[""]
            self.all_view = None
        else:
            del self.views[view.selector.text]
            self.table.remove(view.number)

    def arrived(self, lane: Lane, message: Message) -> None:
        """A message is new on the queue: in memory, or, if there is no room, only on disk."""
        bit = lane.bit
        delivery = lane.newest(message)
        self.arrived_count += 1
        is_spilled = delivery is None and self.queue.is_in_memory(message)
        for view in self.views_of(message, 1, False):
            if is_spilled:
                view.leave_spilled(lane.priority, lane.last_position)
                if view.idle:
                    self.queue.mark_dirty()
                continue
            if view.behind & bit:
                continue
            if view.is_full(lane.priority):
                view.fall_behind(lane.priority, lane.last_position)
                continue
            if delivery is None:
                if lane.is_ahead_full() or (lane.memory.is_short() and not view.idle):
                    view.fall_behind(lane.priority, lane.last_position)
                    continue
                delivery = lane.keep_ahead(message)
            self.put(view, delivery)

    def page_read(
        self, lane: Lane, first: int, next_offset: int, messages: list[Message], wall_ms: int
    ) -> list[tuple[Delivery, Attempts]]:
        """Look at a page that was read ahead of what is in memory; return what was found that has failed before.

        What is not due again at ``wall_ms`` is DELAYED already.  While memory is short it is only for those that have
        nothing else.
        """
        priority = lane.priority
        low = max(first, lane.next_load) << SERIAL_BITS
        high = next_offset << SERIAL_BITS
        self.scan_from[priority] = next_offset
        taking: dict[int, int] = {}
        is_short = lane.memory.is_short()
        self._look_together(lane)
        for view in self.by_number.values():
            if view.behind & lane.bit:
                if view.cursor(priority) < low:
                    self._scan_memory(view, lane)
                if (
                    view.behind & lane.bit
                    and low <= view.cursor(priority) < high
                    and (view.wants_more() or not is_short)
                ):
                    taking[view.number] = view.cursor(priority)
        failed: list[tuple[Delivery, Attempts]] = []
        for message in messages:
            offset = message.queue_offset
            position = offset << SERIAL_BITS
            if position < low or offset in lane.settled:
                continue
            delivery = lane.ahead.get(offset)
            known = lane.attempts.get(offset)
            if delivery is not None:
                views = self.views_of(message, delivery.failed_attempts + 1, delivery.is_redelivered)
            else:
                views = self.views_of(message, 1 if known is None else known.count + 1, known is not None)
            for view in views:
                cursor = taking.get(view.number)
                if cursor is None or cursor > position:
                    continue
                if delivery is None:
                    delivery = lane.keep_ahead(message)
                    if known is not None:
                        failed.append((delivery, known))
                        if known.due_ms > wall_ms:
                            delivery.state = DELAYED
                            lane.ahead_bytes -= message.size
                if delivery.state == READY:
                    self.put(view, delivery)
        for number, cursor in taking.items():
            view = self.by_number[number]
            view.looked_count += len(messages)
            view.cursors[priority] = high
            if self._look_at_volatile(view, lane, cursor, high):
                self._scan_memory(view, lane)
        return failed

    def scan_start(self, lane: Lane) -> int:
        """Return the entry from which a page is wanted for a view whose consumers have nothing to do, -1 for none.

        Reading goes on upwards from the last page and then begins anew, so that nobody waits for ever.
        """
        lowest = following = lane.tail
        scan_from = self.scan_from.get(lane.priority, 0)
        active = self.turns.active
        for view in self.by_number.values():
            if not view.behind & lane.bit or not view.wants_more():
                continue
            if active is not None and (active.seat is None or active.seat.view is not view):
                continue
            entry = max((view.cursor(lane.priority) + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
            lowest = min(lowest, entry)
            if entry >= scan_from:
                following = min(following, entry)
        if following < lane.tail:
            return following
        return lowest if lowest < lane.tail else -1

    def feed_idle(self) -> None:
        """Look for something for those who found nothing."""
        for lane in self.queue.used_lanes:
            self._look_together(lane)
        for view in list(self.by_number.values()):
            if (view.behind or view.spill_behind) and view.idle:
                self.feed(view)
                self._wake(view)

    def _wake(self, view: View) -> None:
        """Let the consumers look again that found nothing, if what was found may go to them now."""
        if view.idle and not view.wants_more():
            for _ in range(min(len(view.idle), len(view.waiting))):
                self.turns.wake_one(view)

    # -- what is in temporary files

    def spilled_block(self, lane: Lane) -> LaneBlock | None:
        """Return the block that somebody is to look at who has nothing else to do, None for none.

        Reading goes on upwards from the last one and then begins anew, so that nobody waits for ever.
        """
        spill = lane.spill
        assert spill is not None, "something is spilled"
        active = self.turns.active
        cursors: list[int] = []
        for view in self.by_number.values():
            if not view.spill_behind & lane.bit or not view.wants_more():
                continue
            if active is not None and (active.seat is None or active.seat.view is not view):
                continue
            cursor = view.spill_cursor(lane.priority)
            if spill.block_from(cursor) is None:
                view.catch_up_spilled(lane.priority)
                self._wake(view)
            else:
                cursors.append(cursor)
        if not cursors:
            return None
        return spill.block_from(min((one for one in cursors if one >= spill.look_from), default=min(cursors)))

    def block_read(
        self, lane: Lane, block: LaneBlock, positions: list[int], messages: list[Message], is_short: bool
    ) -> list[tuple[Delivery, list[View]]]:
        """Look at a block for all views that have looked at everything before it; return what they want of it.

        is_short: only for those that have nothing else, for there is no room for more.
        """
        priority = lane.priority
        spill = lane.spill
        assert spill is not None, "something is spilled"
        taking = {
            view.number: view.spill_cursor(priority)
            for view in self.by_number.values()
            if view.spill_behind & lane.bit
            and (view.wants_more() or not (is_short or view.is_full(priority)))
            and spill.block_from(view.spill_cursor(priority)) is block
        }
        found: list[tuple[Delivery, list[View]]] = []
        for position, message in zip(positions, messages, strict=True):
            if not block.is_left(position):
                continue
            views = [view for view in self.views_of(message, 1, False) if taking.get(view.number, END) <= position]
            if views:
                found.append((Delivery(message, lane, position), views))
        self.budget -= len(messages)
        spill.look_from = block.last_position + 1
        for number in taking:
            view = self.by_number[number]
            view.looked_count += len(messages)
            view.spill_cursors[priority] = spill.look_from
        return found

    def properties(self, delivery: Delivery) -> Properties:
        return self.readers.properties(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered)

    def views_of(self, message: Message, delivery_count: int, is_redelivered: bool) -> list[View]:
        """Return the views that a message belongs to."""
        found: list[View] = [] if self.all_view is None else [self.all_view]
        if self.table.selectors:
            properties = self.readers.properties(message, delivery_count, is_redelivered)
            by_number = self.by_number
            found += [by_number[number] for number in self.table.matching(properties)]
        return found

    def matches(self, view: View, delivery: Delivery) -> bool:
        selector = view.selector
        if selector is None:
            return True
        return selector.matches(self.properties(delivery))

    def put(self, view: View, delivery: Delivery) -> None:
        if self.exclusions is not None and self.exclusions.holds(delivery):
            return  # it waits with each consumer that will have it
        view.matched_count += 1
        view.waiting.push(delivery)
        if view.idle:
            self.turns.wake_one(view)

    def _look(self, view: View, delivery: Delivery) -> None:
        if delivery.state != READY:
            return
        self.budget -= 1
        view.looked_count += 1
        if self.matches(view, delivery):
            self.put(view, delivery)

    def feed(self, view: View) -> None:
        """Look further where the view is behind: at higher priorities than what it has, and on, if it has nothing."""
        for lane in sorted(self.queue.used_lanes, key=_lane_rank):
            if not view.behind & lane.bit:
                continue
            first = view.waiting.first()
            if first is not None and (first.lane.priority > lane.priority or view.has_passed(first)):
                return
            self._scan_memory(view, lane)

    def _look_together(self, lane: Lane) -> None:
        """Look at what is ready in memory once for all views that go on at one place, as those of new consumers do.

        Only where that costs less than each looking by itself: here each message is held against all selectors.
        """
        ready = lane.ready
        if not ready or self.budget <= 0:
            return
        priority = lane.priority
        by_start: dict[int, list[View]] = {}
        for view in self.by_number.values():
            if view.behind & lane.bit:
                by_start.setdefault(max(view.cursor(priority), ready[0].position), []).append(view)
        start = max(by_start, key=lambda one: len(by_start[one]), default=0)
        steps = self.steps_of_message()
        if not by_start or len(by_start[start]) < max(TOGETHER_LEAST, steps) or start > ready[-1].position:
            return
        looking = {view.number: view for view in by_start[start]}
        looked_count = 0
        end = ready[-1].position + 1
        for delivery in islice(ready, bisect_left(ready, start, key=position_of), None):
            if self.budget <= 0:
                end = delivery.position
                break
            if delivery.state != READY:
                continue
            self.budget -= steps
            looked_count += 1
            for view in self.views_of(delivery.message, delivery.failed_attempts + 1, delivery.is_redelivered):
                if view.number not in looking:
                    continue
                if view.is_full(priority):
                    del looking[view.number]
                    view.looked_count += looked_count - 1
                    view.cursors[priority] = delivery.position
                else:
                    self.put(view, delivery)
        for view in looking.values():
            view.looked_count += looked_count
            view.cursors[priority] = end

    def steps_of_message(self) -> int:
        """Return what it costs to hold one message against all selectors."""
        return READING_STEPS + self.table.cost // EVALUATIONS_A_STEP

    def page_messages(self) -> int:
        """Return how many messages a page may have that all views look at in one turn."""
        return max(PAGE_LEAST, (PAGE_STEPS - len(self.by_number) // VIEWS_A_STEP) // self.steps_of_message())

    def _scan_memory(self, view: View, lane: Lane) -> None:
        """Look at what is in memory of a lane, from the view's cursor on."""
        if self.budget <= 0:
            return
        priority = lane.priority
        cursor = view.cursor(priority)
        ready = lane.ready
        if ready and ready[-1].position >= cursor:
            start = bisect_left(ready, cursor, key=position_of) if ready[0].position < cursor else 0
            if not self._look_at(view, priority, ready, start, END):
                return
            cursor = ready[-1].position + 1
        entry = max((cursor + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
        if not self._look_at_volatile(view, lane, cursor, END if entry >= lane.tail else entry << SERIAL_BITS):
            return
        if entry >= lane.tail:
            view.catch_up(priority)
        else:
            view.cursors[priority] = entry << SERIAL_BITS

    def _look_at_volatile(self, view: View, lane: Lane, first: int, end: int) -> bool:
        """Look at what waits behind entries on disk, at positions from ``first`` to ``end``."""
        volatile = lane.volatile
        if not volatile or volatile[-1].position < first:
            return True
        return self._look_at(view, lane.priority, volatile, bisect_left(volatile, first, key=position_of), end)

    def _look_at(self, view: View, priority: int, waiting: deque[Delivery], start: int, end: int) -> bool:
        """Look at ``waiting`` from index ``start`` to position ``end``; return False if that is too much for now."""
        for delivery in islice(waiting, start, None):
            if delivery.position >= end:
                break
            if self.budget <= 0 or view.is_full(priority):
                view.cursors[priority] = delivery.position
                return False
            self._look(view, delivery)
        return True


def _lane_rank(lane: Lane) -> int:
    return -lane.priority
