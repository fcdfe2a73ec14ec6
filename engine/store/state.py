"""What the log says so far: destinations, and of each consume queue how long it is, what is settled, what has failed.

The same value serves a running store, recovery (which rebuilds it from a snapshot and the records after it) and the
store in memory.
"""

from __future__ import annotations

import json
from typing import Any

from engine.destination import TOPIC
from engine.ports import DestinationState, LaneState, Range
from engine.store.format import ENTRY_BYTES, LANE_SHIFT, SYSTEM_QUEUE
from engine.store.settled import SettledEntries


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


class Lane:
    """One consume queue: a destination and a priority.

    tail: entries ever appended.  entries: those of the records in the last segment, from ``entries_first`` on; the
    ones before are in ``closing``, on their way to the disk, or in the consume queue's files.
    kept_first: entries below were dropped with their records.
    """

    __slots__ = (
        "destination_id",
        "priority",
        "is_topic",
        "tail",
        "settled",
        "attempts",
        "entries",
        "entries_first",
        "closing",
        "kept_first",
    )

    def __init__(self, destination_id: int, priority: int, is_topic: bool, tail: int, cursor: int) -> None:
        self.destination_id = destination_id
        self.priority = priority
        self.is_topic = is_topic
        self.tail = tail
        self.settled = SettledEntries(cursor)
        self.attempts: dict[int, tuple[int, int]] = {}
        self.entries = bytearray()
        self.entries_first = tail
        self.closing: list[EntryBlock] = []
        self.kept_first = 0

    def settle(self, first: int, count: int) -> None:
        """Take ``count`` entries from ``first`` on out of the queue."""
        self.settled.add(first, count)
        attempts = self.attempts
        if attempts:
            if count <= len(attempts):
                for entry in range(first, first + count):
                    attempts.pop(entry, None)
            else:
                for entry in [entry for entry in attempts if first <= entry < first + count]:
                    del attempts[entry]

    def fail(self, first: int, count: int, delivery_count: int, due_ms: int) -> None:
        """Note a failed attempt of ``count`` entries."""
        for entry in range(first, first + count):
            if not self.settled.contains(entry):
                self.attempts[entry] = (delivery_count, due_ms)

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
    """A destination and its lanes, by ascending priority."""

    __slots__ = ("destination_id", "kind", "name", "lanes")

    def __init__(self, destination_id: int, kind: int, name: str) -> None:
        self.destination_id = destination_id
        self.kind = kind
        self.name = name
        self.lanes: list[Lane] = []


class StoreState:
    """Everything above, with what the next numbers are."""

    __slots__ = ("destinations", "lanes", "system", "next_consumer", "next_destination", "_numbers")

    def __init__(self) -> None:
        self.destinations: dict[int, Destination] = {}
        self.lanes: dict[int, Lane] = {}
        self.system = Lane(SYSTEM_QUEUE, 0, True, 0, 0)
        self.next_consumer = 1
        self.next_destination = 1
        self._numbers: dict[tuple[int, str], int] = {}

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

    def all_lanes(self) -> list[Lane]:
        """Return every lane, the system queue's first."""
        return [self.system, *self.lanes.values()]

    def settle(self, destination_id: int, ranges: list[Range]) -> None:
        """Apply a settlement."""
        for entries in ranges:
            self.open_lane(destination_id, entries.priority).settle(entries.first, entries.count)

    def fail_attempts(self, destination_id: int, due_ms: int, ranges: list[Range]) -> None:
        """Apply failed attempts."""
        for entries in ranges:
            lane = self.open_lane(destination_id, entries.priority)
            lane.fail(entries.first, entries.count, entries.delivery_count, due_ms)

    def recovered(self) -> list[DestinationState]:
        """Return what the engine takes over, by ascending number."""
        return [
            DestinationState(
                number, destination.kind, destination.name, [lane.recovered() for lane in destination.lanes]
            )
            for number, destination in sorted(self.destinations.items())
        ]

    def snapshot(self, sequence: int) -> bytes:
        """Return the payload of a snapshot record with that sequence; layout: format.py."""
        # Put together by hand: with tens of thousands of queues a tree of objects for json to walk takes too long.
        destinations = ",".join(
            [_describe(destination) for _, destination in sorted(self.destinations.items(), key=_number)]
        )
        return (
            f'{{"sequence":{sequence},"next_consumer":{self.next_consumer},"system_tail":{self.system.tail},'
            f'"destinations":[{destinations}]}}'
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
        state.add_destination(int(destination["id"]), int(destination["kind"]), str(destination["name"]))
        for known in destination["lanes"]:
            lane = state.open_lane(int(destination["id"]), int(known["priority"]))
            lane.tail = lane.entries_first = int(known["tail"])
            lane.settled = SettledEntries(int(known["cursor"]))
            for first, count in known["settled"]:
                lane.settled.add(int(first), int(count))
            for entry, delivery_count, due_ms in known["attempts"]:
                lane.attempts[int(entry)] = (int(delivery_count), int(due_ms))
    return state


def _describe(destination: Destination) -> str:
    # A lane whose first message is about to follow is not there yet: a torn tail may take that message.
    lanes = ",".join([_describe_lane(lane) for lane in destination.lanes if lane.tail])
    name = json.dumps(destination.name, ensure_ascii=False)
    return f'{{"id":{destination.destination_id},"kind":{destination.kind},"name":{name},"lanes":[{lanes}]}}'


def _describe_lane(lane: Lane) -> str:
    settled = attempts = ""
    cursor = lane.tail
    if not lane.is_topic:
        cursor = lane.settled.cursor
        settled = ",".join([f"[{first},{count}]" for first, count in lane.settled.runs()])
    if lane.attempts:
        attempts = ",".join([f"[{entry},{count},{due}]" for entry, (count, due) in sorted(lane.attempts.items())])
    return (
        f'{{"priority":{lane.priority},"tail":{lane.tail},"cursor":{cursor},'
        f'"settled":[{settled}],"attempts":[{attempts}]}}'
    )


def _number(item: tuple[int, Destination]) -> int:
    return item[0]


def _priority(lane: Lane) -> int:
    return lane.priority
