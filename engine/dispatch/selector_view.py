"""What the consumers of one selector may have of a queue: a reading of its own, with a cursor a lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.backlog.waiting_deliveries import Waiting
from engine.dispatch.idle_consumers import Idle
from engine.selector.evaluate import Selector

if TYPE_CHECKING:
    from engine.values.delivery import Delivery

VIEW_MESSAGES: Final = 1_024  # found in one lane for one selector and not handed over yet; then it looks no further
VIEW_BYTES: Final = 1024 * 1024  # the same in octets
START: Final = -(1 << 62)  # below every position


class View:
    """The messages of a queue that ``selector`` matches, found in order and ahead of what nobody takes.

    selector: None matches everything.  waiting: found and not handed over.
    behind: bits of the lanes in which messages lie that were not looked at; in all others each message is looked at
    as it comes.  cursors: priority -> position up to which such a lane was looked at.
    idle: consumers that could take one and find none.
    spill_behind, spill_cursors: the same of what a lane has in temporary files.
    looked_count: messages looked at, the whole table's arrivals aside.  arrived_before: see ``Selection.looked_at``.
    """

    __slots__ = (
        "number",
        "selector",
        "waiting",
        "behind",
        "cursors",
        "spill_behind",
        "spill_cursors",
        "idle",
        "consumer_count",
        "looked_count",
        "matched_count",
        "arrived_before",
    )

    def __init__(self, number: int, selector: Selector | None, behind: int, spill_behind: int, is_strict: bool) -> None:
        self.number = number
        self.selector = selector
        self.waiting = Waiting()
        self.behind = behind
        self.cursors: dict[int, int] = {}
        self.spill_behind = spill_behind
        self.spill_cursors: dict[int, int] = {}
        self.idle = Idle(is_strict)
        self.consumer_count = 0
        self.looked_count = 0
        self.matched_count = 0
        self.arrived_before = 0

    def cursor(self, priority: int) -> int:
        return self.cursors.get(priority, START)

    def has_passed(self, delivery: Delivery) -> bool:
        """Say whether everything before ``delivery`` in its lane was looked at."""
        lane = delivery.lane
        if self.behind & lane.bit and delivery.position >= self.cursor(lane.priority):
            return False
        spill = lane.spill
        if spill is None or not self.spill_behind & lane.bit:
            return True
        return delivery.position < max(spill.first_position(), self.spill_cursor(lane.priority))

    def spill_cursor(self, priority: int) -> int:
        return self.spill_cursors.get(priority, START)

    def leave_spilled(self, priority: int, cursor: int) -> None:
        """Take note that what a lane has in temporary files has not been looked at from ``cursor`` on."""
        if not self.spill_behind & 1 << priority:
            self.spill_behind |= 1 << priority
            self.spill_cursors[priority] = cursor

    def catch_up_spilled(self, priority: int) -> None:
        """All that a lane has in temporary files was looked at."""
        self.spill_behind &= ~(1 << priority)
        self.spill_cursors.pop(priority, None)

    def wants_more(self) -> bool:
        """Say whether a consumer has nothing to do, and nothing that was found may go to it."""
        if not self.idle:
            return False
        first = self.waiting.first()
        return first is None or not self.has_passed(first)

    def fall_behind(self, priority: int, cursor: int) -> None:
        """Look at no more of a lane for now; what has not been looked at begins at ``cursor``."""
        self.behind |= 1 << priority
        self.cursors[priority] = cursor

    def catch_up(self, priority: int) -> None:
        """Everything in a lane was looked at."""
        self.behind &= ~(1 << priority)
        self.cursors.pop(priority, None)

    def is_full(self, priority: int) -> bool:
        """Say whether enough was found in a lane; what others have taken meanwhile does not count."""
        waiting = self.waiting
        if len(waiting) < VIEW_MESSAGES and waiting.size_bytes < VIEW_BYTES:
            return False
        waiting.compact()
        return waiting.holds_more_than(priority, VIEW_MESSAGES // 2, VIEW_BYTES // 2)
