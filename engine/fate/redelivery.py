"""The redelivery of messages whose delivery failed: again now, or again later.

config.redelivery_policy computes the delays; this file decides when they apply and which messages are blamed.
engine.dispatch.delays keeps the timer of those that wait, and engine.fate.dead_letters decides which are given up.
Source: ActiveMQ RedeliveryPolicy; docs/reference/semantics.md, "Redelivery" and "Blame".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.redelivery_policy import RedeliveryPolicy
from engine.backlog.context import Context
from engine.backlog.lane import Lane, lane_of
from engine.consumers.consumer import NOT_SAID, Consumer, consumer_of
from engine.consumers.settlement_log import SettlementLog
from engine.dispatch.delays import Delays
from engine.dispatch.message_traces import MessageTraces
from engine.dispatch.selective_dispatcher import SelectiveDispatcher
from engine.fate.dead_letters import DeadLetters
from engine.fate.failure_history import added, history_with, policy_of
from engine.sources.queue import Queue, queue_of
from engine.sources.queue_ends import release_unsettled
from engine.values.delivery import (
    ENLISTED,
    EXHAUST,
    FAIL,
    IN_FLIGHT,
    RELEASE,
    ROLLED_BACK,
    ROLLED_BACK_LATER,
    ConsumerBase,
    Delivery,
    LaneBase,
    Refusal,
    advance,
    consumer_words,
)
from engine.values.message import later_ms
from engine.values.outcomes import CAUSE_CLOSED, CAUSE_CONNECTION_LOST, CAUSE_EXHAUSTED, CAUSE_NAMES
from engine.values.stored import DELIVERY_COUNT_MAX, Range

_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = 2**64 - 1
RETURNED: Final = advance(IN_FLIGHT, RELEASE)
ANY_TAG: Final = 2**63 - 1


@dataclass(slots=True, eq=False)
class Redelivery:
    """Handles all deliveries that were not accepted.

    delays: those that wait.  traces: of failed attempts, where there is a tracer.
    """

    context: Context
    settlements: SettlementLog
    selective: SelectiveDispatcher
    delays: Delays
    dead_letters: DeadLetters
    seed: int
    traces: MessageTraces | None = None

    def refuse_all(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Apply one negative answer to each: wait and try again, dead-letter, or return to the queue."""
        for run in runs_of(deliveries):
            self._refuse_run(run, refusal)

    def refusal_of_rollback(self, delivery: Delivery) -> Refusal:
        """Return the refusal that a rollback means for the deliveries of one consumer and lane."""
        return ROLLED_BACK_LATER if policy_of(delivery).delays_rollback else ROLLED_BACK

    def consumer_gone(self, consumer: Consumer, is_lost: bool) -> None:
        """Return what a closed consumer held to its place at once; an attempt may count.

        It does with a lost connection, and at an orderly close if the client says what its application has received.
        """
        seen_tag = consumer.seen_tag()
        self.give_back(consumer, consumer.take_unsettled(), is_lost, seen_tag)

    def give_back(self, consumer: Consumer, unsettled: list[Delivery], is_lost: bool, seen_tag: int) -> None:
        """Return some of what a closing consumer held.  seen_tag: up to here messages are blamed."""
        queue = consumer.queue
        in_flight = [delivery for delivery in unsettled if delivery.state == IN_FLIGHT]
        queue.in_flight_count -= len(in_flight)
        if queue.selection is not None:
            for delivery in in_flight:
                queue.selection.left(delivery)
        looked_tag = consumer.lead().looked_tag
        if not is_lost and looked_tag != NOT_SAID:
            self._return_from_close(consumer, in_flight, looked_tag)
            return
        blamed = self._blamed(queue, in_flight, seen_tag) if is_lost else []
        exhausted: list[Delivery] = []
        if blamed:
            self._count_failures(consumer, blamed, CAUSE_CONNECTION_LOST)
            exhausted = self.dead_letters.lost_by(consumer, blamed)
            if exhausted:
                dead = set(map(id, exhausted))
                blamed = [one for one in blamed if id(one) not in dead]
                in_flight = [one for one in in_flight if id(one) not in dead]
            self._log_attempts(consumer, blamed, CAUSE_CONNECTION_LOST, 0)
        self._return(queue, in_flight)
        for delivery in exhausted:
            self._give_up(delivery, CAUSE_EXHAUSTED, CAUSE_NAMES[CAUSE_CONNECTION_LOST])

    def release_enlisted(self, delivery: Delivery) -> None:
        """Return a delivery that an aborted transaction held after its consumer had closed."""
        queue = queue_of(delivery.lane)
        queue.fates.enlisted_count -= 1
        if queue.settings.prefetch.use_prefetch_extension:
            consumer_of(delivery).window.limits.enlist(delivery.message.size, False)
        if queue.selection is not None:
            queue.selection.left(delivery)
        if queue.is_closed:
            self._end_with(queue, [delivery])
        else:
            self._return(queue, [delivery])

    def drop(self, held: list[Delivery]) -> None:
        """Drop what a closing consumer held and nobody else may have: its subscription ends, or it was only shown."""
        if self.traces is not None:
            self.traces.released(held)
        release_unsettled(held)

    # -- the steps

    def _end_with(self, queue: Queue, held: list[Delivery]) -> None:
        """Let go of what a transaction has held longer than its queue was there."""
        if self.traces is not None:
            self.traces.released(held)
        for delivery in held:
            queue.release(delivery.message)

    def _return_from_close(self, consumer: Consumer, in_flight: list[Delivery], looked_tag: int) -> None:
        """Count an attempt for what the application has received; the rest comes back as if it had never left.

        None of them is given up here: as in ActiveMQ, the policy of the next client decides.
        """
        received = [delivery for delivery in in_flight if delivery.tag <= looked_tag]
        if received:
            self._count_failures(consumer, received, CAUSE_CLOSED)
            self._log_attempts(consumer, received, CAUSE_CLOSED, 0)
        self._return(consumer.queue, in_flight, looked_tag)

    def _refuse_run(self, run: list[Delivery], refusal: Refusal) -> None:
        """Apply one answer to deliveries of one consumer and one lane."""
        consumer = consumer_of(run[0])
        queue = consumer.queue
        mode = refusal.mode or queue.settings.nack
        if queue.feed.is_browser and not queue.is_closed:
            self._leave_all(consumer, run)
            self._refuse_shown(queue, run, "dead-letter" if refusal.is_excluding else mode)
            return
        for delivery in run:
            if refusal.is_excluding and not queue.is_closed:
                self.selective.exclude(delivery)
            if refusal.annotations:
                delivery.history = history_with(delivery, refusal.cause, self.context.wall_ms)
                delivery.history.annotations = refusal.annotations
        self._leave_all(consumer, run)
        if queue.is_closed:
            self._end_with(queue, run)  # refused in a transaction
        elif mode != "requeue":
            self._fail(queue, consumer, run, refusal, mode == "dead-letter")
        elif refusal.delay_ms:
            self._wait(queue, consumer, run, refusal.delay_ms, refusal.cause)
        else:
            self._return(queue, run)

    def _fail(self, queue: Queue, consumer: Consumer, run: list[Delivery], refusal: Refusal, is_given_up: bool) -> None:
        """Count an attempt for each; try again now, later or never."""
        policy = policy_of(run[0])
        self._count_failures(consumer, run, refusal.cause)
        if is_given_up:
            for delivery in run:
                self._give_up(delivery, refusal.cause, refusal.text)
            return
        again: list[Delivery] = []  # consecutive ones with the same delay
        again_ms = 0
        for delivery in run:
            is_exhausted = policy.is_exhausted(delivery.failed_attempts)
            delay_ms = refusal.delay_ms
            if delay_ms is None and not is_exhausted:
                delay_ms = self._policy_delay_ms(policy, delivery)
            if is_exhausted or delay_ms != again_ms:
                self._try_again(queue, consumer, again, again_ms, refusal.cause)
                again = []
            if is_exhausted:
                self._give_up(delivery, CAUSE_EXHAUSTED, refusal.text)
            elif delay_ms is not None:
                again_ms = delay_ms
                again.append(delivery)
        self._try_again(queue, consumer, again, again_ms, refusal.cause)

    def _try_again(
        self, queue: Queue, consumer: Consumer, deliveries: list[Delivery], delay_ms: int, cause: int
    ) -> None:
        if not deliveries:
            return
        if delay_ms > 0:
            self._wait(queue, consumer, deliveries, delay_ms, cause)
        else:  # with a timer, later messages would overtake it in this turn
            self._log_attempts(consumer, deliveries, cause, self.context.wall_ms)
            self._return(queue, deliveries)

    def _count_failures(self, consumer: Consumer, deliveries: list[Delivery], cause: int) -> None:
        if self.traces is not None:
            self.traces.failed(deliveries, cause)
        words = consumer_words(consumer.description())
        now_ms = self.context.wall_ms
        first = added(None, cause, words, now_ms)
        for delivery in deliveries:
            delivery.failed_attempts += 1
            known = delivery.history
            delivery.history = first if known is None else added(known, cause, words, now_ms)

    def _give_up(self, delivery: Delivery, cause: int, words: str) -> None:
        if self.dead_letters.is_last_resort(delivery):
            consumer = consumer_of(delivery)
            delay_ms = self._policy_delay_ms(policy_of(delivery), delivery)
            self._wait(queue_of(delivery.lane), consumer, [delivery], delay_ms, cause)
        else:
            self.dead_letters.give_up(delivery, cause, words)

    def _policy_delay_ms(self, policy: RedeliveryPolicy, delivery: Delivery) -> int:
        return policy.drawn_ms(max(1, delivery.failed_attempts), self._random_unit)

    def leave(self, delivery: Delivery) -> None:
        """Remove a delivery from its consumer."""
        self._leave_all(consumer_of(delivery), [delivery])

    def _leave_all(self, consumer: Consumer, run: list[Delivery]) -> None:
        queue = consumer.queue
        furthest_tag = consumer.furthest_tag
        selection = queue.selection
        freed: list[int] = []
        for delivery in run:
            tag = delivery.tag
            consumer.ledger.pop(tag, None)
            if tag > furthest_tag:
                furthest_tag = tag
            if delivery.state != ENLISTED:
                queue.in_flight_count -= 1
                freed.append(delivery.message.size)
            else:
                queue.fates.enlisted_count -= 1
                if not queue.settings.prefetch.use_prefetch_extension:
                    freed.append(delivery.message.size)
                else:
                    consumer.window.limits.enlist(delivery.message.size, False)
            delivery.is_redelivered = True
            if selection is not None:
                selection.left(delivery)
        consumer.furthest_tag = furthest_tag
        if freed and consumer.window.give_back_all(freed):
            queue.list_consumer(consumer)

    def _refuse_shown(self, queue: Queue, run: list[Delivery], mode: str) -> None:
        """Apply a negative answer to messages that were only shown: they are shown again at once, or are done."""
        if mode == "requeue":
            self._return(queue, run)
            return
        for delivery in run:
            delivery.state = advance(delivery.state, EXHAUST)
            queue.depth -= 1
            queue.release(delivery.message)

    def _return(self, queue: Queue, deliveries: list[Delivery], looked_tag: int = ANY_TAG) -> None:
        """Let deliveries of one queue be READY again, at their places.

        looked_tag: up to here an application may have seen them.
        """
        if self.traces is not None:
            self.traces.released(deliveries)
        for delivery in deliveries:
            delivery.state = RETURNED if delivery.state == IN_FLIGHT else advance(delivery.state, RELEASE)
            if delivery.tag <= looked_tag:
                delivery.is_redelivered = True
            delivery.consumer = None
        queue.fates.redelivered_count += len(deliveries)
        if len(queue.used_lanes) == 1:
            queue.used_lanes[0].give_back(deliveries)
        else:
            by_lane: dict[Lane, list[Delivery]] = {}
            for delivery in deliveries:
                by_lane.setdefault(lane_of(delivery), []).append(delivery)
            for lane, returned in by_lane.items():
                lane.give_back(returned)
        queue.mark_dirty()

    def _wait(self, queue: Queue, consumer: Consumer, deliveries: list[Delivery], delay_ms: int, cause: int) -> None:
        if self.traces is not None:
            self.traces.released(deliveries)
        self._log_attempts(consumer, deliveries, cause, later_ms(self.context.wall_ms, delay_ms))
        for delivery in deliveries:
            delivery.state = advance(delivery.state, FAIL)
            if queue.selection is not None:
                queue.selection.delay(delivery)
            delivery.consumer = None
            self.delays.add(delivery, delay_ms)
        queue.fates.redelivered_count += len(deliveries)

    def _blamed(self, queue: Queue, in_flight: list[Delivery], seen_tag: int) -> list[Delivery]:
        blame = queue.settings.blame
        if blame == "none":
            return []
        if blame == "all":
            return in_flight
        return [delivery for delivery in in_flight if delivery.tag <= seen_tag]

    def _log_attempts(self, consumer: Consumer, deliveries: list[Delivery], cause: int, due_ms: int) -> None:
        if not consumer.queue.is_logged:
            return
        ranges: list[Range] = []
        last = Range(-1, 0, 0, 0)
        for delivery in deliveries:
            message = delivery.message
            offset = message.queue_offset
            count = min(delivery.failed_attempts, DELIVERY_COUNT_MAX)
            if offset == last.first + last.count and message.priority == last.priority and count == last.delivery_count:
                last.count += 1
            elif offset >= 0:
                last = Range(message.priority, offset, 1, count)
                ranges.append(last)
        if ranges:
            record_id = self.settlements.record_of(consumer)
            self.context.store.fail_attempts(consumer.queue.destination_id, record_id, cause, due_ms, ranges)

    def _random_unit(self) -> float:
        """Return the next number in [-1, 1) of a seeded sequence: same seed, same history."""
        self.seed = (self.seed * _MULTIPLIER + _INCREMENT) & _MASK
        return (self.seed >> 11) / float(2**52) - 1.0


def runs_of(deliveries: list[Delivery]) -> list[list[Delivery]]:
    """Split deliveries into runs of one consumer and one lane."""
    runs: list[list[Delivery]] = []
    lane: LaneBase | None = None
    consumer: ConsumerBase | None = None
    run: list[Delivery] = []
    for delivery in deliveries:
        if delivery.lane is not lane or delivery.consumer is not consumer:
            lane = delivery.lane
            consumer = delivery.consumer
            run = []
            runs.append(run)
        run.append(delivery)
    return runs
