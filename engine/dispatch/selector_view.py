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

VIEW_MESSAGES: Final = 1_024  # found per lane and selector, not handed over yet; then reading pauses
VIEW_BYTES: Final = 1024 * 1024  # the same in octets


class View:
    """The messages of a queue that ``selector`` matches, found in order, even behind messages that nobody takes.

    selector: None matches everything.  waiting: found and not handed over.
    cursors: priority -> its place in that lane; priority + SPILLED -> its place in the lane's temporary files.
    idle: consumers that could take a message and found none.
    looked_count: messages examined, without those counted by its cursors and on arrival.
    arrived_before: ``SelectorIndex.arrived_count`` when it was created.
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
        """Say whether a lane, in memory, on disk or spilled, has messages that were not examined."""
        cursor = self.cursors.get(key)
        return cursor is not None and cursor.position != END

    def has_passed(self, delivery: Delivery) -> bool:
        """Say whether everything before ``delivery`` in its lane was examined."""
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
        """Say whether a consumer is idle, and no found message may be given to it."""
        if not self.idle:
            return False
        first = self.waiting.first()
        return first is None or not self.has_passed(first)

    def is_full(self, priority: int) -> bool:
        """Say whether enough was found in a lane, not counting messages that others have taken."""
        waiting = self.waiting
        if len(waiting) < VIEW_MESSAGES and waiting.size_bytes < VIEW_BYTES:
            return False
        waiting.compact()
        return waiting.holds_more_than(priority, VIEW_MESSAGES // 2, VIEW_BYTES // 2)

    def looked_at(self, arrived_count: int) -> int:
        """Return how many messages were examined for it, after ``arrived_count`` arrivals at the queue."""
        counted = sum([cursor.looked_count for cursor in self.cursors.values()])
        return self.looked_count + counted + arrived_count - self.arrived_before

    # -- its idle consumers

    def rest(self, consumer: Consumer) -> None:
        self.idle.add(consumer)
        for cursor in self.cursors.values():
            cursor.idle[self.number] = self

    def rouse_first(self) -> Consumer:
        """Remove and return the first idle consumer; there must be one."""
        consumer = self.idle.take_first()
        self._note_idle()
        return consumer

    def rouse(self, consumer: Consumer) -> bool:
        """Remove ``consumer`` from the idle ones; say whether it was one."""
        if not self.idle.remove(consumer):
            return False
        self._note_idle()
        return True

    def _note_idle(self) -> None:
        if not self.idle:
            for cursor in self.cursors.values():
                cursor.idle.pop(self.number, None)
