"""Finds slow consumers by ActiveMQ's and HornetQ's rules, and applies the policies for them.

Source: ActiveMQ (slow consumers, abortSlowConsumerStrategy, abortSlowAckConsumerStrategy) and Artemis (rate
threshold, with Artemis' condition that there are messages to take).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from config.policies import SlowConsumerPolicy
from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.consumers.turn_steps import Chore, Steps
from engine.ports.timers import TimerTarget
from engine.sources.feed import MemorySubscription
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import consumer_words
from engine.values.errors import SlowConsumer

SECOND_MS: Final = 1_000
CHECK_STEPS: Final = 5  # per consumer checked
NOTICES_MAX: Final = 1_000  # not yet logged for the operator; beyond, only the count grows


def is_in_topic_memory(queue: Queue) -> bool:
    """Say whether this is a topic subscription in memory; a durable one is treated like a queue."""
    return isinstance(queue.feed, MemorySubscription)


def is_slow(consumer: Consumer) -> bool:
    """Say whether a consumer is slow in ActiveMQ's sense.

    Of a queue: its window is full while messages wait.  Of a topic, unless its prefetch is 1: more messages wait than
    its prefetch, in addition to those that it holds.
    """
    queue = consumer.queue
    window = consumer.window
    if not is_in_topic_memory(queue):
        is_full = window.is_full and (window.in_flight >= window.full_at or window.gate == gates.BYTES_FULL)
        return is_full and _has_waiting(queue)
    return window.prefetch > 1 and queue.depth > 2 * window.prefetch


class Watch:
    """The state of one consumer between two checks.

    since_ms: monotonic, since when it has been slow without a break, -1 if it is not.  found_count: how often found.
    acknowledged, enqueued: counts at the last check of its rate.
    seen_count, seen_ms: its acknowledgements, and when they last grew.
    """

    __slots__ = ("consumer", "since_ms", "found_count", "acknowledged", "enqueued", "seen_count", "seen_ms", "is_noted")

    def __init__(self, consumer: Consumer, now_ms: int) -> None:
        self.consumer = consumer
        self.since_ms = -1
        self.found_count = 0
        self.acknowledged = consumer.acknowledged_count
        self.enqueued = consumer.queue.enqueued_count
        self.seen_count = consumer.acknowledged_count
        self.seen_ms = now_ms
        self.is_noted = False


@dataclass(slots=True, eq=False)
class SlowConsumers(TimerTarget):
    """Checks the consumers of addresses that ask for it; others cost nothing.

    found_count, ended_count: consumers found slow, and ended for it, since the start.
    notices: in words, to be logged for the operator.
    checks: a heap of (when, number, watch, whether it is a check of the rate).
    checking: the chore that makes the checks that are due, up to ``due_ms``.
    """

    context: Context
    observers: list[Observer]
    steps: Steps
    checking: _Checking = field(init=False)
    due_ms: int = 0
    checks: list[tuple[int, int, Watch, bool]] = field(default_factory=list)
    next_number: int = 1
    found_count: int = 0
    ended_count: int = 0
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.checking = _Checking(self)
        self.observers.append(_Comers(self))

    def added(self, consumer: Consumer) -> None:
        """A consumer was added."""
        settings = consumer.queue.settings
        policy = settings.slow_consumers
        watch = Watch(consumer, self.context.clock.monotonic_ms())
        if policy.threshold >= 0:
            self._check_in(policy.check_period_ms, watch, True)
        if policy.abort != "none" or settings.advisories.slow_consumers:
            self._check_in(policy.abort_check_period_ms, watch, False)

    def timer_fired(self, key: int) -> None:
        self.due_ms = key
        if not self.checking.is_under_way:
            self.checking.is_under_way = True
            self.steps.take_up(self.checking)

    def has_due(self) -> bool:
        """Say whether a check is due."""
        return bool(self.checks) and self.checks[0][0] <= self.due_ms

    def check_next(self) -> None:
        """Make the check that is due first."""
        _, _, watch, is_rate = heappop(self.checks)
        if watch.consumer.is_closed or watch.consumer.departing() is not None:
            return
        policy = watch.consumer.queue.settings.slow_consumers
        if not watch.consumer.is_started:
            # It has been offered nothing, and its adapter may not know it yet: its SUBSCRIBE may wait for the disk.
            self._check_in(policy.check_period_ms if is_rate else policy.abort_check_period_ms, watch, is_rate)
            watch.seen_ms = self.due_ms
        elif is_rate:
            self._check_in(policy.check_period_ms, watch, True)
            self._check_rate(watch, policy)
        else:
            self._check_in(policy.abort_check_period_ms, watch, False)
            self._check_time(watch, policy, self.due_ms)

    # -- rules

    def _check_rate(self, watch: Watch, policy: SlowConsumerPolicy) -> None:
        """Apply HornetQ's rule, if enough messages arrive or wait for all consumers together."""
        consumer = watch.consumer
        queue = consumer.queue
        period_s = policy.check_period_ms / SECOND_MS
        threshold = policy.threshold_per_second()
        queue_rate = (queue.enqueued_count - watch.enqueued) / period_s
        rate = (consumer.acknowledged_count - watch.acknowledged) / period_s
        watch.enqueued = queue.enqueued_count
        watch.acknowledged = consumer.acknowledged_count
        wanted = threshold * len(queue.consumers)
        has_enough = queue_rate >= wanted or queue.depth >= wanted
        if not has_enough or not (rate < threshold or (threshold == 0 and rate == 0)):
            watch.is_noted = False
            return
        why = f"it settles {rate:g} messages a second, the threshold is {threshold:g} (slow-consumer-threshold)"
        self._found(watch, why)
        if policy.policy == "KILL":
            self._end(consumer, why, "slow-consumer-policy is KILL", True)

    def _check_time(self, watch: Watch, policy: SlowConsumerPolicy, now_ms: int) -> None:
        """Apply ActiveMQ's rules."""
        consumer = watch.consumer
        if consumer.acknowledged_count != watch.seen_count or (not consumer.ledger and policy.ignore_idle_consumers):
            watch.seen_count = consumer.acknowledged_count
            watch.seen_ms = now_ms
        if policy.abort == "slow-ack":
            self._check_silence(watch, policy, now_ms - watch.seen_ms)
            return
        if not is_slow(consumer):
            watch.since_ms = -1
            watch.found_count = 0
            watch.is_noted = False
            return
        if watch.since_ms < 0:
            watch.since_ms = now_ms
        watch.found_count += 1
        slow_ms = now_ms - watch.since_ms
        why = f"messages wait and its window is full, {len(consumer.ledger)} in flight"
        if is_in_topic_memory(consumer.queue):
            why = f"{consumer.queue.depth} messages wait, its prefetch is {consumer.window.prefetch}"
        self._found(watch, why)
        if policy.abort != "slow":
            return
        if 0 < policy.max_slow_duration_ms <= slow_ms:
            limit = f"slow for {slow_ms} ms, the limit is {policy.max_slow_duration_ms} ms (max-slow-duration-ms)"
        elif 0 < policy.max_slow_count <= watch.found_count:
            limit = f"found slow {watch.found_count} times, the limit is {policy.max_slow_count} (max-slow-count)"
        else:
            return
        self._end(consumer, why, limit, policy.abort_connection)

    def _check_silence(self, watch: Watch, policy: SlowConsumerPolicy, silent_ms: int) -> None:
        """Apply ActiveMQ's abortSlowAckConsumerStrategy: a silent consumer is slow; duration or count then end it."""
        if silent_ms < policy.max_time_since_last_ack_ms:
            watch.found_count = 0
            watch.is_noted = False
            return
        watch.found_count += 1
        why = f"it has acknowledged nothing for {silent_ms} ms"
        self._found(watch, why)
        slow_ms = (
            watch.found_count * policy.abort_check_period_ms
        )  # as in ActiveMQ, the check that finds it counts as a period
        limit = f"slow from {policy.max_time_since_last_ack_ms} ms on (max-time-since-last-ack-ms)"
        if 0 < policy.max_slow_duration_ms <= slow_ms:
            limit = f"{limit}, for {slow_ms} ms, the limit is {policy.max_slow_duration_ms} ms (max-slow-duration-ms)"
        elif 0 < policy.max_slow_count <= watch.found_count:
            limit = f"{limit}, {watch.found_count} times, the limit is {policy.max_slow_count} (max-slow-count)"
        else:
            return
        self._end(watch.consumer, why, limit, policy.abort_connection)

    # -- the steps

    def _found(self, watch: Watch, why: str) -> None:
        """Report it, once until the consumer is fast again."""
        if watch.is_noted:
            return
        watch.is_noted = True
        self.found_count += 1
        for observer in self.observers:
            observer.slow_consumer(watch.consumer)
        self._notice(f"{_who(watch.consumer)} is slow: {why}")

    def _end(self, consumer: Consumer, why: str, limit: str, with_connection: bool) -> None:
        if consumer.departing() is not None:
            return
        self.ended_count += 1
        self._notice(f"{_who(consumer)} is ended: {why}; {limit}")
        error = SlowConsumer(f"the consumer of {consumer.queue.uri()} is too slow: {why}; {limit}")
        consumer.client.expel(consumer.lead(), error, with_connection)

    def _notice(self, text: str) -> None:
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(text)

    def _check_in(self, delay_ms: int, watch: Watch, is_rate: bool) -> None:
        due_ms = self.context.clock.monotonic_ms() + delay_ms
        heappush(self.checks, (due_ms, self.next_number, watch, is_rate))
        self.next_number += 1
        self.context.timers.call_at(due_ms, self, due_ms)


@dataclass(slots=True, eq=False)
class _Checking(Chore):
    """Makes the checks that are due, some per turn."""

    _slow_consumers: SlowConsumers
    is_under_way: bool = False

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self._slow_consumers.has_due():
            if steps.left <= least:
                return False
            steps.left -= CHECK_STEPS
            self._slow_consumers.check_next()
        self.is_under_way = False
        return True


@dataclass(slots=True, eq=False)
class _Comers(Observer):
    _slow_consumers: SlowConsumers

    def consumer_added(self, consumer: Consumer) -> None:
        self._slow_consumers.added(consumer)


def _has_waiting(queue: Queue) -> bool:
    for lane in queue.used_lanes:
        if len(lane.ready) + len(lane.returned) > len(lane.stale):
            return True
    return queue.has_backlog()


def _who(consumer: Consumer) -> str:
    return f"{consumer.queue.uri()}: {consumer_words(consumer.description())}"
