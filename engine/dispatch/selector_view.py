"""The messages of a queue that consumers of one selector may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.lane import lane_of
from engine.backlog.waiting_deliveries import Waiting
from engine.dispatch.ranked_consumers import RankedConsumers
from engine.dispatch.selector_cursor import END, SPILLED, Cursor
from engine.selector.evaluate import Selector

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer
    from engine.values.delivery import Delivery

VIEW_MESSAGES: Final = 1_024  # found in one lane for one selector and not handed over yet; then it looks no further
VIEW_BYTES: Final = 1024 * 1024  # the same in octets


class View:
    """The messages of a queue that ``selector`` matches, found in order and ahead of what nobody takes.

    selector: None matches everything.  waiting: found and not handed over.
    cursors: priority -> how far it has read that lane; priority + SPILLED -> the same of the lane's temporary files.
    idle: consumers that could take one and find none.
    looked_count: messages looked at, but for those that its cursors count and the whole table's arrivals.
    arrived_before: ``SelectorIndex.arrived_count`` when it began.
    """

    __slots__ = (
        "number",
        "selector",
        "waiting",
        "cursors",
        "idle",
        "consumer_count",
        "looked_count",
        "matched_count",
        "arrived_before",
    )

    def __init__(self, number: int, selector: Selector | None, arrived_before: int, is_strict: bool) -> None:
        self.number = number
        self.selector = selector
        self.waiting = Waiting()
        self.cursors: dict[int, Cursor] = {}
        self.idle = RankedConsumers(is_strict)
        self.consumer_count = 0
        self.looked_count = 0
        self.matched_count = 0
        self.arrived_before = arrived_before

    def is_behind(self, key: int) -> bool:
        """Say whether messages lie in a lane, or are spilled there, that were not looked at."""
        cursor = self.cursors.get(key)
        return cursor is not None and cursor.position != END

    def has_passed(self, delivery: Delivery) -> bool:
        """Say whether everything before ``delivery`` in its lane was looked at."""
        lane = lane_of(delivery)
        cursor = self.cursors.get(lane.priority)
        if cursor is not None and delivery.position >= cursor.position:
            return False
        spill = lane.spill
        if spill is None:
            return True
        cursor = self.cursors.get(lane.priority + SPILLED)
        return cursor is None or delivery.position < max(spill.first_position(), cursor.position)

    def wants_more(self) -> bool:
        """Say whether a consumer has nothing to do, and nothing that was found may go to it."""
        if not self.idle:
            return False
        first = self.waiting.first()
        return first is None or not self.has_passed(first)

    def is_full(self, priority: int) -> bool:
        """Say whether enough was found in a lane; what others have taken meanwhile does not count."""
        waiting = self.waiting
        if len(waiting) < VIEW_MESSAGES and waiting.size_bytes < VIEW_BYTES:
            return False
        waiting.compact()
        return waiting.holds_more_than(priority, VIEW_MESSAGES // 2, VIEW_BYTES // 2)

    def looked_at(self, arrived_count: int) -> int:
        """Return how many messages were looked at for it, if so many have arrived at the queue."""
        counted = sum([cursor.looked_count for cursor in self.cursors.values()])
        return self.looked_count + counted + arrived_count - self.arrived_before

    # -- its consumers that find nothing

    def rest(self, consumer: Consumer) -> None:
        self.idle.add(consumer)
        for cursor in self.cursors.values():
            cursor.idle[self.number] = self

    def rouse_first(self) -> Consumer:
        """Take out the one that is to look first; there must be one."""
        consumer = self.idle.take_first()
        self._note_idle()
        return consumer

    def rouse(self, consumer: Consumer) -> bool:
        """Take out ``consumer``; say whether it was here."""
        if not self.idle.remove(consumer):
            return False
        self._note_idle()
        return True

    def _note_idle(self) -> None:
        if not self.idle:
            for cursor in self.cursors.values():
                cursor.idle.pop(self.number, None)
