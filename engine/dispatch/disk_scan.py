"""Reads ahead of a lane for its selection: pages from the disk, matched against all selectors at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.lane import SERIAL_BITS
from engine.dispatch.selector_cursor import Cursor, LaneCursors
from engine.dispatch.selector_index import EVALUATIONS_A_STEP, READING_STEPS, SCAN_STEPS, SelectorIndex, is_reading
from engine.values.delivery import DELAYED, READY, Delivery
from engine.values.message import Message
from engine.values.stored import Attempts

if TYPE_CHECKING:
    from engine.backlog.lane import Lane

PAGE_LEAST: Final = 2  # least messages of a page read ahead, however much each costs
_ENTRY_MASK: Final = (1 << SERIAL_BITS) - 1


class DiskScan:
    """scan_from: priority -> entry after the last page read ahead."""

    __slots__ = ("index", "scan_from", "_page_cost")

    def __init__(self, index: SelectorIndex) -> None:
        self.index = index
        self.scan_from: dict[int, int] = {}
        self._page_cost = 0  # steps per message of the last page

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
        looked_count = 0
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
            looked_count += 1
        for delivery in reversed(between):
            if delivery.position < end and delivery.state == READY:
                self.index.show_all(delivery, reading)
        if looked_count:
            self._page_cost = (budget - self.index.budget) // looked_count
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
            wanting = [one for one in cursor.idle.values() if one.wants_more()] if is_short else []
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
        self,
        lane: Lane,
        message: Message,
        reading: list[Cursor],
        wall_ms: int,
        failed: list[tuple[Delivery, Attempts]],
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
            cursor.looked_count += 1
        known = lane.attempts.get(offset)
        for view in self.index.views_of(message, 1 if known is None else known.count + 1, known is not None):
            if not is_reading(view, lane.priority, offset << SERIAL_BITS):
                continue
            if delivery is None:
                delivery = lane.keep_ahead(message)
                if known is not None:
                    failed.append((delivery, known))
                    if known.due_ms > wall_ms:
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
