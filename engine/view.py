"""What the consumers of one selector may have of a queue: a reading of its own, with a cursor a lane."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.selector.evaluate import Selector
from engine.waiting import Waiting

if TYPE_CHECKING:
    from engine.consumer import Consumer
    from engine.delivery import Delivery

VIEW_MESSAGES: Final = 1_024  # found in one lane for one selector and not handed over yet; then it looks no further
VIEW_BYTES: Final = 1024 * 1024  # the same in octets
START: Final = -(1 << 62)  # below every position


class View:
    """The messages of a queue that ``selector`` matches, found in order and ahead of what nobody takes.

    selector: None matches everything.  waiting: found and not handed over.
    behind: bits of the lanes in which messages lie that were not looked at; in all others each message is looked at
    as it comes.  cursors: priority -> position up to which such a lane was looked at.
    idle: consumers that could take one and find none, the one that came first in front.
    looked_count: messages looked at, the whole table's arrivals aside.  arrived_before: see ``Selection.looked_at``.
    """

    __slots__ = (
        "number",
        "selector",
        "waiting",
        "behind",
        "cursors",
        "idle",
        "consumer_count",
        "looked_count",
        "matched_count",
        "arrived_before",
    )

    def __init__(self, number: int, selector: Selector | None, behind: int) -> None:
        self.number = number
        self.selector = selector
        self.waiting = Waiting()
        self.behind = behind
        self.cursors: dict[int, int] = {}
        self.idle: deque[Consumer] = deque()
        self.consumer_count = 0
        self.looked_count = 0
        self.matched_count = 0
        self.arrived_before = 0

    def cursor(self, priority: int) -> int:
        return self.cursors.get(priority, START)

    def has_passed(self, delivery: Delivery) -> bool:
        """Say whether everything before ``delivery`` in its lane was looked at."""
        lane = delivery.lane
        return not self.behind & lane.bit or delivery.position < self.cursor(lane.priority)

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
