"""What the log says so far: destinations and durable subscriptions, how long each consume queue is, how far they are.

The same value serves a running store, recovery (which rebuilds it from a snapshot and the records after it) and the
store in memory.
"""

from __future__ import annotations

import json
from typing import Any, Final

from engine.destination import SUBSCRIPTION, TOPIC
from engine.ports import Attempts, DestinationState, LaneState, Range
from engine.store.format import ENTRY_BYTES, LANE_SHIFT, SYSTEM_QUEUE
from engine.store.progress import Progress
from engine.store.subscription import Holders, Subscription, SubscriptionLane

CLOSED_CONSUMERS_MAX: Final = 1024  # closed consumers that gather before those that nothing names are forgotten


class EntryBlock:
    """Consecutive entries of one consume queue, as octets."""

    __slots__ = ("destination_id", "priority", "first", "octets")

    def __init__(self, destination_id: int, priority: int, first: int, octets: bytearray) -> None:
        self.destination_id = destination_id
        self.priority = priority
        self.first = first
        self.octets = octets

    def end(self) -> int:
        """Return the index just past the last entry."""
        return self.first + len(self.octets) // ENTRY_BYTES


class Lane(Progress):
    """One consume queue: a destination and a priority, with the queue's own progress in it.

    tail: entries ever appended.  entries: those of the records in the last segment, from ``entries_first`` on; the
    ones before are in ``closing``, on their way to the disk, or in the consume queue's files.
    kept_first: entries below were dropped with their records.
    live_bytes: what was appended less what was freed; only the sum over a destination's lanes means something, for a
    settlement that covers several of them is booked on one.
    """

    __slots__ = (
        "destination_id",
        "priority",
        "is_topic",
        "tail",
        "live_bytes",
        "entries",
        "entries_first",
        "closing",
        "kept_first",
    )

    def __init__(self, destination_id: int, priority: int, is_topic: bool, tail: int, cursor: int) -> None:
        super().__init__(cursor)
        self.destination_id = destination_id
        self.priority = priority
        self.is_topic = is_topic
        self.tail = tail
        self.live_bytes = 0
        self.entries = bytearray()
        self.entries_first = tail
        self.closing: list[EntryBlock] = []
        self.kept_first = 0

    def close_entries(self) -> EntryBlock | None:
        """Hand the entries collected so far over to the disk."""
        if not self.entries:
            return None
        block = EntryBlock(self.destination_id, self.priority, self.entries_first, self.entries)
        self.closing.append(block)
        self.entries = bytearray()
        self.entries_first = self.tail
        return block

    def recovered(self) -> LaneState:
        """Return the lane as the engine takes it over."""
        if self.is_topic:
            return LaneState(self.priority, self.tail, self.tail, [], {})
        return LaneState(self.priority, self.tail, self.settled.cursor, self.settled.runs(), dict(self.attempts))


class Destination:
    """A destination and its lanes, by ascending priority; holders: of a topic, its durable subscriptions."""

    __slots__ = ("destination_id", "kind", "name", "lanes", "holders")

    def __init__(self, destination_id: int, kind: int, name: str) -> None:
        self.destination_id = destination_id
        self.kind = kind
        self.name = name
        self.lanes: list[Lane] = []
        self.holders = Holders()

    def live_bytes(self) -> int:
        """Return what its messages that are not settled add up to."""
        if self.kind == TOPIC and self.holders.is_empty():
            return 0
        return sum([lane.live_bytes for lane in self.lanes])

    def tails(self) -> dict[int, int]:
        """Return the length of each lane by priority."""
        return {lane.priority: lane.tail for lane in self.lanes}

    def first_needed(self, lane: Lane) -> int:
        """Return the first entry of a lane that the queue, or a durable subscription, may still ask for."""
        if self.kind != TOPIC:
            return lane.settled.cursor
        members = self.holders.members
        return min([lane.tail, *(member.first_needed(lane.priority, lane.tail) for member in members)])


class StoreState:
    """Everything above, with what the next numbers are.

    consumers: JSON of the record of each consumer that may still be named, by number.
    """

    __slots__ = (
        "destinations",
        "subscriptions",
        "lanes",
        "system",
        "consumers",
        "next_consumer",
        "next_destination",
        "_numbers",
        "_closed_lanes",
        "_closed_consumers",
        "_closed_consumers_limit",
    )

    def __init__(self) -> None:
        self.destinations: dict[int, Destination] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.lanes: dict[int, Lane] = {}
        self.system = Lane(SYSTEM_QUEUE, 0, True, 0, 0)
        self.consumers: dict[int, str] = {}
        self.next_consumer = 1
        self.next_destination = 1
        self._numbers: dict[tuple[int, str], int] = {}
        self._closed_lanes: list[int] = []
        self._closed_consumers: set[int] = set()
        self._closed_consumers_limit = CLOSED_CONSUMERS_MAX

    # Destinations and their consume queues.

    def number_of(self, kind: int, name: str) -> int:
        """Return a destination's number, 0 if it is not known."""
        return self._numbers.get((kind, name), 0)

    def add_destination(self, destination_id: int, kind: int, name: str) -> None:
        """Take a destination in, or the name of one that was known only by its number; lanes stay."""
        known = self.destinations.get(destination_id)
        if known is None:
            self.destinations[destination_id] = Destination(destination_id, kind, name)
        else:
            known.kind = kind
            known.name = name
            for lane in known.lanes:
                lane.is_topic = kind == TOPIC
        self._numbers[(kind, name)] = destination_id
        self.next_destination = max(self.next_destination, destination_id + 1)

    def open_lane(self, destination_id: int, priority: int) -> Lane:
        """Return a lane of a known destination, new if it has not been used before."""
        key = (destination_id << LANE_SHIFT) | priority
        lane = self.lanes.get(key)
        if lane is None:
            destination = self.destinations[destination_id]
            lane = Lane(destination_id, priority, destination.kind == TOPIC, 0, 0)
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
        if self._numbers.get((destination.kind, destination.name)) == number:
            del self._numbers[(destination.kind, destination.name)]
        for member in destination.holders.members:
            del self.subscriptions[member.number]
        # Their entries still go to the disk with the segment, for readers of the log.
        self._closed_lanes += [(number << LANE_SHIFT) | lane.priority for lane in destination.lanes]

    def all_lanes(self) -> list[Lane]:
        """Return every lane, the system queue's first."""
        return [self.system, *self.lanes.values()]

    def close_entries(self) -> list[EntryBlock]:
        """Hand the entries of all lanes over to the disk, as a segment ends."""
        blocks = [block for lane in self.all_lanes() if (block := lane.close_entries()) is not None]
        for key in self._closed_lanes:
            del self.lanes[key]
        self._closed_lanes.clear()
        return blocks

    # Durable subscriptions.

    def add_subscription(
        self, number: int, topic_id: int, name: str, description: dict[str, str], starts: list[tuple[int, int, int]]
    ) -> None:
        """Take a durable subscription in.  starts: (priority, first entry, tail of the lane) when it was opened."""
        topic = self.destinations[topic_id]
        if topic.holders.is_empty():
            for lane in topic.lanes:
                lane.live_bytes = 0
        subscription = Subscription(number, topic_id, name, description)
        for priority, first, tail in starts:
            subscription.lanes[priority] = SubscriptionLane(first, tail)
        topic.holders.members.append(subscription)
        self.subscriptions[number] = subscription
        self.next_destination = max(self.next_destination, number + 1)

    def _close_subscription(self, subscription: Subscription) -> None:
        topic = self.destinations[subscription.topic_id]
        subscription.close(topic.tails())
        if topic.holders.is_empty():
            # Nothing is live any more, so nobody has to look sizes up.
            for member in topic.holders.members:
                del self.subscriptions[member.number]
            topic.holders.members.clear()
        elif subscription.is_finished():
            self._forget(subscription)

    def _forget(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.number]
        self.destinations[subscription.topic_id].holders.members.remove(subscription)

    # What happens to entries.

    def freed_bytes(self, number: int, ranges: list[Range]) -> int:
        """Return by how much the live bytes shrink when a queue or subscription settles ``ranges``."""
        subscription = self.subscriptions.get(number)
        if subscription is None:
            return sum([entries.size_bytes for entries in ranges])
        holders = self.destinations[subscription.topic_id].holders
        freed = 0
        for entries in ranges:
            assert len(entries.sizes) == entries.count, "what a subscription settles tells the size of each message"
            freed += holders.freed_bytes(subscription, entries.priority, entries.first, entries.sizes)
        return freed

    def settle(self, number: int, ranges: list[Range], freed_bytes: int) -> None:
        """Apply a settlement."""
        subscription = self.subscriptions.get(number)
        if subscription is None:
            for entries in ranges:
                self.open_lane(number, entries.priority).settle(entries.first, entries.count)
            if freed_bytes:
                self.open_lane(number, ranges[0].priority).live_bytes -= freed_bytes
            return
        for entries in ranges:
            subscription.lane(entries.priority).settle(entries.first, entries.count)
        if freed_bytes:
            self.open_lane(subscription.topic_id, ranges[0].priority).live_bytes -= freed_bytes
        if subscription.is_closing and subscription.is_finished():
            self._forget(subscription)

    def fail_attempts(
        self, number: int, consumer_id: int, cause: int, due_ms: int, time_ms: int, ranges: list[Range]
    ) -> None:
        """Apply failed attempts that were told at store time ``time_ms``."""
        subscription = self.subscriptions.get(number)
        for entries in ranges:
            attempt = Attempts(entries.delivery_count, due_ms, time_ms, time_ms, cause, consumer_id)
            progress: Progress
            if subscription is None:
                progress = self.open_lane(number, entries.priority)
            else:
                progress = subscription.lane(entries.priority)
            progress.fail(entries.first, entries.count, attempt)

    # Consumers.

    def add_consumer(self, number: int, described: str) -> None:
        """Take a consumer in, as its record describes it."""
        self.consumers[number] = described
        self.next_consumer = max(self.next_consumer, number + 1)

    def close_consumer(self, number: int) -> None:
        """Note that nothing new will name a consumer."""
        if number in self.consumers:
            self._closed_consumers.add(number)
            if len(self._closed_consumers) > self._closed_consumers_limit:
                self._forget_consumers()
                self._closed_consumers_limit = max(CLOSED_CONSUMERS_MAX, 2 * len(self._closed_consumers))

    def close_consumers(self) -> None:
        """Note that the gateway they belonged to is gone."""
        self._closed_consumers.update(self.consumers)
        self._forget_consumers()

    def consumer_description(self, number: int) -> dict[str, str]:
        """Return how a consumer was described, {} if that is not known any more."""
        described: dict[str, Any] = json.loads(self.consumers.get(number, "{}"))
        return {name: str(value) for name, value in described.items() if name not in ("id", "destination")}

    def _forget_consumers(self) -> None:
        """Forget the closed consumers that no failed attempt names."""
        named: set[int] = set()
        progresses: list[Progress] = [*self.lanes.values()]
        for subscription in self.subscriptions.values():
            progresses += subscription.lanes.values()
        for progress in progresses:
            if progress.attempts:
                named.update([attempts.consumer_id for attempts in progress.attempts.values()])
        for number in self._closed_consumers - named:
            del self.consumers[number]
        self._closed_consumers &= named

    # Looking in.

    def recovered(self) -> list[DestinationState]:
        """Return what the engine takes over, by ascending number."""
        numbers = [*self.destinations]
        numbers += [number for number, subscription in self.subscriptions.items() if not subscription.is_closing]
        return [self.state_of(number) for number in sorted(numbers)]

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
        return DestinationState(number, SUBSCRIPTION, subscription.name, lanes, 0, subscription.topic_id, description)

    def snapshot(self, sequence: int) -> bytes:
        """Return the payload of a snapshot record with that sequence; layout: format.py."""
        self._forget_consumers()
        # Put together by hand: with tens of thousands of queues a tree of objects for json to walk takes too long.
        destinations = ",".join(
            [_describe(destination) for _, destination in sorted(self.destinations.items(), key=_number)]
        )
        subscriptions = ",".join([_describe_subscription(each) for each in self.subscriptions.values()])
        consumers = ",".join(self.consumers.values())
        return (
            f'{{"sequence":{sequence},"next_consumer":{self.next_consumer},"next_destination":{self.next_destination},'
            f'"system_tail":{self.system.tail},"destinations":[{destinations}],"subscriptions":[{subscriptions}],'
            f'"consumers":[{consumers}]}}'
        ).encode()


def load_snapshot(payload: bytes) -> StoreState:
    """Return the state that a snapshot describes.

    Raises: KeyError, TypeError, ValueError for one that is not built as it should be.
    """
    described: dict[str, Any] = json.loads(payload)
    state = StoreState()
    state.next_consumer = int(described["next_consumer"])
    state.system = Lane(SYSTEM_QUEUE, 0, True, int(described["system_tail"]), 0)
    for destination in described["destinations"]:
        number = int(destination["id"])
        state.add_destination(number, int(destination["kind"]), str(destination["name"]))
        for known in destination["lanes"]:
            lane = state.open_lane(number, int(known["priority"]))
            lane.tail = lane.entries_first = int(known["tail"])
            _load_progress(lane, known)
        if lanes := state.destinations[number].lanes:
            lanes[0].live_bytes = int(destination["live_bytes"])
    for known in described["subscriptions"]:
        subscription = Subscription(int(known["id"]), int(known["topic"]), str(known["name"]), known["description"])
        for progress in known["lanes"]:
            own = SubscriptionLane(0, int(progress["counted_from"]))
            own.end = int(progress["end"])
            _load_progress(own, progress)
            subscription.lanes[int(progress["priority"])] = own
        subscription.is_closing = bool(known["is_closing"])
        state.destinations[subscription.topic_id].holders.members.append(subscription)
        state.subscriptions[subscription.number] = subscription
    for known in described["consumers"]:
        state.add_consumer(int(known["id"]), compact_json(known))
    state.next_destination = int(described["next_destination"])
    return state


def compact_json(described: dict[str, Any]) -> str:
    """Return JSON as it stands in the log."""
    return json.dumps(described, ensure_ascii=False, separators=(",", ":"))


def _load_progress(progress: Progress, known: dict[str, Any]) -> None:
    progress.settled.add(0, int(known["cursor"]))
    for first, count in known["settled"]:
        progress.settled.add(int(first), int(count))
    for entry, *attempts in known["attempts"]:
        count, due_ms, first_ms, last_ms, cause, consumer_id = map(int, attempts)
        progress.attempts[int(entry)] = Attempts(count, due_ms, first_ms, last_ms, cause, consumer_id)


def _queue_lane(lane: Lane) -> LaneState:
    if lane.is_topic:
        return LaneState(lane.priority, lane.tail, lane.tail, [], {})
    return _lane_state(lane.priority, lane.tail, lane)


def _lane_state(priority: int, tail: int, progress: Progress) -> LaneState:
    return LaneState(priority, tail, progress.settled.cursor, progress.settled.runs(), dict(progress.attempts))


def _describe(destination: Destination) -> str:
    # A lane whose first message is about to follow is not there yet: a torn tail may take that message.
    lanes = ",".join([_describe_lane(lane) for lane in destination.lanes if lane.tail])
    name = json.dumps(destination.name, ensure_ascii=False)
    return (
        f'{{"id":{destination.destination_id},"kind":{destination.kind},"name":{name},'
        f'"live_bytes":{destination.live_bytes()},"lanes":[{lanes}]}}'
    )


def _describe_lane(lane: Lane) -> str:
    if lane.is_topic:
        progress = f'"cursor":{lane.tail},"settled":[],"attempts":[]'
    else:
        progress = _describe_progress(lane)
    return f'{{"priority":{lane.priority},"tail":{lane.tail},{progress}}}'


def _describe_subscription(subscription: Subscription) -> str:
    lanes = ",".join(
        [
            f'{{"priority":{priority},"counted_from":{lane.counted_from},"end":{lane.end},{_describe_progress(lane)}}}'
            for priority, lane in sorted(subscription.lanes.items())
        ]
    )
    name = json.dumps(subscription.name, ensure_ascii=False)
    return (
        f'{{"id":{subscription.number},"topic":{subscription.topic_id},"name":{name},'
        f'"description":{compact_json(subscription.description)},'
        f'"is_closing":{"true" if subscription.is_closing else "false"},"lanes":[{lanes}]}}'
    )


def _describe_progress(progress: Progress) -> str:
    settled = ",".join([f"[{first},{count}]" for first, count in progress.settled.runs()])
    attempts = ""
    if progress.attempts:
        attempts = ",".join(
            [
                f"[{entry},{known.count},{known.due_ms},{known.first_ms},{known.last_ms},{known.cause},{known.consumer_id}]"
                for entry, known in sorted(progress.attempts.items(), key=_entry)
            ]
        )
    return f'"cursor":{progress.settled.cursor},"settled":[{settled}],"attempts":[{attempts}]'


def _number(item: tuple[int, Destination]) -> int:
    return item[0]


def _entry(item: tuple[int, Attempts]) -> int:
    return item[0]


def _priority(lane: Lane) -> int:
    return lane.priority
