"""Limits how many messages wait for a topic subscription in memory, and chooses which of them to evict.

Source: ActiveMQ pendingMessageLimitStrategy and messageEvictionStrategy.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.backlog.lane import lane_of
from engine.backlog.memory import MemoryBudget
from engine.consumers.window import Window
from engine.selector.properties import Value
from engine.selector.readers import PropertyReaders
from engine.sources.feed import PendingRule
from engine.sources.observer import Observers
from engine.values.delivery import EXPIRE, READY, Delivery, advance
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.sources.queue import Queue

PRUNE_COUNT: Final = 1_024  # values are pruned once there are this many more than twice those of the last pruning


class PendingLimits:
    """What the limits of all subscriptions share.  evicted_count: messages evicted since the start."""

    __slots__ = ("memory", "readers", "evicted_count", "observers")

    def __init__(self, memory: MemoryBudget, readers: PropertyReaders, observers: Observers) -> None:
        self.memory = memory
        self.readers = readers
        self.evicted_count = 0
        self.observers = observers

    def limit(self, queue: Queue, window: Window, requested: int) -> PendingLimit | None:
        """Return the limit of a new subscription, None for no limit.  requested: its maximumPendingMessageLimit."""
        limit = queue.settings.pending.limit_for(window.prefetch, requested)
        return None if limit < 0 else PendingLimit(self, queue, limit, window)


class PendingLimit(PendingRule):
    """limit: messages that may wait beyond the window; beyond it, one is evicted for each that arrives.

    replaced: messages to evict first because a newer one has the same value, None if no property is compared.
    """

    __slots__ = ("common", "queue", "limit", "policy", "window", "replaced")

    def __init__(self, common: PendingLimits, queue: Queue, limit: int, window: Window) -> None:
        policy = queue.settings.pending
        self.common = common
        self.queue = queue
        self.limit = limit
        self.policy = policy
        self.window = window
        is_unique = policy.eviction == "unique-property"
        self.replaced = Replaced(policy.eviction_property, common.readers) if is_unique else None

    def message_came(self, message: Message) -> None:
        """A message was added: evict one if the limit is exceeded.  A credit window can change its size."""
        queue = self.queue
        if self.replaced is not None:
            self.replaced.add(queue.lane(message.priority).newest(message))
        if queue.depth > self.window.allowed() + self.limit:
            self._evict(queue)

    def _evict(self, queue: Queue) -> None:
        """Evict one message.  Messages in flight stay, and so do those that fit into the window next."""
        for lane in queue.used_lanes:
            lane.drop_taken()  # needed if a selection took deliveries out of order
        delivery = self._choose(queue, self.window.room())
        if delivery is None:
            return
        lane_of(delivery).remove(delivery)
        delivery.state = advance(delivery.state, EXPIRE)
        queue.depth -= 1
        self.common.evicted_count += 1
        self.common.observers.discarded(queue, delivery.message)
        self.common.memory.release(delivery.message)

    def _choose(self, queue: Queue, room: int) -> Delivery | None:
        """Return the delivery to evict, among those that wait behind the ``room`` that the window still has."""
        if self.replaced is not None:
            found = self.replaced.take_first(queue, room)
            if found is not None:
                return found
        takes_lowest = self.policy.eviction == "oldest-lowest-priority"
        chosen: Delivery | None = None
        for lane in reversed(queue.lanes):  # highest priority first
            count = 0 if lane is None else len(lane.returned) + len(lane.ready)
            if lane is None or count <= room:
                room -= count
                continue
            oldest = lane.waiting_at(room)
            room = 0
            if chosen is None or takes_lowest or _age(oldest) < _age(chosen):
                chosen = oldest
        return chosen


class Replaced:
    """Waiting messages for which a newer one has the same value of a property, in the order of those newer ones.

    newest: by value.  If all values are unique, simply the oldest message is evicted.
    """

    __slots__ = ("name", "readers", "newest", "older", "kept_count")

    def __init__(self, name: str, readers: PropertyReaders) -> None:
        self.name = name
        self.readers = readers
        self.newest: dict[Value, Delivery] = {}
        self.older: deque[Delivery] = deque()
        self.kept_count = 0

    def add(self, delivery: Delivery | None) -> None:
        """Note a message that has arrived; None if it is only in the log."""
        value = None if delivery is None else self.readers.properties(delivery.message, 1, False).known(self.name)
        if delivery is None or value is None:
            return
        earlier = self.newest.get(value)
        self.newest[value] = delivery
        if earlier is not None and earlier.state == READY:
            self.older.append(earlier)
        if len(self.newest) > 2 * self.kept_count + PRUNE_COUNT:
            self.newest = {value: one for value, one in self.newest.items() if one.state == READY}
            self.kept_count = len(self.newest)

    def take_first(self, queue: Queue, room: int) -> Delivery | None:
        """Return the first that waits behind ``room`` others, None if there is none."""
        older = self.older
        while older:
            delivery = older.popleft()
            is_waiting = delivery.state == READY and lane_of(delivery).has_place(delivery)
            if is_waiting and _rank(queue, delivery) >= room:
                return delivery  # others were handed over or soon will be, or are in a temporary file
        return None


def _rank(queue: Queue, delivery: Delivery) -> int:
    """Return how many deliveries wait in memory before ``delivery``."""
    rank = lane_of(delivery).waiting_before(delivery.position)
    for lane in queue.used_lanes:
        if lane.priority > delivery.lane.priority:
            rank += len(lane.returned) + len(lane.ready)
    return rank


def _age(delivery: Delivery) -> tuple[int, int]:
    """Return a key that is smaller for earlier messages."""
    return delivery.message.store_time_ms, delivery.position
