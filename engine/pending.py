"""How many messages may wait for a topic subscription that only memory holds, and which go when it is more.

Source: semantics.md 2.8, ActiveMQ pendingMessageLimitStrategy and messageEvictionStrategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from config.policies import PendingLimitPolicy
from engine.delivery import EXPIRE, Delivery, advance
from engine.lane import position_of
from engine.memory import MemoryBudget
from engine.selector.properties import Value
from engine.selector.readers import PropertyReaders
from engine.window import Window

if TYPE_CHECKING:
    from engine.advisories import Advisories
    from engine.queue import Queue


class PendingLimits:
    """What the limits of all subscriptions have in common.  evicted_count: messages let go, since the start."""

    __slots__ = ("memory", "readers", "evicted_count", "advisories")

    def __init__(self, memory: MemoryBudget, readers: PropertyReaders, advisories: Advisories) -> None:
        self.memory = memory
        self.readers = readers
        self.evicted_count = 0
        self.advisories = advisories

    def limit(self, policy: PendingLimitPolicy, window: Window, requested: int) -> PendingLimit | None:
        """Return the limit of a new subscription, None for no limit.  requested: its maximumPendingMessageLimit."""
        limit = policy.limit_for(window.prefetch, requested)
        return None if limit < 0 else PendingLimit(self, limit, policy, window)


class PendingLimit:
    """limit: messages that may wait beyond the window; then one goes for each that comes."""

    __slots__ = ("common", "limit", "policy", "window")

    def __init__(self, common: PendingLimits, limit: int, policy: PendingLimitPolicy, window: Window) -> None:
        self.common = common
        self.limit = limit
        self.policy = policy
        self.window = window

    def is_exceeded(self, depth: int) -> bool:
        """Say whether ``depth`` messages, waiting and in flight, are too many; a window of credit changes its size."""
        return depth > self.window.limit + self.limit

    def evict(self, queue: Queue) -> None:
        """Let go of one message too much.  What is in flight stays, and so does what goes next into the window."""
        delivery = self._choose(queue, max(0, self.window.limit - self.window.in_flight))
        if delivery is None:
            return
        lane = delivery.lane
        lane.take(delivery)
        lane.drop_taken()
        delivery.state = advance(delivery.state, EXPIRE)
        queue.depth -= 1
        self.common.evicted_count += 1
        self.common.advisories.discarded(queue, delivery.message)
        self.common.memory.release(delivery.message)

    def _choose(self, queue: Queue, room: int) -> Delivery | None:
        """Return the one to let go, of those that wait behind the ``room`` that the window still has."""
        eviction = self.policy.eviction
        lanes = [lane for lane in queue.used_lanes if lane.ready or lane.returned]
        if len(lanes) == 1 and not lanes[0].returned and eviction != "unique-property":
            ready = lanes[0].ready  # nearly always so: no need to look at all of them
            return ready[room] if room < len(ready) else None
        waiting: list[Delivery] = []
        for lane in sorted(lanes, key=lambda lane: -lane.priority):
            waiting += sorted([*lane.returned, *lane.ready], key=position_of)
        waiting = waiting[room:]
        if eviction == "oldest-lowest-priority" and waiting:
            lowest = waiting[-1].lane
            return next(one for one in waiting if one.lane is lowest)
        waiting.sort(key=_age)
        if eviction == "unique-property":
            # The oldest that a newer one replaces; where each is the only one of its value, simply the oldest.
            oldest: dict[Value, Delivery] = {}
            for delivery in waiting:
                value = self.common.readers.properties(delivery.message, 1, False).get(self.policy.eviction_property)
                if value is not None and value in oldest:
                    return oldest[value]
                if value is not None:
                    oldest[value] = delivery
        return waiting[0] if waiting else None


def _age(delivery: Delivery) -> tuple[int, int]:
    """Return a key that is smaller for what came earlier."""
    return delivery.message.store_time_ms, delivery.position
