"""Wildcard subscriptions in memory, found by the name of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.matching import ONE, REST

if TYPE_CHECKING:
    from engine.sources.queue import Queue
    from engine.values.wildcard import Wildcard


class Attached:
    """A queue that many topics feed: all that each of its consumers may read."""

    __slots__ = ("wildcard", "queue", "is_plain")

    def __init__(self, wildcard: Wildcard, queue: Queue, is_plain: bool) -> None:
        self.wildcard = wildcard
        self.queue = queue
        self.is_plain = is_plain


class AttachedWildcards:
    """The subscriptions in memory to wildcards, by feed.

    by_first: the same by the first element of their wildcards, so that a new topic is not compared with thousands.
    """

    __slots__ = ("by_feed", "by_first")

    def __init__(self) -> None:
        self.by_feed: dict[int, Attached] = {}
        self.by_first: dict[str, dict[int, Attached]] = {}

    def add(self, attached: Attached) -> None:
        number = attached.queue.feed.number
        self.by_feed[number] = attached
        self.by_first.setdefault(attached.wildcard.pattern.elements[0], {})[number] = attached

    def pop(self, number: int) -> Attached | None:
        """Remove and return the subscription of a feed, None if there is none."""
        attached = self.by_feed.pop(number, None)
        if attached is not None:
            first = attached.wildcard.pattern.elements[0]
            del self.by_first[first][number]
            if not self.by_first[first]:
                del self.by_first[first]
        return attached

    def matching(self, name: str) -> list[Attached]:
        """Return the subscriptions that match a topic of this name, oldest first."""
        found: dict[int, Attached] = {}
        for first in (name.split(".", 1)[0], ONE, REST):
            for number, one in self.by_first.get(first, {}).items():
                if one.wildcard.matches(name):
                    found[number] = one
        return [found[number] for number in sorted(found)]
