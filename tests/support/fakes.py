"""Fakes of everything that the engine and a session are given: time, timers, workers, a store, a socket, a client."""

from __future__ import annotations

import heapq
import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.ports.clock import Clock
from engine.ports.store import Store, StoreListener
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job, Workers
from engine.values.broker_stats import BrokerStats, DestinationStats
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE, SUBSCRIPTION, TOPIC
from engine.values.errors import EngineError
from engine.values.message import PERSISTENT, Message
from engine.values.stored import (
    SEEK_ENTRY,
    SEEK_LOG,
    DestinationState,
    EntryColumns,
    LanePlace,
    LaneState,
    Range,
    expired_entries,
    single_ranges,
)
from protocols.peer_socket import PeerSocket

START_MONOTONIC_MS: Final = 5_000
START_WALL_MS: Final = 1_700_000_000_000
RECORD_BYTES: Final = 64  # of a record without its message, in ScriptedStore


class VirtualClock(Clock):
    """Stands still until a test, ``VirtualTimers.advance`` or a World moves it.

    now_ms: of the monotonic clock.  wall_ms: of the other one at the start.
    """

    def __init__(self, wall_ms: int = START_WALL_MS, now_ms: int = START_MONOTONIC_MS) -> None:
        self.now_ms = now_ms
        self.wall_offset_ms = wall_ms - now_ms

    def set_wall(self, by_ms: int) -> None:
        """Have somebody set the wall clock forward, or back."""
        self.wall_offset_ms += by_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms


class HastyClock(VirtualClock):
    """A second passes whenever somebody looks."""

    def monotonic_ms(self) -> int:
        self.now_ms += 1_000
        return self.now_ms


class VirtualTimers(Timers):
    """Fires in order of time, then of setting; never inside ``call_at``."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._number = 0
        self._due: list[tuple[int, int, TimerTarget, int]] = []

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        self._number += 1
        heapq.heappush(self._due, (when_ms, self._number, target, key))

    def next_ms(self) -> int | None:
        """Return when the next timer is due."""
        return self._due[0][0] if self._due else None

    def pending(self) -> int:
        """Return how many timers are set."""
        return len(self._due)

    def fire_due(self) -> None:
        """Fire all that the clock has reached; what is set meanwhile is for the next call, as in an event loop."""
        last = self._number
        later: list[tuple[int, int, TimerTarget, int]] = []
        while self._due and self._due[0][0] <= self.clock.now_ms:
            timer = heapq.heappop(self._due)
            if timer[1] > last:
                later.append(timer)
                continue
            timer[2].timer_fired(timer[3])
        for timer in later:
            heapq.heappush(self._due, timer)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, timer by timer; what is set meanwhile for a time that comes is fired, too."""
        until_ms = self.clock.now_ms + milliseconds
        while self._due and self._due[0][0] <= until_ms:
            when_ms, _, target, key = heapq.heappop(self._due)
            self.clock.now_ms = max(self.clock.now_ms, when_ms)
            target.timer_fired(key)
        self.clock.now_ms = until_ms


@dataclass(slots=True)
class Settled:
    """One settlement record, with its ranges as (priority, first, count) and the ``size_bytes`` of each."""

    destination_id: int
    consumer_id: int
    outcome: int
    cause: int
    ranges: list[tuple[int, int, int]]
    size_bytes: list[int] = field(default_factory=list, compare=False)


@dataclass(slots=True)
class Failed:
    """One record of failed attempts, with its ranges as (priority, first, count, delivery count)."""

    destination_id: int
    consumer_id: int
    cause: int
    due_ms: int
    ranges: list[tuple[int, int, int, int]]


@dataclass(slots=True)
class Batch:
    """What stood between ``begin`` and ``commit``: how many records."""

    records: int = 0


class ScriptedStore(Store):
    """A store in memory that does what the test says, when it says so.

    ``sync`` asks; ``finish_sync`` makes what was written durable.  ``request`` asks; ``serve_pages`` answers.
    settled, failed, consumers, batches: what was appended, in order.
    """

    def __init__(self, recovered: list[DestinationState] | None = None, messages: list[Message] | None = None) -> None:
        self.settled: list[Settled] = []
        self.failed: list[Failed] = []
        self.consumers: list[tuple[int, dict[str, str]]] = []
        self.batches: list[Batch] = []
        self.messages: list[Message] = []
        self.time_ms = 0
        self.writes = 0
        self.is_failing = False
        self.is_async = False
        self.page_limit = 1_000_000  # entries that one page holds at most
        self.requests: list[tuple[int, int, int, int, int]] = []
        self.seeks: list[tuple[int, int, int, int]] = []
        self.expiry_looks: list[tuple[int, int, int, int, int]] = []
        self.kept: dict[tuple[int, int], int] = {}  # (destination, priority) -> oldest entry that is kept
        self.log_start = 0
        self.closed: list[int] = []
        self.closed_consumers: list[int] = []
        self.is_sync_wanted = False
        self._recovered = recovered or []
        self._numbers = {(one.kind, one.name): one.destination_id for one in self._recovered}
        self._tails = {(one.destination_id, lane.priority): lane.tail for one in self._recovered for lane in one.lanes}
        self._entries: dict[tuple[int, int, int], Message] = {}
        self.subscriptions = {one.destination_id: one for one in self._recovered if one.kind == SUBSCRIPTION}
        for message in messages or []:
            self._entries[message.destination_id, message.priority, message.queue_offset] = message
        self._end = max([4096, *(one.log_offset + RECORD_BYTES + one.size for one in messages or [])])
        self._written = self._end
        self._durable = self._end
        self._batch: Batch | None = None
        self._batch_start = 0
        self._listener: StoreListener | None = None

    @property
    def listener(self) -> StoreListener:
        assert self._listener is not None
        return self._listener

    # -- what the test does

    def finish_sync(self) -> bool:
        """Make durable what is written, if a sync was asked for; return whether that was so."""
        if not self.is_sync_wanted or self.is_failing:
            return False
        self.is_sync_wanted = False
        self._durable = self._written
        if not self.is_async:
            self.listener.durable(self._durable)
        return True

    def fail(self, reason: str) -> None:
        self.is_failing = True
        self.listener.store_failed(reason)

    def heal(self) -> None:
        self.is_failing = False
        self._written = self._end
        self.is_sync_wanted = True
        self.listener.store_healed()

    def serve_pages(self) -> bool:
        """Answer all requests made so far; return whether there were any."""
        requests = self.requests
        self.requests = []
        seeks = self.seeks
        self.seeks = []
        looks = self.expiry_looks
        self.expiry_looks = []
        for destination_id, priority, first, count, wall_ms in looks:
            end = min(first + count, self._tails[destination_id, priority])
            columns = self.entries(destination_id, priority, first, end - first)
            self.listener.expired_found(destination_id, priority, first, end, *expired_entries(columns, wall_ms))
        for number, what, value, reader in seeks:
            self.listener.sought(reader, self.log_start, self._places(number, what, value))
        for destination_id, priority, first, count, reader in requests:
            stop = min(first + min(count, self.page_limit), self._tails[destination_id, priority])
            keys = [(destination_id, priority, offset) for offset in range(first, stop)]
            found = [self._entries[key] for key in keys if key in self._entries]
            self.listener.page_loaded(destination_id, priority, first, stop, found, reader)
        return bool(requests or seeks or looks)

    def _places(self, number: int, what: int, value: int) -> list[LanePlace]:
        places: list[LanePlace] = []
        for (destination_id, priority), tail in self._tails.items():
            if destination_id != number:
                continue
            first = value
            if what != SEEK_ENTRY:
                found = [
                    offset
                    for (one, lane, offset), message in self._entries.items()
                    if (one, lane) == (number, priority)
                    and (message.log_offset if what == SEEK_LOG else message.store_time_ms) >= value
                ]
                first = min(found, default=tail)
            places.append(LanePlace(priority, first, self.kept.get((number, priority), 0)))
        return places

    def refuse_pages(self, reason: str) -> None:
        requests = self.requests
        self.requests = []
        seeks = self.seeks
        self.seeks = []
        for _, _, _, reader in seeks:
            self.listener.seek_failed(reader, reason)
        for destination_id, priority, first, _, reader in requests:
            self.listener.page_failed(destination_id, priority, first, reason, reader)

    def outcomes(self) -> list[int]:
        return [record.outcome for record in self.settled]

    # -- what the engine does

    def store_id(self) -> str:
        return "c0ffee00"

    def start_count(self) -> int:
        return 3

    def attach(self, listener: StoreListener) -> None:
        self._listener = listener

    def recovered(self) -> list[DestinationState]:
        return self._recovered

    def open_destination(self, kind: int, name: str) -> int:
        number = self._numbers.get((kind, name))
        if number is None:
            number = len(self._numbers) + 1
            self._numbers[kind, name] = number
            self._append(len(json.dumps(name)))
        return number

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        number = len(self._numbers) + 1
        self._numbers[SUBSCRIPTION, f"{number}"] = number  # names of subscriptions may repeat
        tails = {priority: tail for (destination, priority), tail in self._tails.items() if destination == topic_id}
        lanes = [
            LaneState(priority, tail, (starts or {}).get(priority, tail), [], {}) for priority, tail in tails.items()
        ]
        self.subscriptions[number] = DestinationState(number, SUBSCRIPTION, name, lanes, 0, topic_id, description)
        self._append()
        return number

    def close_destination(self, number: int) -> None:
        self.closed.append(number)
        self._numbers = {place if known != number else (0, str(known)): known for place, known in self._numbers.items()}
        self._append()

    def state_of(self, number: int) -> DestinationState:
        """Return a subscription as it was when it was opened, or a topic's tails; nothing of what was settled since."""
        if number in self.subscriptions:
            return self.subscriptions[number]
        lanes = [
            LaneState(priority, tail, tail, [], {})
            for (found, priority), tail in self._tails.items()
            if found == number
        ]
        return DestinationState(number, TOPIC, "", lanes)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        self._append()
        self.consumers.append((destination_id, description))
        return len(self.consumers)

    def close_consumer(self, number: int) -> None:
        self.closed_consumers.append(number)

    def consumer_description(self, number: int) -> dict[str, str]:
        return self.consumers[number - 1][1] if 0 < number <= len(self.consumers) else {}

    def set_time(self, wall_ms: int) -> None:
        self.time_ms = max(self.time_ms, wall_ms)

    def append(self, message: Message) -> None:
        message.log_offset = self._end
        message.store_time_ms = self.time_ms
        lane = (message.destination_id, message.priority)
        message.queue_offset = self._tails.get(lane, 0)
        self._tails[lane] = message.queue_offset + 1
        self._entries[(*lane, message.queue_offset)] = message
        self.messages.append(message)
        self._append(message.size)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        assert ranges, "a settlement of nothing"
        self._append()
        ranges = single_ranges(ranges)
        found = [(one.priority, one.first, one.count) for one in ranges]
        sizes = [one.size_bytes for one in ranges]
        self.settled.append(Settled(destination_id, consumer_id, outcome, cause, found, sizes))

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        assert ranges, "failed attempts of nothing"
        self._append()
        found = [(one.priority, one.first, one.count, one.delivery_count) for one in ranges]
        self.failed.append(Failed(destination_id, consumer_id, cause, due_ms, found))

    def begin(self) -> None:
        assert self._batch is None, "transactions do not nest"
        self._batch = Batch()
        self._batch_start = self._end

    def commit(self) -> None:
        batch = self._batch
        assert batch is not None, "no transaction is open"
        self._batch = None
        self.batches.append(batch)

    def write(self) -> None:
        assert self._batch is None, "a transaction is open"
        self.writes += 1
        if not self.is_failing:
            self._written = self._end
            if self.is_async:
                self.listener.durable(self._written)

    def sync(self) -> None:
        self.write()
        if self._durable < self._written:
            self.is_sync_wanted = True

    def append_offset(self) -> int:
        return self._end

    def written_offset(self) -> int:
        return self._written

    def durable_offset(self) -> int:
        return self._durable

    def confirmed_offset(self) -> int:
        return self._written if self.is_async else self._durable

    def is_accepting(self) -> bool:
        return not self.is_failing

    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        assert count > 0 and limit_bytes > 0
        self.requests.append((destination_id, priority, first, count, reader))

    def look_for_expired(self, destination_id: int, priority: int, first: int, count: int, wall_ms: int) -> None:
        self.expiry_looks.append((destination_id, priority, first, count, wall_ms))

    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        self.seeks.append((destination_id, what, value, reader))

    def entries(self, destination_id: int, priority: int, first: int, count: int) -> EntryColumns:
        columns = EntryColumns(first)
        for offset in range(first, first + count):
            message = self._entries.get((destination_id, priority, offset))
            columns.places.append(0 if message is None else message.log_offset)
            columns.sizes.append(0 if message is None else message.size)
            columns.tags.append(0 if message is None else message.tag_hash)
            columns.expiries.append(0 if message is None else message.expires_ms)
        return columns

    def close(self) -> None:
        pass

    def _append(self, size: int = 0) -> None:
        self._end += RECORD_BYTES + size
        if self._batch is not None:
            self._batch.records += 1


class DurableStore(ScriptedStore):
    """Everything is durable at once."""

    def durable_offset(self) -> int:
        return self.append_offset()


@dataclass(frozen=True, slots=True)
class Handed:
    """One message handed over.  delivery: None if it needs no answer."""

    body: bytes
    is_redelivered: bool
    delivery_count: int
    consumer: Consumer
    message: Message
    delivery: Delivery | None


class FakeClient(Client):
    """A connection that keeps what it gets.  ``hold_after``: its output is full once it has got so many, -1 for never.

    on_admit: messages to send again when a gate opens, one call of ``admit`` at a time.
    client_id: as JMS knows it.  browses_ended: browsers that have seen everything.
    """

    def __init__(self, name: str = "client", client_id: str = "") -> None:
        super().__init__()
        self.name = name
        self.client_id = client_id
        self.browses_ended: list[Consumer] = []
        self.handed: list[Handed] = []
        self.hold_after = -1
        self.admissions = 0
        self.confirmed: list[int] = []
        self.waits_for = 0
        self.waited: list[tuple[str, EngineError]] = []
        self.expelled: list[tuple[Consumer, EngineError, bool]] = []

    def bodies(self) -> list[bytes]:
        """Return what came since the last call."""
        bodies = [one.body for one in self.handed]
        self.handed = []
        return bodies

    def take(self) -> list[Delivery]:
        """Return the deliveries that came since the last call."""
        deliveries = [one.delivery for one in self.handed if one.delivery is not None]
        self.handed = []
        return deliveries

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        redelivered, count = delivery.is_redelivered, delivery.failed_attempts + 1
        self._hand(Handed(delivery.message.body, redelivered, count, consumer, delivery.message, delivery))

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        self._hand(Handed(message.body, is_redelivered, delivery_count, consumer, message, None))

    def _hand(self, one: Handed) -> None:
        assert not one.consumer.is_closed, "a message for a consumer that has gone"
        self.handed.append(one)
        if 0 <= self.hold_after <= len(self.handed):
            self.is_output_full = True

    def release_confirmations(self, offset: int) -> bool:
        self.confirmed.append(offset)
        return offset < self.waits_for

    def admit(self) -> None:
        self.admissions += 1

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        self.waited.append((uri, error))

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.expelled.append((consumer, error, with_connection))

    def describe(self) -> dict[str, str]:
        return {"address": self.name, "client_id": self.client_id} if self.client_id else {"address": self.name}

    def browse_ended(self, consumer: Consumer) -> None:
        self.browses_ended.append(consumer)


@dataclass(slots=True)
class FakeLink(PeerSocket):
    """A socket that remembers what was asked of it."""

    address: str = "192.0.2.1:40001"
    is_touched: bool = False
    is_reading: bool = True
    credentials: list[tuple[str, str]] = field(default_factory=list)
    proofs: list[tuple[str, bool]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    wants_look: bool = False
    conversion_faults: list[str] = field(default_factory=list)

    def touch(self) -> None:
        self.is_touched = True

    def authenticate(self, login: str, passcode: str) -> None:
        self.credentials.append((login, passcode))

    def login_proved(self, login: str, is_right: bool) -> None:
        self.proofs.append((login, is_right))

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def look_soon(self) -> None:
        self.wants_look = True

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def conversion_failed(self, text: str) -> None:
        self.conversion_faults.append(text)

    def peer(self) -> str:
        return self.address


def recovered_queue(destination_id: int, name: str, lanes: list[LaneState]) -> DestinationState:
    return DestinationState(destination_id, QUEUE, name, lanes)


def stored_message(destination_id: int, queue_offset: int, body: bytes, priority: int = 4) -> Message:
    """Return a persistent message as a page brings it."""
    message = Message(destination_id, 1, PERSISTENT, priority, 0, 0, 0, b"", b"", body)
    message.queue_offset = queue_offset
    message.log_offset = queue_offset  # before all that this run appends
    return message


def destination_stats(stats: BrokerStats, name: str) -> DestinationStats:
    """Return the numbers of one destination; of a name that is there once."""
    (found,) = [one for one in stats.destinations if one.name == name]
    return found


class HeldWorkers(Workers):
    """Jobs that are done when the test says so, in the order of their submission.  submitted: how many of each lane."""

    def __init__(self) -> None:
        self.submitted: Counter[int] = Counter()
        self.jobs: deque[tuple[Job, int]] = deque()

    def submit(self, job: Job, lane: int) -> None:
        self.submitted[lane] += 1
        self.jobs.append((job, lane))

    def finish(self, lane: int) -> bool:
        """Run and finish all jobs of ``lane`` that are there now; return whether there were any."""
        mine = [job for job, found in self.jobs if found == lane]
        self.jobs = deque((job, found) for job, found in self.jobs if found != lane)
        for job in mine:
            job.run()
            job.finish()
        return bool(mine)

    def run_one(self, lane: int | None = None) -> bool:
        """Run and finish the oldest job, of one lane if given; return False if there is none."""
        for number, (job, found) in enumerate(self.jobs):
            if lane is None or found == lane:
                del self.jobs[number]
                job.run()
                job.finish()
                return True
        return False

    def run_all(self, lane: int | None = None) -> None:
        """Run jobs, and those that they lead to, until none is left."""
        while self.run_one(lane):
            pass
