"""The state of the log so far: destinations, durable subscriptions, consume queues with their lengths and cursors.

The same value serves a running store, recovery (which rebuilds it from a snapshot and the records after it) and the
store in memory.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from engine.store.format.layout import CONSUMER, DESTINATION, LANE_SHIFT, SUBSCRIPTION, SYSTEM_QUEUE
from engine.store.state.consume_queue import RECOVERED, ConsumeQueue, EntryBlock
from engine.store.state.consumer_records import ConsumerRecords
from engine.store.state.destination import DurableSubscription, LoggedDestination, SubscriptionLane
from engine.store.state.progress import Progress
from engine.values.destination import SUBSCRIPTION as SUBSCRIPTION_KIND
from engine.values.destination import TOPIC
from engine.values.stored import Attempts, DestinationState, LaneState, Range


@dataclass(slots=True, eq=False)
class StoreState:
    """The whole state, with the next numbers.

    touched: numbers of destinations and subscriptions that have changed since they were last written into a snapshot;
    some occur twice.
    generation: of the current segment; ``used``: lanes that have, or may have, entries in it.
    """

    destinations: dict[int, LoggedDestination] = field(default_factory=dict)
    subscriptions: dict[int, DurableSubscription] = field(default_factory=dict)
    lanes: dict[int, ConsumeQueue] = field(default_factory=dict)
    system: ConsumeQueue = field(init=False)
    consumers: ConsumerRecords = field(default_factory=ConsumerRecords)
    next_destination: int = 1
    touched: deque[int] = field(default_factory=deque)
    generation: int = RECOVERED
    used: list[ConsumeQueue] = field(default_factory=list)
    _numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    _closed_lanes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.system = ConsumeQueue(SYSTEM_QUEUE, 0, True, 0)

    # Destinations and their consume queues.

    def number_of(self, kind: int, name: str) -> int:
        """Return a destination's number, 0 if it is not known."""
        return self._numbers.get((kind, name), 0)

    def add_destination(self, destination_id: int, kind: int, name: str) -> None:
        """Add a destination, or the name of one known only by its number; lanes stay."""
        known = self.destinations.get(destination_id)
        if known is None:
            self.destinations[destination_id] = LoggedDestination(destination_id, kind, name)
        else:
            known.rename(kind, name)
            for lane in known.lanes:
                lane.is_topic = kind == TOPIC
        self.touched.append(destination_id)
        self._numbers[(kind, name)] = destination_id
        self.next_destination = max(self.next_destination, destination_id + 1)

    def open_lane(self, destination_id: int, priority: int) -> ConsumeQueue:
        """Return a lane of a known destination, new if it has not been used before."""
        key = (destination_id << LANE_SHIFT) | priority
        lane = self.lanes.get(key)
        if lane is None:
            destination = self.destinations[destination_id]
            lane = ConsumeQueue(destination_id, priority, destination.kind == TOPIC, 0)
            self.lanes[key] = lane
            destination.lanes.append(lane)
            destination.lanes.sort(key=_priority)
        return lane

    def close(self, number: int) -> None:
        """End a destination, with its subscriptions, or one durable subscription."""
        subscription = self.subscriptions.get(number)
        if subscription is not None:
            self._close_subscription(subscription)
            return
        destination = self.destinations.pop(number)
        self.touched.append(number)
        if self._numbers.get((destination.kind, destination.name)) == number:
            del self._numbers[(destination.kind, destination.name)]
        for member in destination.holders.members:
            self._remove(member)
        # Their entries are still written to the disk with the segment, for readers of the log.
        self._closed_lanes += [(number << LANE_SHIFT) | lane.priority for lane in destination.lanes]

    def all_lanes(self) -> list[ConsumeQueue]:
        """Return every lane, the system queue's first."""
        return [self.system, *self.lanes.values()]

    def close_entries(self) -> list[EntryBlock]:
        """Hand the entries of all lanes over to the disk, as a segment ends."""
        blocks = [lane.close_entries() for lane in self.all_lanes() if lane.entries]
        self._forget_closed_lanes()
        return blocks

    def _forget_closed_lanes(self) -> None:
        for key in self._closed_lanes:
            self.consumers.failing.discard(self.lanes.pop(key))
        self._closed_lanes.clear()

    # Changes of a log that is written.

    def open_generation(self) -> None:
        """Continue as the state of a log that is written from now on, after recovery."""
        self.generation = RECOVERED + 1
        for lane in self.all_lanes():
            lane.is_touched = False  # no snapshot covers them yet, and each first change must be noticed
            if lane.entries:
                lane.generation = self.generation
                if lane is not self.system:
                    self.used.append(lane)

    def touch(self, lane: ConsumeQueue) -> None:
        """Note that a lane is about to change: its further entries belong to the current segment."""
        lane.is_touched = True
        self.touched.append(lane.destination_id)
        if lane.generation != self.generation:
            if lane.entries:
                lane.close_entries()
            lane.generation = self.generation
            self.used.append(lane)

    def next_generation(self) -> list[ConsumeQueue]:
        """Begin a segment; return the lanes that may have entries in the ended one, without the system queue.

        Their entries are closed one by one, by ``ConsumeQueue.block_of``, because thousands of them at once would hold
        up the engine.
        """
        used = self.used
        self.used = []
        self.generation += 1
        self.system.generation = self.generation
        self._forget_closed_lanes()
        return used

    # Durable subscriptions.

    def add_subscription(
        self, number: int, topic_id: int, name: str, description: dict[str, str], starts: list[tuple[int, int, int]]
    ) -> None:
        """Add a durable subscription.  starts: (priority, first entry, tail of the lane) when it was opened."""
        topic = self.destinations[topic_id]
        if topic.holders.is_empty():
            for lane in topic.lanes:
                lane.live_bytes = 0
        subscription = DurableSubscription(number, topic_id, name, description)
        for priority, first, tail in starts:
            subscription.lanes[priority] = SubscriptionLane(first, tail)
        topic.holders.members.append(subscription)
        self.touched.append(topic_id)
        self.touched.append(number)
        self.subscriptions[number] = subscription
        self.next_destination = max(self.next_destination, number + 1)

    def _close_subscription(self, subscription: DurableSubscription) -> None:
        topic = self.destinations[subscription.topic_id]
        self.touched.append(subscription.topic_id)
        self.touched.append(subscription.number)
        subscription.close(topic.tails())
        if topic.holders.is_empty():
            # Nothing is live any more, so no sizes have to be looked up.
            for member in topic.holders.members:
                self._remove(member)
            topic.holders.members.clear()
            for lane in topic.lanes:
                lane.live_bytes = 0
        elif subscription.is_finished():
            self._forget(subscription)

    def _forget(self, subscription: DurableSubscription) -> None:
        self.touched.append(subscription.topic_id)
        self._remove(subscription)
        self.destinations[subscription.topic_id].holders.members.remove(subscription)

    def _remove(self, subscription: DurableSubscription) -> None:
        self.touched.append(subscription.number)
        self.consumers.failing.difference_update(subscription.lanes.values())
        del self.subscriptions[subscription.number]

    # What happens to entries.

    def freed_bytes(self, number: int, ranges: list[Range]) -> int:
        """Return by how much the live bytes shrink when a queue or subscription settles ``ranges``."""
        subscription = self.subscriptions.get(number)
        if subscription is None:
            return sum([entries.size_bytes for entries in ranges])
        holders = self.destinations[subscription.topic_id].holders
        freed = 0
        for entries in ranges:
            assert len(entries.sizes) == entries.count, "a settlement of a subscription has the size of each message"
            freed += holders.freed_bytes(subscription, entries.priority, entries.first, entries.sizes)
        return freed

    def settle(self, number: int, ranges: list[Range], freed_bytes: int) -> None:
        """Apply a settlement."""
        subscription = self.subscriptions.get(number)
        if subscription is None:
            for entries in ranges:
                lane = self.open_lane(number, entries.priority)
                if not lane.is_touched:
                    self.touch(lane)
                lane.settle(entries.first, entries.count)
            if freed_bytes:
                self.open_lane(number, ranges[0].priority).live_bytes -= freed_bytes
            return
        self._touch_subscription(subscription)
        for entries in ranges:
            subscription.lane(entries.priority).settle(entries.first, entries.count)
        if freed_bytes:
            lane = self.open_lane(subscription.topic_id, ranges[0].priority)
            if not lane.is_touched:
                self.touch(lane)
            lane.live_bytes -= freed_bytes
        if subscription.is_closing and subscription.is_finished():
            self._forget(subscription)

    def _touch_subscription(self, subscription: DurableSubscription) -> None:
        if not subscription.is_touched:
            subscription.is_touched = True
            self.touched.append(subscription.number)

    def fail_attempts(
        self, number: int, consumer_id: int, cause: int, due_ms: int, time_ms: int, ranges: list[Range]
    ) -> None:
        """Apply failed attempts recorded at store time ``time_ms``."""
        subscription = self.subscriptions.get(number)
        if subscription is not None:
            self._touch_subscription(subscription)
        for entries in ranges:
            attempt = Attempts(entries.delivery_count, due_ms, time_ms, time_ms, cause, consumer_id)
            progress: Progress
            if subscription is None:
                lane = self.open_lane(number, entries.priority)
                if not lane.is_touched:
                    self.touch(lane)
                progress = lane
            else:
                progress = subscription.lane(entries.priority)
            progress.fail(entries.first, entries.count, attempt)
            self.consumers.failing.add(progress)

    def find_failing(self) -> None:
        """Search for failed attempts everywhere, as they were not applied record by record."""
        progresses: list[Progress] = list(self.lanes.values())
        for subscription in self.subscriptions.values():
            progresses += subscription.lanes.values()
        self.consumers.failing = {progress for progress in progresses if progress.failed is not None}

    # Records of metadata.

    def take(self, record_type: int, described: dict[str, Any]) -> None:
        """Apply a JSON record other than a snapshot.  Raises: KeyError, TypeError, ValueError."""
        number = int(described["id"])
        if record_type == DESTINATION:
            self.add_destination(number, int(described["kind"]), str(described["name"]))
        elif record_type == CONSUMER:
            self.consumers.add(number, compact_json(described))
        elif record_type == SUBSCRIPTION:
            starts = [(int(priority), int(first), int(tail)) for priority, first, tail in described["starts"]]
            name, description = str(described["name"]), dict(described["description"])
            self.add_subscription(number, int(described["topic"]), name, description, starts)
        else:
            self.close(number)

    # Views for the engine.

    def recovered(self) -> list[DestinationState]:
        """Return the state for the engine, by ascending number."""
        numbers = [*self.destinations]
        numbers += [number for number, subscription in self.subscriptions.items() if not subscription.is_closing]
        return [self.state_of(number) for number in sorted(numbers)]

    def live_bytes(self, number: int) -> int:
        destination = self.destinations.get(number)
        return 0 if destination is None else destination.live_bytes()

    def state_of(self, number: int) -> DestinationState:
        """Return one destination or open subscription as the engine knows it."""
        subscription = self.subscriptions.get(number)
        if subscription is None:
            destination = self.destinations[number]
            lanes = [_queue_lane(lane) for lane in destination.lanes]
            return DestinationState(number, destination.kind, destination.name, lanes, destination.live_bytes())
        topic = self.destinations[subscription.topic_id]
        lanes = [_lane_state(lane.priority, lane.tail, subscription.lane(lane.priority)) for lane in topic.lanes]
        description = dict(subscription.description)
        return DestinationState(
            number, SUBSCRIPTION_KIND, subscription.name, lanes, 0, subscription.topic_id, description
        )


def compact_json(described: dict[str, Any]) -> str:
    """Return JSON as it is in the log."""
    return json.dumps(described, ensure_ascii=False, separators=(",", ":"))


def _queue_lane(lane: ConsumeQueue) -> LaneState:
    if lane.is_topic:
        return LaneState(lane.priority, lane.tail, lane.tail, [], {})
    return _lane_state(lane.priority, lane.tail, lane)


def _lane_state(priority: int, tail: int, progress: Progress) -> LaneState:
    return LaneState(priority, tail, progress.settled.cursor, progress.settled.runs(), progress.attempts())


def _priority(lane: ConsumeQueue) -> int:
    return lane.priority
