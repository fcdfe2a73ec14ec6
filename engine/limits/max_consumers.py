"""Places at queues that allow a limited number of consumers, and subscriptions to several queues that wait for one.

A subscription to one queue, or to a list that names it, is refused if the queue is full.  A subscription to a wildcard
does without such a queue until a consumer leaves; so does a list whose turn to join came too late.
Source: Artemis max-consumers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.consumers.composite_consumer import Siblings
from engine.consumers.departures import Departures
from engine.sources.queue import Queue
from engine.values.errors import LimitReached


@dataclass(slots=True, eq=False)
class Places:
    """waiting: by the number of a queue, the subscriptions that wait for it, the oldest first."""

    _departures: Departures
    waiting: dict[int, dict[Siblings, None]] = field(default_factory=dict)

    def is_full(self, queue: Queue) -> bool:
        return queue.feed.is_own and 0 <= queue.settings.queue.max_consumers <= queue.consumer_count()

    def require(self, queue: Queue) -> None:
        """Raises: LimitReached for one consumer too many; leaving consumers do not count."""
        if self.is_full(queue):
            self._departures.make_way(queue)
        if self.is_full(queue):
            raise LimitReached(
                f"{queue.uri()} has {queue.consumer_count()} consumers, which is its limit (max_consumers)"
            )

    def wait(self, siblings: Siblings, queue: Queue) -> None:
        """Give a subscription a place once one is free."""
        self.waiting.setdefault(queue.destination_id, {})[siblings] = None
        siblings.waits_for.append(queue.destination_id)

    def leave(self, siblings: Siblings) -> None:
        """Forget a subscription that has ended."""
        for number in siblings.waits_for:
            others = self.waiting.get(number, {})
            if siblings in others:
                del others[siblings]
                if not others:
                    del self.waiting[number]
        siblings.waits_for = []

    def remove(self, number: int) -> None:
        """Forget a queue that has gone."""
        self.waiting.pop(number, None)

    def next(self, queue: Queue) -> Siblings | None:
        """Return the next subscription for a place that may have become free, None for none; it no longer waits."""
        others = self.waiting.get(queue.destination_id)
        if others is None or self.is_full(queue):
            return None
        siblings = next(iter(others))
        del others[siblings]
        if not others:
            del self.waiting[queue.destination_id]
        return siblings
