"""A store in memory that works on the test's request, and remembers all calls."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from engine.ports.store import StoreListener
from engine.ports.workers import READ_LANE, SYNC_LANE
from engine.values.destination import QUEUE, SUBSCRIPTION
from engine.values.message import PERSISTENT, Message
from engine.values.stored import DestinationState, LaneState, Range, single_ranges
from tests.support.fakes import HeldWorkers
from tests.support.store.memory_store import MemoryStore

LOG_START = 1 << 20  # appended records come after all recovered ones


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
    """The number of records between ``begin`` and ``commit``."""

    records: int = 0


class ScriptedStore(MemoryStore):
    """``sync`` asks; ``finish_sync`` makes written records durable.  ``request`` asks; ``serve_pages`` answers.

    Settled messages stay in the log.
    settled, failed, consumers, batches, messages, closed: the appended records, in order.
    requests: those not served yet, as (destination, priority, first, count, reader).
    page_limit: the largest number of entries in a page.
    is_writing: ``write`` writes nothing yet, as while a large message is written over several turns.
    """

    def __init__(self, recovered: list[DestinationState] | None = None, messages: list[Message] | None = None) -> None:
        self.workers = HeldWorkers()
        super().__init__(self.workers, "c0ffee00", 3, is_restartable=True)
        self.settled: list[Settled] = []
        self.failed: list[Failed] = []
        self.consumers: list[tuple[int, dict[str, str]]] = []
        self.batches: list[Batch] = []
        self.messages: list[Message] = []
        self.closed: list[int] = []
        self.closed_consumers: list[int] = []
        self.writes = 0
        self.is_writing = False
        self.is_async = False
        self.page_limit = 1_000_000
        self.requests: list[tuple[int, int, int, int, int]] = []
        self._seekers: list[int] = []
        self._batch_start = 0
        self._end = self._written = self._durable = LOG_START
        for one in recovered or []:
            self._recover(one)
        for message in messages or []:
            self._keep(message)

    def _recover(self, one: DestinationState) -> None:
        assert one.kind != SUBSCRIPTION, "a test that recovers one has a RestartWorld"
        self._recovered.append(one)
        self._state.add_destination(one.destination_id, one.kind, one.name)
        for state in one.lanes:
            lane = self._state.open_lane(one.destination_id, state.priority)
            lane.tail = state.tail
            for first, count in [(0, state.cursor), *state.settled]:
                lane.settle(first, count)
            for entry, attempts in state.attempts.items():
                lane.fail(entry, 1, attempts)
        if one.lanes:
            lane.live_bytes = one.live_bytes

    @property
    def listener(self) -> StoreListener:
        assert self._listener is not None
        return self._listener

    @property
    def is_sync_wanted(self) -> bool:
        return self._is_in_flight

    # -- called by the test

    def finish_sync(self) -> bool:
        """Make written records durable if a sync was requested; return whether it was."""
        return self.is_accepting() and self.workers.finish(SYNC_LANE)

    def serve_pages(self) -> bool:
        """Answer all requests made so far; return whether there were any."""
        self.requests = []
        self._seekers = []
        return self.workers.finish(READ_LANE)

    def forget_requests(self) -> None:
        """Leave the answers to the test."""
        self.workers.jobs = deque((job, lane) for job, lane in self.workers.jobs if lane != READ_LANE)
        self.requests = []
        self._seekers = []

    def refuse_pages(self, reason: str) -> None:
        requests, seekers = self.requests, self._seekers
        self.forget_requests()
        for reader in seekers:
            self.listener.seek_failed(reader, reason)
        for destination_id, priority, first, _, reader in requests:
            self.listener.page_failed(destination_id, priority, first, reason, reader)

    def outcomes(self) -> list[int]:
        return [record.outcome for record in self.settled]

    # -- called by the engine

    def close_destination(self, number: int) -> None:
        self.closed.append(number)
        super().close_destination(number)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        self.consumers.append((destination_id, description))
        return super().open_consumer(destination_id, description)

    def close_consumer(self, number: int) -> None:
        self.closed_consumers.append(number)
        super().close_consumer(number)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        super().append(message)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        runs = single_ranges(ranges)
        found = [(one.priority, one.first, one.count) for one in runs]
        sizes = [one.size_bytes for one in runs]
        self.settled.append(Settled(destination_id, consumer_id, outcome, cause, found, sizes))
        super().settle(destination_id, consumer_id, outcome, cause, ranges)

    def _settle(self, number: int, ranges: list[Range], freed_bytes: int) -> None:
        self._state.settle(number, ranges, freed_bytes)

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        found = [(one.priority, one.first, one.count, one.delivery_count) for one in ranges]
        self.failed.append(Failed(destination_id, consumer_id, cause, due_ms, found))
        super().fail_attempts(destination_id, consumer_id, cause, due_ms, ranges)

    def begin(self) -> None:
        super().begin()
        self._batch_start = len(self._records)

    def commit(self) -> None:
        self.batches.append(Batch(len(self._records) - self._batch_start))
        super().commit()

    def write(self) -> None:
        self.writes += 1
        if not self.is_writing:
            super().write()
        if self.is_async and self.is_accepting():
            self.listener.durable(self._written)

    def confirmed_offset(self) -> int:
        return self._written if self.is_async else self._durable

    def request(
        self, destination_id: int, priority: int, first: int, count: int, limit_bytes: int, reader: int = 0
    ) -> None:
        assert count > 0 and limit_bytes > 0
        self.requests.append((destination_id, priority, first, count, reader))
        super().request(destination_id, priority, first, min(count, self.page_limit), limit_bytes, reader)

    def seek(self, destination_id: int, what: int, value: int, reader: int) -> None:
        self._seekers.append(reader)
        super().seek(destination_id, what, value, reader)


class DurableStore(ScriptedStore):
    """Everything is durable at once."""

    def durable_offset(self) -> int:
        return self.append_offset()


def recovered_queue(destination_id: int, name: str, lanes: list[LaneState]) -> DestinationState:
    return DestinationState(destination_id, QUEUE, name, lanes)


def stored_message(destination_id: int, queue_offset: int, body: bytes, priority: int = 4) -> Message:
    """Return a persistent message as in a page."""
    message = Message(destination_id, 1, PERSISTENT, priority, 0, 0, 0, b"", b"", body)
    message.queue_offset = queue_offset
    message.log_offset = queue_offset  # before all records of this run
    return message
