"""The store in memory with what only tests need of it: crashes and restarts, a failing medium, retention."""

from __future__ import annotations

from engine.ports.workers import Workers
from engine.store.format import layout
from engine.store.state.log_state import compact_json
from engine.values.message import Message
from engine.values.stored import Range, single_ranges
from what_if.ports.virtual_store import VirtualStore, counted_ranges, settlement_bytes


class MemoryRecord:
    """A record that a restart applies again; ``end``: the log offset just past it."""

    __slots__ = (
        "end",
        "record_type",
        "destination_id",
        "kind",
        "name",
        "described",
        "starts",
        "message",
        "consumer_id",
        "cause",
        "due_ms",
        "time_ms",
        "freed_bytes",
        "ranges",
    )

    def __init__(self, record_type: int, destination_id: int, end: int) -> None:
        self.record_type = record_type
        self.destination_id = destination_id
        self.end = end
        self.kind = 0
        self.name = ""
        self.described: dict[str, str] = {}
        self.starts: list[tuple[int, int, int]] = []
        self.message: Message | None = None
        self.consumer_id = 0
        self.cause = 0
        self.due_ms = 0
        self.time_ms = 0
        self.freed_bytes = 0
        self.ranges: list[Range] = []


class MemoryStore(VirtualStore):
    """is_restartable: keep every record, so that ``restarted`` knows the state after a crash."""

    __slots__ = ("_is_restartable", "_records", "_reason")

    def __init__(
        self, workers: Workers, store_id: str = "00000000", start_count: int = 1, is_restartable: bool = False
    ) -> None:
        super().__init__(workers, store_id, start_count)
        self._is_restartable = is_restartable
        self._records: list[MemoryRecord] = []
        self._reason = ""

    # -- restarts

    def restarted(self, workers: Workers) -> MemoryStore:
        """Return the store after a crash and a start: with its durable records only."""
        assert self._is_restartable, "this store keeps no records"
        store = type(self)(workers, self._store_id, self._start_count + 1, True)
        # No offset ever names two records, even if the first of them was lost.
        store._end = store._written = store._durable = self._end
        for record in self._records:
            if record.end <= self._durable:
                store._records.append(record)
                store._apply(record)
        store._state.consumers.close_all()
        store._state.consumers.forget_unnamed()
        store._recovered = store._state.recovered()
        return store

    def _apply(self, record: MemoryRecord) -> None:
        state = self._state
        number = record.destination_id
        if record.message is not None:
            message = record.message
            lane = state.open_lane(message.destination_id, message.priority)
            lane.tail = message.queue_offset + 1
            lane.live_bytes += message.size
            self._keep(message)
            self._time_ms = max(self._time_ms, message.store_time_ms)
        elif record.record_type == layout.DESTINATION:
            state.add_destination(number, record.kind, record.name)
        elif record.record_type == layout.SUBSCRIPTION:
            state.add_subscription(number, record.kind, record.name, record.described, record.starts)
        elif record.record_type == layout.CLOSE:
            self._close(number)
        elif record.record_type == layout.CONSUMER:
            state.consumers.add(record.consumer_id, compact_json(record.described))
        elif record.record_type == layout.SETTLEMENT:
            self._settle(number, record.ranges, record.freed_bytes)
        elif record.record_type == layout.ATTEMPTS:
            state.fail_attempts(number, record.consumer_id, record.cause, record.due_ms, record.time_ms, record.ranges)

    def _record(self, record_type: int, destination_id: int) -> MemoryRecord:
        """Return the record of what has just been appended."""
        record = MemoryRecord(record_type, destination_id, self._end)
        if self._is_restartable:
            self._records.append(record)
        return record

    def _forget_settled(self, topic_id: int, priority: int) -> None:
        if not self._is_restartable:
            super()._forget_settled(topic_id, priority)

    # -- records

    def open_destination(self, kind: int, name: str) -> int:
        is_new = self._state.number_of(kind, name) == 0
        number = super().open_destination(kind, name)
        if is_new:
            record = self._record(layout.DESTINATION, number)
            record.kind = kind
            record.name = name
        return number

    def open_subscription(
        self, topic_id: int, name: str, description: dict[str, str], starts: dict[int, int] | None = None
    ) -> int:
        found = self._starts(topic_id, starts or {})
        number = super().open_subscription(topic_id, name, description, starts)
        record = self._record(layout.SUBSCRIPTION, number)
        record.kind = topic_id
        record.name = name
        record.described = dict(description)
        record.starts = found
        return number

    def close_destination(self, number: int) -> None:
        super().close_destination(number)
        self._record(layout.CLOSE, number)

    def open_consumer(self, destination_id: int, description: dict[str, str]) -> int:
        number = super().open_consumer(destination_id, description)
        record = self._record(layout.CONSUMER, destination_id)
        record.consumer_id = number
        record.described = dict(description)
        return number

    def append(self, message: Message) -> None:
        super().append(message)
        self._record(layout.MESSAGE, message.destination_id).message = message
        if self._is_restartable:
            self._keep(message)

    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        assert ranges, "a settlement of nothing"
        self._require_open(destination_id)
        kept = [  # copies, because the caller may reuse its own
            Range(one.priority, one.first, one.count, one.delivery_count, one.size_bytes, one.sizes)
            for one in single_ranges(ranges)
        ]
        freed_bytes = self._state.freed_bytes(destination_id, kept)
        self._end += settlement_bytes(len(kept))
        self._settle(destination_id, kept, freed_bytes)
        record = self._record(layout.SETTLEMENT, destination_id)
        record.ranges = kept
        record.freed_bytes = freed_bytes

    def fail_attempts(
        self, destination_id: int, consumer_id: int, cause: int, due_ms: int, ranges: list[Range]
    ) -> None:
        super().fail_attempts(destination_id, consumer_id, cause, due_ms, ranges)
        record = self._record(layout.ATTEMPTS, destination_id)
        record.consumer_id = consumer_id
        record.cause = cause
        record.due_ms = due_ms
        record.time_ms = self._time_ms
        record.ranges = counted_ranges(ranges)

    def commit(self) -> None:
        before = self._end
        super().commit()
        if self._end > before:
            self._record(layout.COMMIT, 0)

    # -- the medium and retention

    def drop(self, destination_id: int, priority: int, first: int, log_start: int) -> None:
        """Act as if retention had dropped everything below ``log_start``: in one lane the entries below ``first``."""
        self._state.open_lane(destination_id, priority).kept_first = first
        self._log_start = log_start

    def fail(self, reason: str) -> None:
        """Act as if the medium refused every write from now on."""
        if not self._reason:
            self._reason = reason
            if self._listener is not None:
                self._listener.store_failed(reason)

    def heal(self) -> None:
        """End the failure of ``fail``: the held-back records are written and durable."""
        self._reason = ""
        self.write()
        self._set_durable(self._written)
        if self._listener is not None:
            self._listener.store_healed()

    def write(self) -> None:
        if not self._reason:
            super().write()
        else:
            assert not self._is_in_transaction, "a batch ends inside a transaction"

    def sync(self) -> None:
        if self._is_in_flight or not self._reason:
            super().sync()

    def is_accepting(self) -> bool:
        return not self._reason
