"""A failed delivery: now, later, or the dead-letter queue.

The delays are config.policies.RedeliveryPolicy's; here is when they apply and who is blamed.
Source: ActiveMQ RedeliveryPolicy; docs/semantics.md, "Redelivery" and "Blame".
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from config.policies import RedeliveryPolicy
from engine import gates
from engine.consumer import Consumer
from engine.dead_letters import DeadLetters
from engine.delivery import DELAYED, DROP, EXHAUST, FAIL, IN_FLIGHT, RELEASE, TIMER, Delivery, advance
from engine.failures import FailureHistory, consumer_words
from engine.lane import KEPT_DELAYED_BYTES
from engine.message import Message
from engine.outcomes import CAUSE_CONNECTION_LOST, CAUSE_EXHAUSTED, CAUSE_NAMES
from engine.ports import TimerTarget
from engine.queue import Queue
from engine.refusal import ROLLED_BACK, ROLLED_BACK_LATER, Refusal
from engine.stored import DELIVERY_COUNT_MAX, Range
from engine.wall_time import later_ms

if TYPE_CHECKING:
    from engine.broker import Broker
    from engine.lane import Lane

LONG_DELAY_MS: Final = 100  # what waits less keeps its content in memory
RELOAD_RETRY_MS: Final = 1_000  # after content that the disk refused, or that memory had no room for
RELOAD_READER: Final = -2  # the store's answers to requests for it come to this reader
_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = 2**64 - 1


class Redelivery(TimerTarget):
    """Everything that happens to deliveries that were not accepted.

    reloading: (destination, priority, queue offset) -> delivery that is due and whose content is being read again.
    reloading_bytes: of these.
    waiting: a heap of (when it is due, number, delivery).  armed_ms: when the one timer that counts is set to fire,
    0 for none; its key is that time, so that one set before for later is known when it fires.
    """

    __slots__ = ("broker", "waiting", "reloading", "reloading_bytes", "next_number", "armed_ms", "seed", "dead_letters")

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.waiting: list[tuple[int, int, Delivery]] = []
        self.reloading: dict[tuple[int, int, int], Delivery] = {}
        self.reloading_bytes = 0
        self.next_number = 1
        self.armed_ms = 0
        self.seed = seed
        self.dead_letters = DeadLetters(broker)

    def policy_of(self, delivery: Delivery) -> RedeliveryPolicy:
        """Return the policy of the consumer that has the delivery, else that of its queue."""
        consumer = delivery.consumer
        if consumer is not None and consumer.redelivery is not None:
            return consumer.redelivery
        return delivery.lane.queue.settings.redelivery

    def history_with(self, delivery: Delivery, cause: int) -> FailureHistory:
        """Return what is to be remembered once the delivery has failed now for ``cause``."""
        now_ms = self.broker.wall_ms
        known = delivery.history
        consumer = delivery.consumer
        words = (
            consumer_words(consumer.description()) if consumer is not None else "" if known is None else known.consumer
        )
        if known is None:
            return FailureHistory(now_ms, now_ms, cause, words)
        return FailureHistory(known.first_ms, now_ms, cause, words, known.annotations)

    def refuse(self, delivery: Delivery, refusal: Refusal) -> None:
        """Take a negative answer: wait and try again, dead-letter, or go back to the queue."""
        queue = delivery.lane.queue
        mode = refusal.mode or queue.settings.nack
        if queue.feed is not None and queue.feed.is_browser and not queue.is_closed:
            self.leave(delivery)
            self._refuse_shown(delivery, "dead-letter" if refusal.is_excluding else mode)
            return
        if refusal.is_excluding and not queue.is_closed:
            self.broker.selective.exclude(delivery)
        if refusal.annotations:
            delivery.history = self.history_with(delivery, refusal.cause)
            delivery.history.annotations = refusal.annotations
        self.leave(delivery)
        if queue.is_closed:
            self.broker.release(delivery)  # refused in a transaction; its queue has ended meanwhile
            return
        if mode == "requeue":
            if refusal.delay_ms:
                self._wait(delivery, refusal.delay_ms, refusal.cause)
            else:
                self._return(queue, [delivery])
            return
        policy = self.policy_of(delivery)
        delivery.failed_attempts += 1
        delivery.history = self.history_with(delivery, refusal.cause)
        if mode == "dead-letter":
            self._give_up(delivery, refusal.cause, refusal.text)
        elif policy.is_exhausted(delivery.failed_attempts):
            self._give_up(delivery, CAUSE_EXHAUSTED, refusal.text)
        else:
            delay_ms = self._policy_delay_ms(delivery) if refusal.delay_ms is None else refusal.delay_ms
            if delay_ms > 0:
                self._wait(delivery, delay_ms, refusal.cause)
            else:  # a timer would let those behind it overtake it in this turn
                consumer = delivery.consumer
                assert consumer is not None, "a refused delivery is with a consumer"
                self._log_attempts(consumer, [delivery], refusal.cause, self.broker.wall_ms)
                self._return(queue, [delivery])

    def roll_back(self, delivery: Delivery) -> None:
        """Take back what a rolled-back transaction had acknowledged: an attempt, which waits where that is set."""
        self.refuse(delivery, ROLLED_BACK_LATER if self.policy_of(delivery).delays_rollback else ROLLED_BACK)

    def consumer_gone(self, consumer: Consumer, is_lost: bool) -> None:
        """Return what a closed consumer held to its place at once; a lost connection may count an attempt."""
        looked_at_tag = consumer.looked_at_tag()
        queue = consumer.queue
        in_flight = [delivery for delivery in consumer.take_held() if delivery.state == IN_FLIGHT]
        queue.in_flight_count -= len(in_flight)
        if queue.selection is not None:
            for delivery in in_flight:
                queue.selection.left(delivery)
        blamed = self._blamed(queue, in_flight, looked_at_tag) if is_lost else []
        gave_sign = consumer.furthest_tag > 0 or consumer.window.limit == 1
        exhausted: list[Delivery] = []
        for delivery in blamed:
            delivery.failed_attempts += 1
            delivery.history = self.history_with(delivery, CAUSE_CONNECTION_LOST)
            if gave_sign and self.policy_of(delivery).is_exhausted(delivery.failed_attempts):
                exhausted.append(delivery)
        dead = set(map(id, exhausted))
        self._log_attempts(consumer, [one for one in blamed if id(one) not in dead], CAUSE_CONNECTION_LOST, 0)
        self._return(queue, [one for one in in_flight if id(one) not in dead])
        for delivery in exhausted:
            self._give_up(delivery, CAUSE_EXHAUSTED, CAUSE_NAMES[CAUSE_CONNECTION_LOST])

    def release_held(self, delivery: Delivery) -> None:
        """Return a delivery that an aborted transaction held after its consumer had closed."""
        queue = delivery.lane.queue
        if queue.selection is not None:
            queue.selection.left(delivery)
        if queue.is_closed:
            self.broker.release(delivery)
        else:
            self._return(queue, [delivery])

    def delayed_of(self, queue: Queue) -> list[Delivery]:
        """Return what waits for its redelivery to a queue, also what is due and whose content is being read."""
        found = [one for _, _, one in self.waiting if one.lane.queue is queue]
        return found + [one for one in self.reloading.values() if one.lane.queue is queue]

    def forget(self, queue: Queue) -> None:
        """Let go of what waits for its redelivery to a queue that has ended."""
        if not queue.delayed_count:
            return
        kept: list[tuple[int, int, Delivery]] = []
        for one in self.waiting:
            if one[2].lane.queue is queue:
                self.broker.release(one[2])
            else:
                kept.append(one)
        for key, delivery in list(self.reloading.items()):
            if delivery.lane.queue is queue:
                self._reloaded(*key)
                self.broker.release(delivery)
        heapify(kept)
        self.waiting = kept
        queue.delayed_count = 0

    def restore_wait(self, delivery: Delivery, due_ms: int) -> None:
        """Let a delivery loaded after a restart wait out the rest of its delay; ``due_ms`` is wall time."""
        delivery.state = DELAYED
        self._arm(delivery, due_ms - self.broker.wall_ms)
        if delivery.lane.queue.selection is not None:
            delivery.lane.queue.selection.delay(delivery)

    def timer_fired(self, key: int) -> None:
        if key != self.armed_ms:
            return
        self.armed_ms = 0
        now_ms = max(key, self.broker.clock.monotonic_ms())
        waiting = self.waiting
        due: dict[Lane, list[Delivery]] = {}
        late: list[Delivery] = []
        while waiting and waiting[0][0] <= now_ms:
            delivery = heappop(waiting)[2]
            if delivery.message.is_hollow():
                if self._has_room_for(delivery):
                    self._reload(delivery)
                else:
                    late.append(delivery)
                continue
            delivery.state = advance(delivery.state, TIMER)
            due.setdefault(delivery.lane, []).append(delivery)
        for delivery in late:
            self._push(delivery, RELOAD_RETRY_MS)
        for lane, deliveries in due.items():
            for delivery in deliveries:
                lane.remove_delayed(delivery.message)
            lane.give_back(deliveries)
            lane.queue.delayed_count -= len(deliveries)
            lane.queue.mark_dirty()
        self._set_timer()

    # -- what waits without its content

    def page_loaded(self, destination_id: int, priority: int, queue_offset: int, messages: list[Message]) -> None:
        """The content of a delivery that is due has been read again."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is None:
            return
        if not messages:
            self._push(delivery, RELOAD_RETRY_MS)
            return
        lane = delivery.lane
        lane.remove_delayed(delivery.message)
        self.broker.memory.unload(delivery.message)
        self.broker.memory.load(messages[0])
        delivery.message = messages[0]
        delivery.state = advance(delivery.state, TIMER)
        lane.give_back([delivery])
        lane.queue.delayed_count -= 1
        lane.queue.mark_dirty()

    def page_failed(self, destination_id: int, priority: int, queue_offset: int) -> None:
        """It could not be read: it is asked for again a little later."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is not None:
            self._push(delivery, RELOAD_RETRY_MS)

    def record_skipped(self, destination_id: int, priority: int, queue_offset: int) -> bool:
        """It is damaged, and the operator asked to go on without it; return whether it was waiting here."""
        delivery = self._reloaded(destination_id, priority, queue_offset)
        if delivery is None:
            return False
        delivery.state = advance(delivery.state, DROP)
        delivery.lane.remove_delayed(delivery.message)
        self.broker.memory.unload(delivery.message)
        delivery.lane.queue.delayed_count -= 1
        return True

    def _reloaded(self, destination_id: int, priority: int, queue_offset: int) -> Delivery | None:
        """Take out the delivery whose content was asked for, None if nobody waits for it any more."""
        delivery = self.reloading.pop((destination_id, priority, queue_offset), None)
        if delivery is not None:
            self.reloading_bytes -= delivery.message.size
        return delivery

    def _has_room_for(self, delivery: Delivery) -> bool:
        """Say whether memory has room for the content of a delivery that is due; the first of a lane always has."""
        memory = self.broker.memory
        if memory.held_bytes() + self.reloading_bytes + delivery.message.size <= memory.keep_bytes:
            return True
        if self.reloading:
            return False
        lane = delivery.lane
        if not lane.returned or delivery.position < lane.returned[0].position:
            return True
        selection = lane.queue.selection  # what has returned may itself wait for this one
        return selection is not None and selection.held_by() == gates.DELAYED

    def _reload(self, delivery: Delivery) -> None:
        message = delivery.message
        self.reloading_bytes += message.size
        queue = delivery.lane.queue
        self.reloading[(queue.destination_id, message.priority, message.queue_offset)] = delivery
        store = self.broker.store
        store.write()  # only what has been written can be read
        store.request(queue.destination_id, message.priority, message.queue_offset, 1, 1, RELOAD_READER)

    # -- the steps

    def _give_up(self, delivery: Delivery, cause: int, words: str) -> None:
        if self.dead_letters.is_last_resort(delivery):
            self._wait(delivery, self._policy_delay_ms(delivery), cause)
        else:
            self.dead_letters.give_up(delivery, cause, words)

    def _policy_delay_ms(self, delivery: Delivery) -> int:
        policy = self.policy_of(delivery)
        return policy.drawn_ms(max(1, delivery.failed_attempts), self._random_unit)

    def leave(self, delivery: Delivery) -> None:
        """Take a delivery out of its consumer's hands."""
        consumer = delivery.consumer
        assert consumer is not None, "a refused delivery is with a consumer"
        consumer.ledger.pop(delivery.tag, None)
        if delivery.tag > consumer.furthest_tag:
            consumer.furthest_tag = delivery.tag
        if delivery.state == IN_FLIGHT:
            self.broker.dispatcher.free_place(consumer, delivery.lane.queue, delivery.message.size)
        else:
            self.broker.dispatcher.free_held_place(consumer, delivery.lane.queue, delivery.message.size)
        delivery.is_redelivered = True
        if delivery.lane.queue.selection is not None:
            delivery.lane.queue.selection.left(delivery)

    def _refuse_shown(self, delivery: Delivery, mode: str) -> None:
        """Take a negative answer to what was only shown: it is shown again at once, or is done with."""
        queue = delivery.lane.queue
        if mode == "requeue":
            self._return(queue, [delivery])
            return
        delivery.state = advance(delivery.state, EXHAUST)
        queue.depth -= 1
        self.broker.release(delivery)

    def _return(self, queue: Queue, deliveries: list[Delivery]) -> None:
        by_lane: dict[int, list[Delivery]] = {}
        for delivery in deliveries:
            delivery.state = advance(delivery.state, RELEASE)
            delivery.is_redelivered = True
            delivery.consumer = None
            queue.redelivered_count += 1
            by_lane.setdefault(delivery.lane.priority, []).append(delivery)
        for priority, returned in by_lane.items():
            queue.lane(priority).give_back(returned)
        queue.mark_dirty()

    def _wait(self, delivery: Delivery, delay_ms: int, cause: int) -> None:
        queue = delivery.lane.queue
        consumer = delivery.consumer
        assert consumer is not None, "a failed delivery was with a consumer"
        self._log_attempts(consumer, [delivery], cause, later_ms(self.broker.wall_ms, delay_ms))
        delivery.state = advance(delivery.state, FAIL)
        if queue.selection is not None:
            queue.selection.delay(delivery, not self.policy_of(delivery).non_blocking_redelivery)
        delivery.consumer = None
        queue.redelivered_count += 1
        self._arm(delivery, delay_ms)

    def _arm(self, delivery: Delivery, delay_ms: int) -> None:
        lane = delivery.lane
        queue = lane.queue
        queue.delayed_count += 1
        lane.add_delayed(delivery.message)
        message = delivery.message
        if (
            (lane.delayed_bytes > KEPT_DELAYED_BYTES or self.broker.memory.is_short())
            and delay_ms >= LONG_DELAY_MS
            and message.queue_offset >= 0
            and queue.is_logged
            and queue.feed is None
        ):
            lane.remove_delayed(message)
            self.broker.memory.unload(message)
            delivery.message = message.twin(message.flags, b"", b"", b"")
            self.broker.memory.load(delivery.message)
            lane.add_delayed(delivery.message)
        self._push(delivery, delay_ms)

    def _push(self, delivery: Delivery, delay_ms: int) -> None:
        number = self.next_number
        self.next_number = number + 1
        due_ms = self.broker.clock.monotonic_ms() + max(0, delay_ms)
        heappush(self.waiting, (due_ms, number, delivery))
        self._set_timer()

    def _set_timer(self) -> None:
        """Set a timer for what is due first, unless one is set for then."""
        if not self.waiting:
            return
        due_ms = self.waiting[0][0]
        if not 0 < self.armed_ms <= due_ms:
            self.armed_ms = due_ms
            self.broker.timers.call_at(due_ms, self, due_ms)

    def _blamed(self, queue: Queue, in_flight: list[Delivery], looked_at_tag: int) -> list[Delivery]:
        blame = queue.settings.blame
        if blame == "none":
            return []
        if blame == "all":
            return in_flight
        return [delivery for delivery in in_flight if delivery.tag <= looked_at_tag]

    def _log_attempts(self, consumer: Consumer, deliveries: list[Delivery], cause: int, due_ms: int) -> None:
        ranges: list[Range] = []
        for delivery in deliveries:
            offset = delivery.message.queue_offset
            if offset < 0 or not delivery.lane.queue.is_logged:
                continue
            priority = delivery.message.priority
            count = min(delivery.failed_attempts, DELIVERY_COUNT_MAX)
            last = ranges[-1] if ranges else None
            if (
                last is not None
                and last.priority == priority
                and last.first + last.count == offset
                and last.delivery_count == count
            ):
                last.count += 1
            else:
                ranges.append(Range(priority, offset, 1, count))
        if ranges:
            record_id = self.broker.record_of(consumer)
            self.broker.store.fail_attempts(consumer.queue.destination_id, record_id, cause, due_ms, ranges)

    def _random_unit(self) -> float:
        """Return the next number in [-1, 1) of a seeded sequence: same seed, same history."""
        self.seed = (self.seed * _MULTIPLIER + _INCREMENT) & _MASK
        return (self.seed >> 11) / float(2**52) - 1.0
