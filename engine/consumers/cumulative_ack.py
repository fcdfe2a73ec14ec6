"""Cumulative acknowledgements where open transactions hold many of the deliveries before them.

What a transaction has acknowledged stays in the consumer's ledger until COMMIT.  Walking over it at each further
acknowledgement would cost the square of what is held.  So the tags that may still be answered stand in a row of their
own, from the first such walk on; each leaves it once.
"""

from __future__ import annotations

from collections import deque

from engine.values.delivery import IN_FLIGHT, Delivery


class Unanswered:
    """tags: ascending, of what was in the ledger up to tag ``seen`` and may be unanswered."""

    __slots__ = ("tags", "seen")

    def __init__(self) -> None:
        self.tags: deque[int] = deque()
        self.seen = 0

    def up_to(self, ledger: dict[int, Delivery], tag: int) -> list[Delivery]:
        """Return the deliveries up to ``tag`` that are in flight, in order."""
        fresh: list[int] = []
        for number in reversed(ledger):
            if number <= self.seen:
                break
            fresh.append(number)
        tags = self.tags
        if fresh:
            self.seen = fresh[0]
            fresh.reverse()
            tags.extend(fresh)
        while tags:
            first = ledger.get(tags[0])
            if first is not None and first.state == IN_FLIGHT:
                break
            tags.popleft()
        found: list[Delivery] = []
        for number in tags:
            if number > tag:
                break
            one = ledger.get(number)
            if one is not None and one.state == IN_FLIGHT:
                found.append(one)
        return found

    def start_over(self) -> None:
        """Look at everything again: a rolled-back transaction has put answered deliveries in flight again."""
        self.tags.clear()
        self.seen = 0
