"""Consumers by rank: idle consumers, or exclusive ones."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine.consumers.consumer import Consumer

STALE_MAX: Final = 64  # stale places; cleared once they are more than this and the majority


class RankedConsumers:
    """Ordered by priority, the highest first, then by arrival here; with ``is_strict``, then by subscription."""

    __slots__ = ("is_strict", "_places", "_heap", "_next")

    def __init__(self, is_strict: bool) -> None:
        self.is_strict = is_strict
        self._places: dict[int, int] = {}  # consumer id -> its place
        self._heap: list[tuple[int, int, Consumer]] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, consumer: Consumer) -> bool:
        return consumer.consumer_id in self._places

    def add(self, consumer: Consumer) -> None:
        place = consumer.consumer_id if self.is_strict else self._next
        self._next += 1
        self._places[consumer.consumer_id] = place
        heappush(self._heap, (-consumer.priority, place, consumer))

    def first(self) -> Consumer | None:
        """Return the first consumer without removing it, None if there is none."""
        heap = self._heap
        while heap and self._places.get(heap[0][2].consumer_id) != heap[0][1]:
            heappop(heap)
        return heap[0][2] if heap else None

    def take_first(self) -> Consumer:
        """Remove and return the first consumer; there must be one."""
        while True:
            _, place, consumer = heappop(self._heap)
            if self._places.get(consumer.consumer_id) == place:
                del self._places[consumer.consumer_id]
                return consumer

    def remove(self, consumer: Consumer) -> bool:
        """Remove ``consumer``; say whether it was here."""
        if self._places.pop(consumer.consumer_id, None) is None:
            return False
        if len(self._heap) > STALE_MAX + 2 * len(self._places):
            self._heap = [one for one in self._heap if self._places.get(one[2].consumer_id) == one[1]]
            heapify(self._heap)
        return True
