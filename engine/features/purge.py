"""Empties or removes queues and topics, on an operator's command or because they are no longer used."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context
from engine.clients.connections import Connections
from engine.clients.consumer_registry import Subscribing
from engine.consumers.consumer import AUTO, Consumer
from engine.consumers.departures import CLOSE_STEPS
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Chore, Steps
from engine.features.queue_run import QueueRun
from engine.features.scheduler.scheduler import Scheduler
from engine.ports.timers import TimerTarget
from engine.sources.entry_readers import kept_by
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE
from engine.values.errors import DestinationInUse, EngineError
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.outcomes import CAUSE_PURGED, DROPPED

TICK_MS: Final = 20
DROPPED_AT_ONCE: Final = 1_500  # messages, in some 2 ms; the rest waits for the next tick
MORE_MS: Final = 1  # until that tick
PURGE_STEPS: Final = 14  # to begin one
LOOK_AGAIN_MS: Final = 30_000  # at queues without consumers whose messages kept them from being deleted


@dataclass(slots=True, eq=False)
class _Checks(TimerTarget):
    """A timer's key is the number of a queue that may be deleted, 0 for those in ``kept``.

    kept: numbers of queues that are used by nobody, but have messages.
    """

    _due: _Due
    _steps: Steps
    kept: set[int] = field(default_factory=set)

    def timer_fired(self, key: int) -> None:
        is_under_way = bool(self._due.numbers)
        self._due.numbers += [key] if key else sorted(self.kept)
        if not key:
            self.kept.clear()
        if not is_under_way:
            self._steps.take_up(self._due)


@dataclass(slots=True, eq=False)
class _Due(Chore):
    """Checks the queues with these numbers, some per turn: thousands may have lost their consumers at once."""

    _upkeep: Upkeep
    numbers: deque[int] = field(default_factory=deque)

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.numbers:
            if steps.left <= least:
                return False
            steps.left -= CLOSE_STEPS
            self._upkeep.check_unused(self.numbers[0])
            self.numbers.popleft()
        return True


class Purge(QueueRun):
    """Drops what waits in a queue, or what a selector matches of it.

    count: messages dropped.  rest_at: the count from which on the others wait for the next tick.
    """

    __slots__ = ("count", "rest_at")

    def __init__(self, upkeep: Upkeep, queue: Queue, selector: str) -> None:
        """Raises: InvalidSelector, LimitReached."""
        options = SubscribeOptions(AUTO, name="purge", selector=selector, is_taking=True)
        super().__init__(upkeep.context, upkeep.connections, upkeep.subscribing, queue, options)
        self.count = 0
        self.rest_at = DROPPED_AT_ONCE
        self.consumer.batch.outcome = DROPPED
        self.consumer.batch.cause = CAUSE_PURGED
        self.consumer.start()
        self.call_again(TICK_MS)

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        raise AssertionError("a purge acknowledges automatically")

    def deliver_settled(self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int) -> None:
        self.count += 1
        if self.count == self.rest_at:
            self.is_output_full = True  # no socket is full, but it holds back the dispatcher in the same way

    def tick(self) -> None:
        self.rest_at = self.count + DROPPED_AT_ONCE
        if self.is_output_full:
            self.connections.output_drained(self)
            self.call_again(MORE_MS)
        elif not self.queue.is_dirty and self.is_idle():
            self.end()
        else:
            self.call_again(TICK_MS)

    def expel(self, consumer: Consumer, error: EngineError, with_connection: bool) -> None:
        self.end()

    def describe(self) -> dict[str, str]:
        return {"address": "purge"}


@dataclass(slots=True, eq=False)
class Upkeep(Observer):
    """Empties and removes destinations.

    read: numbers of queues that would have been deleted if a browser or a replay had not been reading them.
    """

    context: Context
    destinations: Destinations
    connections: Connections
    subscribing: Subscribing
    settlements: SettlementLog
    ends: QueueEnds
    scheduler: Scheduler
    read: set[int] = field(default_factory=set)
    _checks: _Checks = field(init=False)

    def __post_init__(self) -> None:
        self._checks = _Checks(_Due(self), self.subscribing.steps)
        for queue in self.destinations.queues.values():  # those that the last run has left behind
            if queue.settings.queue.auto_delete:
                self._check_later(queue)

    def purge(self, queue: Queue, selector: str = "") -> Purge:
        """Start a purge of ``queue``.  Raises: InvalidSelector, LimitReached."""
        return Purge(self, queue, selector)

    def delete(self, destination: Queue | Topic, is_forced: bool = False) -> None:
        """Remove a queue or a topic for good.  is_forced: including its messages and the schedules for it.

        Browsers end with what they have read, replays with an error.
        Raises: DestinationInUse if it has consumers or subscriptions, or holds messages.
        """
        uri = destination.uri()
        scheduler = self.scheduler
        number = destination.destination_id
        if scheduler.counts.get(number) and not is_forced:
            raise DestinationInUse(f"{scheduler.counts[number]} messages are scheduled for {uri}; cancel them first")
        if isinstance(destination, Topic):
            if destination.subscriptions:
                raise DestinationInUse(f"{uri} has {len(destination.subscriptions)} subscriptions")
        else:
            self.subscribing.departures.make_way(destination)
            if destination.consumer_count():
                raise DestinationInUse(f"{uri} has {destination.consumer_count()} consumers")
            if destination.depth and not is_forced:
                raise DestinationInUse(f"{uri} holds {destination.depth} messages; purge it first")
            self.settlements.flush()
            self.ends.discard(destination)
        scheduler.ending.end(number)
        self.read.discard(number)
        self.destinations.remove(destination)

    def consumer_coming(self, consumer: Consumer) -> None:
        """Stop dropping: messages that arrive from now on are for the new consumer."""
        if not consumer.queue.settings.queue.purge_on_no_consumers:
            return
        for other in list(consumer.queue.consumers.values()):
            if other is not consumer and isinstance(other.client, Purge):
                other.client.end()

    def consumer_removed(self, consumer: Consumer) -> None:
        """Check whether the last consumer of a queue has left."""
        queue = consumer.queue
        if not queue.feed.is_own and queue.feed.source_id in self.read:
            self._reader_gone(self.destinations.queues_by_id[queue.feed.source_id])
        queue = kept_by(queue, self.destinations.queues_by_id)
        policy = queue.settings.queue
        if queue.consumer_count() or queue.kind != QUEUE or queue.destination_id <= 0 or not queue.feed.is_own:
            return
        if policy.purge_on_no_consumers and queue.depth and not isinstance(consumer.client, Purge):
            self.subscribing.steps.left -= PURGE_STEPS  # a lost connection may have left thousands of queues
            Purge(self, queue, "")
        elif policy.auto_delete:
            self._check_later(queue)

    def schedule_gone(self, number: int) -> None:
        """Nothing is scheduled for a destination any more."""
        queue = self.destinations.queues_by_id.get(number)
        if queue is not None and not queue.consumer_count() and queue.settings.queue.auto_delete:
            self._check_later(queue)

    def _reader_gone(self, queue: Queue) -> None:
        if queue.destination_id not in self.destinations.readers.by_source:
            self.read.discard(queue.destination_id)
            self._check_later(queue)

    def _look_again(self, key: int) -> None:
        if not self._checks.kept:
            self.context.call_later(LOOK_AGAIN_MS, self._checks, 0)
        self._checks.kept.add(key)

    def _check_later(self, queue: Queue) -> None:
        due_ms = self.context.clock.monotonic_ms() + queue.settings.queue.auto_delete_delay_ms
        self.context.timers.call_at(due_ms, self._checks, queue.destination_id)

    def check_unused(self, key: int) -> None:
        """Delete the queue with this number if it is unused."""
        queue = self.destinations.queues_by_id.get(key)
        if queue is None or queue.consumer_count() or self.scheduler.counts.get(key):
            return
        if queue.name in self.destinations.lasting:
            return
        most = queue.settings.queue.auto_delete_message_count
        if 0 <= most < queue.depth:
            self._look_again(key)  # they may expire, or a transaction may take them
            return
        if queue.destination_id in self.destinations.readers.by_source:
            self.read.add(key)
        else:
            self.delete(queue, is_forced=True)
