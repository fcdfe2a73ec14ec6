"""A destination as the log knows it: its lanes and, of a topic, its durable subscriptions.

Each of these is a cursor over its topic's consume queues, with the entries settled out of order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.progress import Progress
from engine.values.destination import TOPIC


class SubscriptionLane(Progress):
    """A subscription's progress in one consume queue of its topic.

    counted_from: the queue's tail when the subscription was opened: entries below hold no space for it.
    end: the tail when it was closed, -1 while it is open.
    """

    __slots__ = ("counted_from", "end")

    def __init__(self, cursor: int, counted_from: int) -> None:
        super().__init__(cursor)
        self.counted_from = counted_from
        self.end = -1

    def keeps(self, entry: int) -> bool:
        """Return whether the message of ``entry`` is live for this subscription."""
        return entry >= self.counted_from and self.needs(entry)

    def needs(self, entry: int) -> bool:
        """Return whether this subscription may still need ``entry``, including earlier ones if it is retroactive."""
        return not 0 <= self.end <= entry and not self.settled.contains(entry)


@dataclass(slots=True, eq=False)
class DurableSubscription:
    """A durable subscription.  For a lane that is missing, it begins at entry 0: the lane is newer than it.

    is_closing: it has ended, but the sizes of what it alone kept live must still be looked up.
    is_touched: it has changed since it was last written into a snapshot.
    """

    number: int
    topic_id: int
    name: str
    description: dict[str, str]
    lanes: dict[int, SubscriptionLane] = field(default_factory=dict)
    is_closing: bool = False
    is_touched: bool = False

    def lane(self, priority: int) -> SubscriptionLane:
        """Return the progress in the topic's lane of that priority."""
        lane = self.lanes.get(priority)
        if lane is None:
            lane = self.lanes[priority] = SubscriptionLane(0, 0)
            if self.is_closing:
                lane.end = 0
        return lane

    def is_new(self, lane: SubscriptionLane) -> bool:
        """Say whether ``lane`` would be the same if it were created now."""
        settled = lane.settled
        is_plain = not (lane.counted_from or settled.cursor or settled.pages or lane.failed is not None)
        return is_plain and lane.end == (0 if self.is_closing else -1)

    def first_needed(self, priority: int, tail: int) -> int:
        """Return the first entry of a lane with that tail that it may still need."""
        lane = self.lanes.get(priority)
        cursor = 0 if lane is None else lane.settled.cursor
        if self.is_closing and (lane is None or cursor >= lane.end):
            return tail
        return cursor

    def close(self, tails: dict[int, int]) -> None:
        """Close it: later entries, and those it has never kept live, count as settled."""
        self.is_closing = True
        for priority, tail in tails.items():
            lane = self.lane(priority)
            lane.end = tail
            lane.failed = None
            lane.settled.add(0, min(lane.counted_from, tail))

    def left(self, count_max: int) -> tuple[int, int, int]:
        """Return (priority, first, count) of some entries that a closed subscription has not settled yet."""
        for priority, lane in self.lanes.items():
            first = lane.settled.cursor
            if first < lane.end:
                count = 1
                until = min(count_max, lane.end - first)
                while count < until and not lane.settled.contains(first + count):
                    count += 1
                return priority, first, count
        raise AssertionError(f"subscription {self.number} has settled everything")

    def is_finished(self) -> bool:
        """Return whether a closed subscription keeps nothing live any more."""
        return all(lane.settled.cursor >= lane.end for lane in self.lanes.values())


@dataclass(slots=True, eq=False)
class Holders:
    """The subscriptions of one topic, and which of its messages each keeps live."""

    members: list[DurableSubscription] = field(default_factory=list)
    _next: int = 0  # the one that kept something last time: probably the slowest, so it is asked first

    def is_empty(self) -> bool:
        """Return whether no open subscription is left; then nothing of the topic is live."""
        return all(member.is_closing for member in self.members)

    def freed_bytes(self, subscription: DurableSubscription, priority: int, first: int, sizes: Sequence[int]) -> int:
        """Return the octets that no subscription keeps live once ``subscription`` settles entries from ``first`` on."""
        lane = subscription.lane(priority)
        left = [(first + place, size) for place, size in enumerate(sizes) if lane.keeps(first + place)]
        members = self.members
        count = len(members)
        start = self._next
        for step in range(count):
            if not left:
                break
            number = (start + step) % count
            member = members[number]
            if member is not subscription:
                other = member.lane(priority)
                before = len(left)
                left = [(entry, size) for entry, size in left if not other.keeps(entry)]
                if len(left) < before:
                    self._next = number
        return sum([size for _, size in left])


class LoggedDestination:
    """A destination and its lanes, by ascending priority; holders: of a topic, its durable subscriptions.

    head: the beginning of its description in snapshots.
    """

    __slots__ = ("destination_id", "kind", "name", "lanes", "holders", "head")

    def __init__(self, destination_id: int, kind: int, name: str) -> None:
        self.destination_id = destination_id
        self.lanes: list[ConsumeQueue] = []
        self.holders = Holders()
        self.rename(kind, name)

    def rename(self, kind: int, name: str) -> None:
        """Set its name, which replaces a placeholder."""
        self.kind = kind
        self.name = name
        # Made once for the snapshots, because encoding a name takes longer than all the rest of a destination.
        text = json.dumps(name, ensure_ascii=False)
        self.head = f'{{"id":{self.destination_id},"kind":{kind},"name":{text},"live_bytes":'

    def live_bytes(self) -> int:
        """Return the octets of its unsettled messages."""
        if self.kind == TOPIC and self.holders.is_empty():
            return 0
        return sum([lane.live_bytes for lane in self.lanes])

    def tails(self) -> dict[int, int]:
        """Return the length of each lane by priority."""
        return {lane.priority: lane.tail for lane in self.lanes}

    def first_needed(self, lane: ConsumeQueue) -> int:
        """Return the first entry of a lane that the queue, or a durable subscription, may still need."""
        if self.kind != TOPIC:
            return lane.settled.cursor
        members = self.holders.members
        return min([lane.tail, *(member.first_needed(lane.priority, lane.tail) for member in members)])

    def is_live(self, lane: ConsumeQueue, entry: int) -> bool:
        """Return whether the queue, or a durable subscription, keeps the message of an entry live."""
        if self.kind != TOPIC:
            return not lane.settled.contains(entry)
        return any(member.lane(lane.priority).keeps(entry) for member in self.holders.members)
