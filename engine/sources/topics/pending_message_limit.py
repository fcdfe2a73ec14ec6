"""Limits how many messages wait for a topic subscription in memory, and chooses which of them to evict.

Source: ActiveMQ pendingMessageLimitStrategy and messageEvictionStrategy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Final

from engine.backlog.lane import lane_of
from engine.backlog.memory_budget import MemoryBudget
from engine.consumers.prefetch_window import Window
from engine.consumers.turn_steps import Steps
from engine.selector.properties import PropertyReaders, Value
from engine.sources.feed import PendingRule
from engine.sources.observer import Observer
from engine.sources.queue import PRIORITY_COUNT, Queue
from engine.values.delivery import EXPIRE, READY, Delivery, advance
from engine.values.message import Message

# What has gone is forgotten once so much more came than half of what was left the last time.
PRUNE_COUNT: Final = 1_024
PRUNE_BYTES: Final = 1024 * 1024
PLACES_A_STEP: Final = 1_000  # between an evicted message and the nearer end of those that wait


@dataclass(slots=True, eq=False)
class PendingLimits:
    """What the limits of all subscriptions share.  evicted_count: messages evicted since the start."""

    memory: MemoryBudget
    readers: PropertyReaders
    observers: list[Observer]
    steps: Steps
    evicted_count: int = 0

    def limit(self, queue: Queue, window: Window, requested: int) -> PendingLimit | None:
        """Return the limit of a new subscription, None for no limit.  requested: its maximumPendingMessageLimit."""
        limit = queue.settings.pending.limit_for(window.prefetch, requested)
        return None if limit < 0 else PendingLimit(self, queue, limit, window)


class PendingLimit(PendingRule):
    """limit: messages that may wait beyond the window; beyond it, one is evicted for each that arrives.

    first: messages to evict first, None if the lanes of the queue show them.
    """

    __slots__ = ("common", "queue", "limit", "policy", "window", "first")

    def __init__(self, common: PendingLimits, queue: Queue, limit: int, window: Window) -> None:
        policy = queue.settings.pending
        self.common = common
        self.queue = queue
        self.limit = limit
        self.policy = policy
        self.window = window
        self.first: FirstToGo | None = None
        if policy.eviction == "unique-property":
            self.first = Replaced(policy.eviction_property, common.readers)
        elif policy.eviction == "oldest-lowest-priority" and not queue.settings.queue.prioritized_messages:
            self.first = LowestPriority()

    def message_came(self, message: Message) -> None:
        """A message was added: evict one if the limit is exceeded.  A credit window can change its size."""
        queue = self.queue
        if self.first is not None:
            self.first.add(queue.lane(message.priority).newest(message))
        if queue.depth > self.window.allowed() + self.limit:
            self._evict(queue)

    def _evict(self, queue: Queue) -> None:
        """Evict one message.  Messages in flight stay, and so do those that fit into the window next."""
        for lane in queue.used_lanes:
            lane.drop_taken()  # needed if a selection took deliveries out of order
        room = self.window.room()
        delivery = self._choose(queue, room)
        if delivery is None:
            return
        lane_of(delivery).remove(delivery)
        self.common.steps.left -= min(room, self.limit) // PLACES_A_STEP
        delivery.state = advance(delivery.state, EXPIRE)
        queue.depth -= 1
        self.common.evicted_count += 1
        for observer in self.common.observers:
            observer.discarded(queue, delivery.message)
        self.common.memory.release(delivery.message)

    def _choose(self, queue: Queue, room: int) -> Delivery | None:
        """Return the delivery to evict, among those that wait behind the ``room`` that the window still has."""
        if self.first is not None:
            found = self.first.take_first(queue, room)
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


class FirstToGo:
    """Waiting messages in the order in which they are evicted.

    came, came_bytes: since the last pruning, less half of what it left.  Some of these messages have gone, and no
    budget counts them.
    """

    __slots__ = ("came", "came_bytes")

    def __init__(self) -> None:
        self.came = 0
        self.came_bytes = 0

    @abstractmethod
    def add(self, delivery: Delivery | None) -> None:
        """Note a message that has arrived; None if it is only in the log."""

    @abstractmethod
    def take_first(self, queue: Queue, room: int) -> Delivery | None:
        """Return the first that waits behind ``room`` others, None if there is none."""

    @abstractmethod
    def prune(self) -> list[Delivery]:
        """Forget what has gone; return the rest."""

    def count(self, message: Message) -> None:
        self.came += 1
        self.came_bytes += message.size
        if self.came > PRUNE_COUNT or self.came_bytes > PRUNE_BYTES:
            left = self.prune()
            self.came = -len(left) // 2
            self.came_bytes = -sum(one.message.size for one in left) // 2


class Replaced(FirstToGo):
    """Waiting messages for which a newer one has the same value of a property, in the order of those newer ones.

    newest: by value.  If all values are unique, simply the oldest message is evicted.
    """

    __slots__ = ("name", "readers", "newest", "older")

    def __init__(self, name: str, readers: PropertyReaders) -> None:
        super().__init__()
        self.name = name
        self.readers = readers
        self.newest: dict[Value, Delivery] = {}
        self.older: deque[Delivery] = deque()

    def add(self, delivery: Delivery | None) -> None:
        value = None if delivery is None else self.readers.properties(delivery.message, 1, False).known(self.name)
        if delivery is None or value is None:
            return
        earlier = self.newest.get(value)
        self.newest[value] = delivery
        if earlier is not None and earlier.state == READY:
            self.older.append(earlier)
        self.count(delivery.message)

    def prune(self) -> list[Delivery]:
        self.newest = {value: one for value, one in self.newest.items() if _waits(one)}
        self.older = deque(one for one in self.older if _waits(one))
        return [*self.newest.values(), *self.older]

    def take_first(self, queue: Queue, room: int) -> Delivery | None:
        return _take_first(self.older, queue, room)


class LowestPriority(FirstToGo):
    """Waiting messages by JMSPriority, the oldest first, where priorities do not change the order of delivery."""

    __slots__ = ("by_priority",)

    def __init__(self) -> None:
        super().__init__()
        self.by_priority: list[deque[Delivery]] = [deque() for _ in range(PRIORITY_COUNT)]

    def add(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            self.by_priority[delivery.message.jms_priority()].append(delivery)
            self.count(delivery.message)

    def prune(self) -> list[Delivery]:
        self.by_priority = [deque(one for one in own if _waits(one)) for own in self.by_priority]
        return [one for own in self.by_priority for one in own]

    def take_first(self, queue: Queue, room: int) -> Delivery | None:
        for own in self.by_priority:
            found = _take_first(own, queue, room)
            if found is not None:
                return found
        return None


def _take_first(older: deque[Delivery], queue: Queue, room: int) -> Delivery | None:
    while older:
        delivery = older.popleft()
        if _waits(delivery) and _rank(queue, delivery) >= room:
            return delivery  # others were handed over or soon will be, or are in a temporary file
    return None


def _waits(delivery: Delivery) -> bool:
    """Say whether a delivery waits in memory."""
    return delivery.state == READY and lane_of(delivery).has_place(delivery)


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
