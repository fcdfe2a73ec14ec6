"""A store that keeps nothing on a disk, for simulations and tests.

It fulfils the contract of the one on disk, offsets included.  Its workers decide what is durable: a sync is a job
without work, so whoever holds the job back also holds the confirmation back.  Settled messages are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from engine.ports.store import Store, StoreListener
from engine.ports.workers import READ_LANE, SYNC_LANE, Workers
from engine.store.format import layout
from engine.store.state.consume_queue import ConsumeQueue
from engine.store.state.log_state import StoreState, compact_json
from engine.values.message import Message
from engine.values.stored import (
    DELIVERY_COUNT_MAX,
    SEEK_ENTRY,
    SEEK_LOG,
    DestinationState,
    EntryColumns,
    LanePlace,
    Range,
    expired_entries,
    single_ranges,
)
from what_if.ports.answer import Answer

COMMIT_BYTES: Final = layout.padded(layout.RECORD_HEADER_BYTES + layout.COMMIT_FIXED.size)
SETTLEMENT_BYTES: Final = layout.RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES


class VirtualStore(Store):
    """_messages: by lane and entry, those still needed by somebody.  _needed: by a topic's lane, the first of them."""

    __slots__ = (
        "_workers",
        "_store_id",
        "_start_count",
        "_state",
        "_messages",
        "_needed",
        "_recovered",
        "_listener",
        "_end",
        "_written",
        "_durable",
        "_time_ms",
        "_is_in_transaction",
        "_transaction_start",
        "_is_in_flight",
        "_is_wanted",
        "_is_closed",
        "_log_start",
    )

    def __init__(self, workers: Workers, store_id: str = "00000000", start_count: int = 1) -> None:
        self._workers = workers
        self._store_id = store_id
        self._start_count = start_count
        self._state = StoreState()
        self._messages: dict[int, dict[int, Message]] = {}
        self._needed: dict[int, int] = {}
        self._recovered: list[DestinationState] = []
        self._listener: StoreListener | None = None
        self._end = 0
        self._written = 0
        self._durable = 0
        self._time_ms = 0
        self._is_in_transaction = False
        self._transaction_start = 0
        self._is_in_flight = False
        self._is_wanted = False
        self._is_closed = False
        self._log_start = 0

    # -- what it keeps

    def message_at(self, destination_id: int, priority: int, entry: int) -> Message | None:
        """Return the appended message, None if it is settled or was dropped."""
        return self._messages.get((destination_id << layout.LANE_SHIFT) | priority, {}).get(entry)

    def _keep(self, message: Message) -> None:
        key = (message.destination_id << layout.LANE_SHIFT) | message.priority
        messages = self._messages.get(key)
        if messages is None:
            self._messages[key] = {message.queue_offset: message}
        else:
            messages[message.queue_offset] = message

    def _settle(self, number: int, ranges: list[Range], freed_bytes: int) -> None:
        state = self._state
        state.settle(number, ranges, freed_bytes)
        subscription = state.subscriptions.get(number)
        for entries in ranges:
            if subscription is not None:
                self._forget_settled(subscription.topic_id, entries.priority)
                continue
            messages = self._messages.get((number << layout.LANE_SHIFT) | entries.priority)
            if messages:
                for entry in range(entries.first, entries.first + entries.count):
                    messages.pop(entry, None)

    def _forget_settled(self, topic_id: int, priority: int) -> None:
        """Drop a topic's messages that every durable subscription has settled."""
        topic = self._state.destinations[topic_id]
        key = (topic_id << layout.LANE_SHIFT) | priority
        messages = self._messages.get(key)
        if messages:
            needed = topic.first_needed(self._state.open_lane(topic_id, priority))
            for entry in range(self._needed.get(key, 0), needed):
                messages.pop(entry, None)
            self._needed[key] = max(needed, self._needed.get(key, 0))

    def _close(self, number: int) -> None:
        state = self._state
        subscription = state.subscriptions.get(number)
        if subscription is None:
            for lane in state.destinations[number].lanes:
                self._messages.pop((number << layout.LANE_SHIFT) | lane.priority, None)
            state.close(number)
            return
        state.close(number)
        topic = state.destinations[subscription.topic_id]
        if number in state.subscriptions:
            # Messages that it alone kept live are freed at once: their sizes are at hand.
            for priority, own in list(subscription.lanes.items()):
                messages = self._messages.get((topic.destination_id << layout.LANE_SHIFT) | priority, {})
                left = [entry for entry in range(own.settled.cursor, own.end) if not own.settled.contains(entry)]
                for entry in left:
                    ranges = [Range(priority, entry, 1, 0, 0, (messages[entry].size,))]
                    state.settle(number, ranges, state.freed_bytes(number, ranges))
        for lane in topic.lanes:
            self._forget_settled(topic.destination_id, lane.priority)

    def _require_open(self, number: int) -> None:
        """Fail for a closed number, which a store on a disk knows until its segment ends, hiding mistakes."""
        state = self._state
        is_open = number in state.destinations or number in state.subscriptions
        assert is_open, f"destination {number} has been closed, and must not be used any more"

    # -- catalog

    def store_id(self) -> str:
        return self._store_id

    def start_count(self) -> int:
        return self._start_count

    def attach(self, listener: StoreListener) -> None:
        self._listener = listener

    def recovered(self) -> list[DestinationState]:
        return self._recovered

    def open_destination(self, kind: int, name: str) -> int:
        number = self._state.number_of(kind, name)
        if number == 0:
            number = self._state.next_destination
            described = compact_json({"id": number, "kind": kind, "name": name})
            self._end += layout.padded(layout.RECORD_HEADER_BYTES + len(described.encode()))
            self._state.add_destination(number, kind, name)
        return number

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        number = self._state.next_destination
        self._end += layout.padded(layout.RECORD_HEADER_BYTES + len(compact_json(description)))
        self._state.add_subscription(number, topic_id, name, dict(description), self._starts(topic_id, starts or {}))
        return number

    def _starts(self, topic_id: int, wanted: dict[int, int]) -> list[tuple[int, int, int]]:
        """Return priority, first entry and tail of each lane for a new subscription."""
        return [
            (lane.priority, min(max(wanted.get(lane.priority, lane.tail), lane.kept_first), lane.tail), lane.tail)
            for lane in self._state.destinations[topic_id].lanes
        ]

    def close_destination(self, number: int) -> None:
        self._end += layout.padded(layout.RECORD_HEADER_BYTES)
        self._close(number)

    def state_of(self, number: int) -> DestinationState:
        return self._state.state_of(number)

    def live_bytes(self, number: int) -> int:
        return self._state.live_bytes(number)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        number = self._state.consumers.next_number
        described = compact_json(description)
        self._end += layout.padded(layout.RECORD_HEADER_BYTES + len(described.encode()))
        self._state.consumers.add(number, described)
        return number

    def close_consumer(self, number: int) -> None:
        self._state.consumers.close(number)

    def consumer_description(self, number: int) -> dict[str, str]:
        return self._state.consumers.description(number)

    # -- records

    def set_time(self, wall_ms: int) -> None:
        self._time_ms = max(self._time_ms, wall_ms)

    def append(self, message: Message) -> None:
        self._require_open(message.destination_id)
        lane = self._state.open_lane(message.destination_id, message.priority)
        message.log_offset = self._end
        message.queue_offset = lane.tail
        message.store_time_ms = self._time_ms
        lane.tail += 1
        lane.live_bytes += message.size
        self._end += layout.padded(layout.MESSAGE_HEAD_BYTES + message.size)
        if not lane.is_topic or self._state.destinations[lane.destination_id].holders.members:
            self._keep(message)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        assert ranges, "a settlement of nothing"
        self._require_open(destination_id)
        ranges = single_ranges(ranges)
        self._end += settlement_bytes(len(ranges))
        self._settle(destination_id, ranges, self._state.freed_bytes(destination_id, ranges))

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        assert ranges, "failed attempts of nothing"
        self._end += settlement_bytes(len(ranges))
        self._state.fail_attempts(destination_id, consumer_id, cause, due_ms, self._time_ms, counted_ranges(ranges))

    def begin(self) -> None:
        assert not self._is_in_transaction, "transactions do not nest"
        self._is_in_transaction = True
        self._transaction_start = self._end

    def commit(self) -> None:
        assert self._is_in_transaction, "no transaction is open"
        self._is_in_transaction = False
        if self._end > self._transaction_start:
            self._end += COMMIT_BYTES

    # -- progress

    def write(self) -> None:
        assert not self._is_in_transaction, "a batch ends inside a transaction"
        self._written = self._end

    def sync(self) -> None:
        if self._is_in_flight:
            self._is_wanted = True
            return
        self.write()
        if self._durable < self._written:
            self._is_in_flight = True
            self._workers.submit(Answer(partial(self.sync_finished, self._written)), SYNC_LANE)

    def sync_finished(self, target: int) -> None:
        """Mark everything below ``target`` as durable."""
        self._is_in_flight = False
        if self._is_closed:
            return
        self._set_durable(target)
        if self._is_wanted:
            self._is_wanted = False
            self.sync()

    def _set_durable(self, target: int) -> None:
        if target > self._durable:
            self._durable = target
            if self._listener is not None:
                self._listener.durable(target)

    def append_offset(self) -> int:
        return self._end

    def written_offset(self) -> int:
        return self._written

    def durable_offset(self) -> int:
        return self._durable

    def confirmed_offset(self) -> int:
        return self._durable

    def is_accepting(self) -> bool:
        return True

    # -- reads

    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        assert self._listener is not None, "the answer needs a listener"
        self._require_open(destination_id)
        lane = self._state.open_lane(destination_id, priority)
        messages = self._messages.get((destination_id << layout.LANE_SHIFT) | priority, {})
        found: list[Message] = []
        entry = first
        end = min(first + count, lane.tail)
        while entry < end and (limit_bytes > 0 or not found):
            message = messages.get(entry)
            if message is not None:
                if message.log_offset >= self._written:
                    break
                found.append(message)
                limit_bytes -= message.size
            entry += 1
        self._answer(self._listener.page_loaded, destination_id, priority, first, entry, found, reader)

    def look_for_expired(self, destination_id: int, priority: int, first: int, count: int, wall_ms: int) -> None:
        assert self._listener is not None, "the answer needs a listener"
        self._require_open(destination_id)
        end = min(first + count, self._state.open_lane(destination_id, priority).tail)
        found = expired_entries(self.entries(destination_id, priority, first, end - first), wall_ms)
        self._answer(self._listener.expired_found, destination_id, priority, first, end, *found)

    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        assert self._listener is not None, "the answer needs a listener"
        places = [
            LanePlace(lane.priority, value if what == SEEK_ENTRY else self._first(lane, what, value), lane.kept_first)
            for lane in self._state.destinations[destination_id].lanes
        ]
        self._answer(self._listener.sought, reader, self._log_start, places)

    def _answer(self, tell: Callable[..., None], *what: object) -> None:
        """Hand over an answer when the workers reach it."""
        self._workers.submit(Answer(partial(tell, *what)), READ_LANE)

    def _first(self, lane: ConsumeQueue, what: int, value: int) -> int:
        """Return the first entry in memory whose log offset or store time is not below ``value``."""
        messages = self._messages.get((lane.destination_id << layout.LANE_SHIFT) | lane.priority, {})
        entries = [
            entry
            for entry, message in messages.items()
            if (message.log_offset if what == SEEK_LOG else message.store_time_ms) >= value
        ]
        return min(entries, default=lane.tail)

    def entries(self, destination_id: int, priority: int, first: int, count: int) -> EntryColumns:
        columns = EntryColumns(first)
        messages = self._messages.get((destination_id << layout.LANE_SHIFT) | priority, {})
        for entry in range(first, first + count):
            message = messages.get(entry)
            columns.places.append(0 if message is None else message.log_offset)
            columns.sizes.append(0 if message is None else message.size)
            columns.tags.append(0 if message is None else message.tag_hash)
            columns.expiries.append(0 if message is None else message.expires_ms)
        return columns

    def read_messages(self, destination_id: int, priority: int, first: int, count: int) -> list[Message]:
        known = self._messages.get((destination_id << layout.LANE_SHIFT) | priority, {})
        return [known[entry] for entry in range(first, first + count) if entry in known]

    def close(self) -> None:
        self._is_closed = True
        self._written = self._durable = self._end


def counted_ranges(ranges: list[Range]) -> list[Range]:
    """Return copies with the delivery counts that a log can hold; the caller may reuse its own."""
    return [
        Range(entries.priority, entries.first, entries.count, min(entries.delivery_count, DELIVERY_COUNT_MAX))
        for entries in ranges
    ]


def settlement_bytes(range_count: int) -> int:
    """Return the octets of a record in the log."""
    return layout.padded(SETTLEMENT_BYTES + layout.RANGE_BYTES * range_count)
