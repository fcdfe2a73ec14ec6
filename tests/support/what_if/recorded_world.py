"""Deterministic traffic on an engine, recorded as the tables messages and deliveries would have it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from config.matching import AddressEntry
from engine.consumers.consumer import INDIVIDUAL
from engine.values.delivery import AS_THE_ADDRESS_SAYS, Delivery
from engine.values.outcomes import CAUSE_NAMES, CAUSE_NONE, OUTCOME_NAMES
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES, SCHEMAS
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient
from what_if.trace.read import trace_of
from what_if.trace.tables import DELIVERY_COLUMNS, MESSAGE_COLUMNS
from what_if.trace.trace import Trace

ALWAYS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """A message.  at_ms: since the start.  failures: how often a consumer fails with it, ALWAYS for ever."""

    at_ms: int
    queue: str = "q"
    failures: int = 0
    priority: int = 4
    expires_in_ms: int = 0


@dataclass(slots=True)
class Worker:
    """A consumer.  takes_ms: how long it works on a message, by its number and the attempt.

    begun: number of the work that it is at, over all consumers.
    """

    client: FakeClient
    takes_ms: Callable[[int, int], int]
    held: deque[Delivery] = field(default_factory=deque)
    done_ms: int = 0
    begun: int = 0


class RecordedWorld:
    """Runs the traffic at once.  deliveries: (time, message, outcome, cause) of each, in their order."""

    def __init__(
        self,
        sent: Sequence[Sent],
        consumers: Sequence[tuple[str, Callable[[int, int], int]]],
        *addresses: AddressEntry,
        length_ms: int = 2_000,
        prefetch: int | None = None,
    ) -> None:
        self.world = world = EngineWorld(*addresses)
        self.start_ms = world.clock.now_ms
        self.sent = sent
        self.rows: list[dict[str, Any]] = []
        self.failed: dict[int, int] = {}
        self.begun = 0
        self.workers = []
        for number, (queue, takes_ms) in enumerate(consumers):
            client = world.client(f"192.0.2.{number}:40000")
            world.consumer(client, queue, INDIVIDUAL, prefetch)
            self.workers.append(Worker(client, takes_ms))
        world.turn()
        waiting = deque(sent)
        now_ms = 0
        while now_ms < length_ms:
            self._pass(now_ms, waiting)
            now_ms = self._next_ms(now_ms, waiting)

    def trace(self) -> Trace:
        """Return what a simulation reads."""
        return trace_of(iter(self.messages()), iter(self.deliveries()))

    def messages(self) -> list[pa.RecordBatch]:
        rows = [
            {
                "destination_kind": "queue",
                "destination_name": self.world.destination(message.destination_id).name,  # type: ignore[union-attr]
                "log_offset": message.log_offset,
                "store_time": time_of(message.store_time_ms),
                "priority": message.jms_priority(),
                "expires": time_of(message.expires_ms) if message.expires_ms else None,
                "dead_letter": bool(message.annotations),
                "headers": [("name", "value")],
                "body": message.body,
            }
            for message in self.world.store.messages
        ]
        return [batch_of(rows, MESSAGES, MESSAGE_COLUMNS)]

    def deliveries(self) -> list[pa.RecordBatch]:
        return [batch_of(self.rows, DELIVERIES, DELIVERY_COLUMNS)]

    def ends(self) -> list[tuple[int, int, str, str]]:
        """Return time, message, outcome and cause of each delivery."""
        return sorted(
            (round(row["store_time"].timestamp() * 1000), row["message_offset"], row["outcome"], row["cause"] or "none")
            for row in self.rows
        )

    # -- the steps

    def _pass(self, now_ms: int, waiting: deque[Sent]) -> None:
        """Let one millisecond pass: timers, consumers, producers, then dispatch."""
        world = self.world
        world.clock.now_ms = self.start_ms + now_ms
        world.broker.begin_turn()
        world.timers.fire_due()
        self._work_all(now_ms)
        while waiting and waiting[0].at_ms <= now_ms:
            one = waiting.popleft()
            number = len(self.sent) - len(waiting) - 1
            expires_ms = world.clock.wall_ms() + one.expires_in_ms if one.expires_in_ms else 0
            queue = world.queue(one.queue)
            message = world.message(queue, str(number).encode(), priority=one.priority, expires_ms=expires_ms)
            world.broker.send(queue, message)
        while True:
            world.turn()
            before = len(self.rows)
            self._record()
            self._take(now_ms)
            self._work_all(now_ms)
            world.turn()
            self._record()
            if len(self.rows) == before and not any(worker.client.handed for worker in self.workers):
                return

    def _take(self, now_ms: int) -> None:
        """Give each consumer what it has been handed, in the order of the hand-overs."""
        handed = [(one.tag, one, worker) for worker in self.workers for one in worker.client.take()]
        for _, delivery, worker in sorted(handed, key=lambda one: one[0]):
            worker.held.append(delivery)
            if len(worker.held) == 1:
                worker.done_ms = now_ms + self._takes_ms(worker)

    def _work_all(self, now_ms: int) -> None:
        for worker in sorted(self.workers, key=lambda one: (one.done_ms, one.begun)):
            self._work(worker, now_ms)

    def _next_ms(self, now_ms: int, waiting: deque[Sent]) -> int:
        """Return the next time at which something happens."""
        times = [worker.done_ms for worker in self.workers if worker.held]
        times += [one.at_ms for one in list(waiting)[:1]]
        timer_ms = self.world.timers.next_ms()
        if timer_ms is not None:
            times.append(timer_ms - self.start_ms)
        return max(now_ms + 1, min(times, default=1 << 62))

    def _takes_ms(self, worker: Worker) -> int:
        self.begun += 1
        worker.begun = self.begun
        delivery = worker.held[0]
        return worker.takes_ms(int(delivery.message.body), delivery.failed_attempts)

    def _work(self, worker: Worker, now_ms: int) -> None:
        while worker.held and worker.done_ms <= now_ms:
            delivery = worker.held.popleft()
            number = int(delivery.message.body)
            if delivery.failed_attempts < self.sent[number].failures:
                self.world.broker.refuse(delivery, AS_THE_ADDRESS_SAYS)
            else:
                self.world.broker.acknowledge(delivery)
            if worker.held:
                worker.done_ms += self._takes_ms(worker)

    def _record(self) -> None:
        """Add rows for the new records of the store."""
        store = self.world.store
        places = {(one.destination_id, one.priority, one.queue_offset): one for one in store.messages}
        for settled in store.settled:
            for priority, first, count in settled.ranges:
                for entry in range(first, first + count):
                    message = places[settled.destination_id, priority, entry]
                    outcome = OUTCOME_NAMES[settled.outcome]
                    self._add(message, settled.consumer_id, outcome, settled.cause, 0)
        for failed in store.failed:
            for priority, first, count, _ in failed.ranges:
                for entry in range(first, first + count):
                    message = places[failed.destination_id, priority, entry]
                    self._add(message, failed.consumer_id, "failed", failed.cause, failed.due_ms)
                    self.failed[message.log_offset] = self.failed.get(message.log_offset, 0) + 1
        store.settled.clear()
        store.failed.clear()

    def _add(self, message: Any, consumer_id: int, outcome: str, cause: int, due_ms: int) -> None:
        now_ms = self.world.clock.wall_ms()
        self.rows.append(
            {
                "destination_kind": "queue",
                "destination_name": self.world.destination(message.destination_id).name,  # type: ignore[union-attr]
                "log_offset": len(self.rows),
                "store_time": time_of(now_ms),
                "message_offset": message.log_offset,
                "message_time": time_of(message.store_time_ms),
                "outcome": outcome,
                "cause": None if cause == CAUSE_NONE else CAUSE_NAMES[cause],
                "attempt": self.failed.get(message.log_offset, 0) + 1 if consumer_id else None,
                "next_attempt": time_of(due_ms) if due_ms > now_ms else None,
                "consumer": consumer_id or None,
            }
        )


def time_of(wall_ms: int) -> datetime:
    return datetime.fromtimestamp(wall_ms / 1000, UTC)


def batch_of(rows: list[dict[str, Any]], table: str, columns: Sequence[str]) -> pa.RecordBatch:
    schema = pa.schema([SCHEMAS[table].field(name) for name in columns])
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def every(milliseconds: int, count: int, **values: Any) -> list[Sent]:
    """Return messages at equal distances."""
    return [Sent(number * milliseconds, **values) for number in range(count)]


def takes(milliseconds: int) -> Callable[[int, int], int]:
    """Return the time of a consumer that works equally long on every message."""
    return lambda number, attempt: milliseconds
