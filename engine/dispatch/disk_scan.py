"""Reads ahead of a lane for its selection, and matches the messages against all selectors at once.

Pages from the log are matched as they come.  Of a block in temporary files a turn searches as much as it has steps for;
the rest is at hand in the next turn.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.lane import SERIAL_BITS, Lane
from engine.backlog.spilled_blocks import LaneBlock
from engine.dispatch.selector_index import (
    EVALUATIONS_A_STEP,
    FINDING_STEPS,
    READING_STEPS,
    SCAN_STEPS,
    SelectorIndex,
    is_reading,
)
from engine.dispatch.selector_view import END, SPILLED, Cursor, LaneCursors, View
from engine.values.delivery import DELAYED, READY, Delivery
from engine.values.message import Message
from engine.values.stored import Attempts

PAGE_LEAST: Final = 2  # least messages of a page read ahead, however much each costs
_ENTRY_MASK: Final = (1 << SERIAL_BITS) - 1


@dataclass(slots=True, eq=False)
class DiskScan:
    """scan_from: priority -> entry after the last page read ahead."""

    index: SelectorIndex
    scan_from: dict[int, int] = field(default_factory=dict)
    _page_cost: int = 0  # steps per message of the last page

    def read(
        self, lane: Lane, first: int, next_offset: int, messages: list[Message], wall_ms: int
    ) -> list[tuple[Delivery, Attempts]]:
        """Offer a page read ahead to the selectors; return the matching deliveries that have failed before.

        Those not due again at ``wall_ms`` are DELAYED already.  While memory is short, only selectors whose consumers
        are idle are considered.
        """
        priority = lane.priority
        low = max(first, lane.next_load) << SERIAL_BITS
        # Stop at the last arrival: a message outside the log may still come behind the last entry, before the next.
        end = min(next_offset << SERIAL_BITS, lane.last_position + 1)
        self.scan_from[priority] = next_offset
        cursors = self.index.cursors_of(priority)
        reading = self._readers(lane, cursors, low, end)
        budget = self.index.budget
        examined_count = 0
        failed: list[tuple[Delivery, Attempts]] = []
        between = [one for one in lane.in_memory_from(low) if one.position < end] if reading else []
        between.reverse()
        for message in messages if reading else ():
            offset = message.queue_offset
            position = offset << SERIAL_BITS
            while between and between[-1].position < position:
                if between[-1].state == READY:
                    self.index.show_all(between[-1], reading)
                between.pop()
            if position < low or position >= lane.tail << SERIAL_BITS or offset in lane.settled:
                continue
            if self.index.budget <= 0:
                end = position
                self.scan_from[priority] = offset
                break
            self._show_entry(lane, message, reading, wall_ms, failed)
            examined_count += 1
        for delivery in reversed(between):
            if delivery.position < end and delivery.state == READY:
                self.index.show_all(delivery, reading)
        if examined_count:
            self._page_cost = (budget - self.index.budget) // examined_count
        for cursor in reading:
            cursors.attach(cursor, max(cursor.position, end))
        self.index.wake_found()
        return failed

    def _readers(self, lane: Lane, cursors: LaneCursors, low: int, end: int) -> list[Cursor]:
        """Detach the cursors for which the page is read; they are attached again at its end."""
        for cursor in cursors.behind():
            if cursor.position < low and cursor.views:
                self.index.scan_memory(cursor, lane)
        is_short = lane.memory.is_short()
        reading: list[Cursor] = []
        for cursor in cursors.behind():
            if not low <= cursor.position < end:
                continue
            wanting = [one for one in cursor.idle.values() if one.wants_more_of(lane.priority)] if is_short else []
            if is_short and len(wanting) < len(cursor.views):
                self.index.budget -= len(cursor.idle) // EVALUATIONS_A_STEP
                if not wanting:
                    continue
                cursor = cursors.split(cursor, wanting)
            else:
                cursors.detach(cursor)
            cursor.is_reading = True
            reading.append(cursor)
        return reading

    def _show_entry(
        self, lane: Lane, message: Message, reading: list[Cursor], wall_ms: int, failed: list[tuple[Delivery, Attempts]]
    ) -> None:
        """Offer an entry of a page to all views that are reading."""
        offset = message.queue_offset
        delivery = lane.ahead.by_offset.get(offset)
        if delivery is not None:
            if delivery.state == READY:
                self.index.show_all(delivery, reading)
            return
        self.index.budget -= READING_STEPS
        for cursor in reading:
            cursor.examined_count += 1
        known = lane.attempts.get(offset)
        for view in self.index.views_of(message, 1 if known is None else known.count + 1, known is not None):
            if not is_reading(view, lane.priority, offset << SERIAL_BITS):
                continue
            if delivery is None:
                delivery = lane.keep_ahead(message)
                if known is not None:
                    failed.append((delivery, known))
                    if known.wait_ms(wall_ms) > 0:
                        delivery.state = DELAYED
                        lane.ahead.ready_bytes -= message.size
            if delivery.state == READY:
                self.index.find(view, delivery)
        self.index.leave(self.index.unasked(), lane.priority, offset << SERIAL_BITS)
        self.index.budget -= self.index.table.take_asked() // EVALUATIONS_A_STEP

    def scan_start(self, lane: Lane) -> int:
        """Return the entry at which to read ahead for a view with idle consumers, -1 for none.

        Reading continues upwards from the last page and then starts over, so that no view waits for ever.
        """
        lowest = following = lane.tail
        scan_from = self.scan_from.get(lane.priority, 0)
        for cursor in self.index.wanting(self.index.cursors_of(lane.priority)):
            entry = max((cursor.position + _ENTRY_MASK) >> SERIAL_BITS, lane.next_load)
            lowest = min(lowest, entry)
            if entry >= scan_from:
                following = min(following, entry)
        if following < lane.tail:
            return following
        return lowest if lowest < lane.tail else -1

    def page_messages(self) -> int:
        """Return how many messages all views together can match in one turn."""
        a_message = READING_STEPS + self.index.table.cost() // EVALUATIONS_A_STEP
        return max(PAGE_LEAST, SCAN_STEPS // max(a_message, self._page_cost))


@dataclass(slots=True, eq=False)
class BlockAtHand:
    """A block that has been read, or is still in memory.  A lane has at most one."""

    block: LaneBlock
    positions: list[int]
    messages: list[Message]


@dataclass(slots=True, eq=False)
class SpilledScan:
    """at_hand: by priority."""

    index: SelectorIndex
    at_hand: dict[int, BlockAtHand] = field(default_factory=dict)

    def next_block(self, lane: Lane) -> LaneBlock | None:
        """Return the block to search for idle consumers, None for none.

        Reading continues upwards from the last block and then starts over, so that no view waits for ever.
        """
        spill = lane.spill
        assert spill is not None, "something is spilled"
        positions = [one.position for one in self.index.wanting(self.index.cursors_of(lane.priority + SPILLED))]
        if not positions:
            return None
        return spill.block_from(min((one for one in positions if one >= spill.search_from), default=min(positions)))

    def read(self, lane: Lane, at_hand: BlockAtHand, is_short: bool) -> list[tuple[Delivery, list[View]]]:
        """Offer part of a block to views that have seen everything before it; return what they want of it.

        is_short: only to views with idle consumers, as there is no room for more.
        """
        spill = lane.spill
        assert spill is not None, "something is spilled"
        index = self.index
        key = lane.priority + SPILLED
        taking = self._readers(lane, at_hand.block, is_short)
        end = at_hand.block.last_position + 1
        finding_steps = 0  # of what is found; charged when it is added to its views
        examined_count = 0
        found: list[tuple[Delivery, list[View]]] = []
        first = min([view.cursors[key].position for view in taking.values()], default=end)
        start = bisect_left(at_hand.positions, first)
        for place in range(start, len(at_hand.positions)):
            position = at_hand.positions[place]
            if not taking or (examined_count and index.budget <= finding_steps):
                end = position
                break
            if not at_hand.block.is_left(position):
                continue
            message = at_hand.messages[place]
            examined_count += 1
            index.budget -= READING_STEPS
            views = [
                view
                for view in index.views_of(message, 1, False)
                if view.number in taking and view.cursors[key].position <= position
            ]
            for view in index.unasked():
                if taking.pop(view.number, None) is not None:
                    self._go_on_from(view, lane, position)
            index.budget -= index.table.take_asked() // EVALUATIONS_A_STEP
            if views:
                finding_steps += FINDING_STEPS * len(views)
                found.append((Delivery(message, lane, position), views))
        spill.search_from = end
        for view in taking.values():
            view.examined_count += examined_count
            self._go_on_from(view, lane, end)
        return found

    def _readers(self, lane: Lane, block: LaneBlock, is_short: bool) -> dict[int, View]:
        """Return the views to which a block is offered, by number: idle ones first, at most one per two steps left."""
        index = self.index
        most = max(1, index.budget // 2)
        spill = lane.spill
        assert spill is not None, "something is spilled"
        cursors = index.cursors_of(lane.priority + SPILLED).behind()
        cursors = [one for one in cursors if spill.block_from(one.position) is block]
        taking: dict[int, View] = {}
        for cursor in cursors:
            for view in cursor.idle.values():
                if len(taking) < most and view.wants_more_of(lane.priority):
                    taking[view.number] = view
        for cursor in cursors if not is_short else ():
            for view in cursor.views.values():
                if len(taking) >= most:
                    break
                if not view.is_full(lane.priority):
                    taking[view.number] = view
        index.budget -= len(taking)
        return taking

    def _go_on_from(self, view: View, lane: Lane, position: int) -> None:
        """Let a view find what others have taken out before ``position``; it continues there later."""
        cursors = self.index.cursors_of(lane.priority + SPILLED)
        self._show_taken_out(view, lane, position)
        cursors.move(view, max(view.cursors[cursors.key].position, position))

    def pass_on(self, lane: Lane) -> None:
        """Move on past what has come back to memory since, and wake consumers that have reached what they found."""
        cursors = self.index.cursors_of(lane.priority + SPILLED)
        spill = lane.spill
        for cursor in cursors.behind():
            if spill is None or spill.block_from(cursor.position) is None:
                end = END
            else:
                end = max(cursor.position, spill.first_position())
            self.index.budget -= 1
            idle = list(cursor.idle.values())
            if end != cursor.position:
                for view in list(cursor.views.values()):
                    self._show_taken_out(view, lane, end)
                cursors.advance(cursor, end)
            for view in idle:
                self.index.budget -= 1
                self._wake(view)

    def _show_taken_out(self, view: View, lane: Lane, end: int) -> None:
        """Show a view the messages, up to ``end``, that others took out of temporary files before it read there."""
        if not lane.returned:
            return
        first = view.cursors[lane.priority + SPILLED].position
        for delivery in lane.returned_from(first):
            if delivery.position >= end:
                break
            self.index.budget -= READING_STEPS
            if delivery.state == READY and self.index.matches(view, delivery):
                self.index.add(view, delivery)

    def _wake(self, view: View) -> None:
        """Wake idle consumers if found messages may be given to them now."""
        if view.idle and not view.wants_more():
            for _ in range(min(len(view.idle), len(view.waiting))):
                self.index.turns.wake_one(view)
