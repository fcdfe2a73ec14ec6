"""A failed delivery: now, later, or the dead-letter queue.

The delays are config.policies.RedeliveryPolicy's; here is when they apply, who is blamed, and how a message moves.
Source: semantics.md sections 1, 2.5 to 2.7; design.md section 4, "Redelivery" and "Blame".
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from engine.annotations import annotation
from engine.consumer import Consumer
from engine.delivery import DELAYED, EXHAUST, FAIL, IN_FLIGHT, RELEASE, TIMER, Delivery, advance
from engine.destination import QUEUE
from engine.message import DEAD_LETTER, PERSISTENT, PLAIN, Message
from engine.ports import (
    CAUSE_CONNECTION_LOST,
    CAUSE_EXHAUSTED,
    CAUSE_EXPIRED,
    CAUSE_NACK,
    CAUSE_NAMES,
    DEAD_LETTERED,
    DROPPED,
    EXPIRED,
    Range,
    TimerTarget,
)
from engine.queue import Queue

if TYPE_CHECKING:
    from engine.broker import Broker
    from engine.lane import Lane

_MULTIPLIER: Final = 6364136223846793005
_INCREMENT: Final = 1442695040888963407
_MASK: Final = 2**64 - 1


class Redelivery(TimerTarget):
    """Everything that happens to deliveries that were not accepted.

    waiting: a heap of (when it is due, number, delivery).  armed_ms: when the one timer that counts is set to fire,
    0 for none; its key is that time, so that one set before for later is known when it fires.
    """

    __slots__ = ("broker", "waiting", "next_number", "armed_ms", "seed")

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.waiting: list[tuple[int, int, Delivery]] = []
        self.next_number = 1
        self.armed_ms = 0
        self.seed = seed

    def refuse(self, delivery: Delivery) -> None:
        """Take a NACK: as the address says, wait and try again, dead-letter, or go back to the queue at once."""
        queue = delivery.lane.queue
        mode = queue.settings.nack
        consumer = delivery.consumer
        self._leave(delivery)
        if not queue.is_logged and consumer is not None and consumer.is_closed:
            self.broker.memory.release(delivery.message)  # refused in a transaction; the topic subscription has ended
            return
        if mode == "requeue":
            self._return(queue, [delivery])
            return
        delivery.failed_attempts += 1
        if mode == "dead-letter":
            self.dead_letter(delivery, CAUSE_NACK)
        elif queue.settings.redelivery.is_exhausted(delivery.failed_attempts):
            self.dead_letter(delivery, CAUSE_EXHAUSTED)
        else:
            self._wait(delivery)

    def refusal_bytes(self, delivery: Delivery) -> int:
        """Return the octets that ``refuse`` takes in the log at most.

        A dead-letter queue that is new is opened here: its record must not come into the middle of a batch.
        """
        queue = delivery.lane.queue
        store = self.broker.store
        attempts = delivery.failed_attempts + 1
        reserve = store.settlement_bytes(1)
        if queue.settings.nack == "requeue":
            return reserve
        is_last = queue.settings.nack == "dead-letter" or queue.settings.redelivery.is_exhausted(attempts)
        target = self._dead_letter_queue(queue) if is_last else None
        if target is not None:
            text = self._failure(queue, CAUSE_EXHAUSTED, attempts)
            reserve += store.record_bytes(self._moved(delivery, target, text, attempts))
        return reserve

    def consumer_gone(self, consumer: Consumer, is_lost: bool) -> None:
        """Return what a closed consumer held to its place at once; a lost connection may count an attempt."""
        held = list(consumer.ledger.values())
        consumer.ledger.clear()
        queue = consumer.queue
        in_flight = [delivery for delivery in held if delivery.state == IN_FLIGHT]
        queue.in_flight_count -= len(in_flight)
        blamed = self._blamed(consumer, in_flight) if is_lost else []
        gave_sign = consumer.furthest_tag > 0 or consumer.window.limit == 1
        exhausted: list[Delivery] = []
        for delivery in blamed:
            delivery.failed_attempts += 1
            if gave_sign and queue.settings.redelivery.is_exhausted(delivery.failed_attempts):
                exhausted.append(delivery)
        dead = set(map(id, exhausted))
        self._log_attempts(consumer, [one for one in blamed if id(one) not in dead], CAUSE_CONNECTION_LOST, 0)
        self._return(queue, [one for one in in_flight if id(one) not in dead])
        for delivery in exhausted:
            self.dead_letter(delivery, CAUSE_EXHAUSTED)

    def release_held(self, delivery: Delivery) -> None:
        """Return a delivery that an aborted transaction held after its consumer had closed."""
        queue = delivery.lane.queue
        if queue.is_logged:
            self._return(queue, [delivery])
        else:
            self.broker.memory.release(delivery.message)  # its topic subscription has ended

    def forget(self, queue: Queue) -> None:
        """Let go of what waits for a topic subscription that has ended."""
        if not queue.delayed_count:
            return
        kept: list[tuple[int, int, Delivery]] = []
        for one in self.waiting:
            if one[2].lane.queue is queue:
                self.broker.memory.release(one[2].message)
            else:
                kept.append(one)
        heapify(kept)
        self.waiting = kept
        queue.delayed_count = 0

    def dead_letter(self, delivery: Delivery, cause: int) -> None:
        """Move the message to the dead-letter queue; drop it, counted, where the address has none.

        A message that fails on the dead-letter queue itself stays there and waits: it has nowhere else to go, and
        nothing confirmed may be lost (ActiveMQ drops it).
        """
        queue = delivery.lane.queue
        address = queue.settings.dead_letter_address
        if address == queue.name and queue.kind == QUEUE:
            self._wait(delivery)
            return
        queue.dead_lettered_count += 1
        delivery.state = advance(delivery.state, EXHAUST)
        text = self._failure(queue, cause, delivery.failed_attempts)
        self._move(delivery, address, cause, text, DEAD_LETTERED if address is not None else DROPPED)

    def expire(self, delivery: Delivery) -> None:
        """Move an expired message to the expiry address; only called where there is one."""
        queue = delivery.lane.queue
        text = f"Message Expired. Expiration:{delivery.message.expires_ms}"
        self._move(delivery, queue.settings.expiry_address, CAUSE_EXPIRED, text, EXPIRED)

    def restore_wait(self, delivery: Delivery, due_ms: int) -> None:
        """Let a delivery loaded after a restart wait out the rest of its delay; ``due_ms`` is wall time."""
        delivery.state = DELAYED
        self._arm(delivery, due_ms - self.broker.wall_ms)

    def timer_fired(self, key: int) -> None:
        if key != self.armed_ms:
            return
        self.armed_ms = 0
        now_ms = max(key, self.broker.clock.monotonic_ms())
        waiting = self.waiting
        due: dict[Lane, list[Delivery]] = {}
        while waiting and waiting[0][0] <= now_ms:
            delivery = heappop(waiting)[2]
            delivery.state = advance(delivery.state, TIMER)
            due.setdefault(delivery.lane, []).append(delivery)
        for lane, deliveries in due.items():
            for delivery in deliveries:
                lane.remove_delayed(delivery.message)
            lane.give_back(deliveries)
            lane.queue.delayed_count -= len(deliveries)
            lane.queue.mark_dirty()
        self._set_timer()

    # -- the steps

    def _dead_letter_queue(self, queue: Queue) -> Queue | None:
        """Return where what ``queue`` gives up goes, made at its first mention; None if it is dropped, or stays."""
        address = queue.settings.dead_letter_address
        if address is None or (address == queue.name and queue.kind == QUEUE):
            return None
        return self.broker.destinations.own_queue(address)

    def _failure(self, queue: Queue, cause: int, attempts: int) -> str:
        """Return in words why a message is given up."""
        text = f"{CAUSE_NAMES[cause]}: delivery {attempts} failed"
        if cause != CAUSE_EXHAUSTED:
            return text
        return f"{text}, the redelivery policy allows {queue.settings.redelivery.maximum_redeliveries} redeliveries"

    def _leave(self, delivery: Delivery) -> None:
        """Take a delivery out of its consumer's hands."""
        consumer = delivery.consumer
        assert consumer is not None, "a refused delivery is with a consumer"
        consumer.ledger.pop(delivery.tag, None)
        if delivery.tag > consumer.furthest_tag:
            consumer.furthest_tag = delivery.tag
        if delivery.state == IN_FLIGHT:
            self.broker.dispatcher.free_place(consumer, delivery.lane.queue)
        delivery.is_redelivered = True

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

    def _wait(self, delivery: Delivery) -> None:
        queue = delivery.lane.queue
        policy = queue.settings.redelivery
        consumer = delivery.consumer
        assert consumer is not None, "a failed delivery was with a consumer"
        delay_ms = policy.jittered_ms(policy.delay_ms(max(1, delivery.failed_attempts)), self._random_unit())
        due_ms = self.broker.wall_ms + delay_ms
        self._log_attempts(consumer, [delivery], CAUSE_NACK, due_ms)
        delivery.state = advance(delivery.state, FAIL)
        delivery.consumer = None
        queue.redelivered_count += 1
        self._arm(delivery, delay_ms)

    def _arm(self, delivery: Delivery, delay_ms: int) -> None:
        delivery.lane.queue.delayed_count += 1
        delivery.lane.add_delayed(delivery.message)
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

    def _blamed(self, consumer: Consumer, in_flight: list[Delivery]) -> list[Delivery]:
        blame = consumer.queue.settings.blame
        if blame == "none":
            return []
        if blame == "all":
            return in_flight
        blamed: list[Delivery] = []
        for delivery in in_flight:
            blamed.append(delivery)
            if delivery.tag > consumer.furthest_tag:
                break
        return blamed

    def _log_attempts(self, consumer: Consumer, deliveries: list[Delivery], cause: int, due_ms: int) -> None:
        ranges: list[Range] = []
        for delivery in deliveries:
            offset = delivery.message.queue_offset
            if offset < 0 or not delivery.lane.queue.is_logged:
                continue
            priority = delivery.message.priority
            count = min(delivery.failed_attempts, 65_535)
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

    def _move(self, delivery: Delivery, address: str | None, cause: int, text: str, outcome: int) -> None:
        """Append the message to ``address`` and settle it where it was, both or neither."""
        broker = self.broker
        queue = delivery.lane.queue
        message = delivery.message
        is_stored = queue.is_logged and message.queue_offset >= 0
        moved: Message | None = None
        # Records of their own, before the batch: a client's description may be longer than any room kept for it.
        record_id = 0 if delivery.consumer is None or not is_stored else broker.record_of(delivery.consumer)
        reserve = broker.store.settlement_bytes(1)
        target = None if address is None else broker.destinations.own_queue(address)
        if target is not None:
            moved = self._moved(delivery, target, text, delivery.failed_attempts)
            reserve += broker.store.record_bytes(moved)
        broker.begin_batch(reserve)
        if moved is not None:
            broker.store.append(moved)
        if is_stored:
            ranges = [Range(message.priority, message.queue_offset, 1, min(delivery.failed_attempts, 65_535))]
            broker.store.settle(queue.destination_id, record_id, outcome, cause, ranges)
        broker.commit_batch()
        queue.depth -= 1
        if not is_stored:
            broker.memory.release(message)
        if target is not None and moved is not None:
            target.enqueue(moved)
            target.mark_dirty()

    def _moved(self, delivery: Delivery, target: Queue, text: str, attempts: int) -> Message:
        """Return the new message: persistent, without expiry, with its origin and history in annotations."""
        message = delivery.message
        origin = delivery.lane.queue
        prefix = "/topic/" if origin.kind != QUEUE else "/queue/"
        lines = [
            annotation("original-destination", prefix + origin.name),
            annotation("dlqDeliveryFailureCause", text),
            annotation("originalMessageId", self.broker.message_id(message)),
            annotation("originalDeliveryCount", str(attempts)),
        ]
        if message.expires_ms:
            lines.append(annotation("originalExpiration", str(message.expires_ms)))
        if not message.flags & PERSISTENT:
            lines.append(annotation("originalDeliveryMode", "NON_PERSISTENT"))
        return Message(
            target.destination_id,
            message.encoding,
            (message.flags | PERSISTENT | DEAD_LETTER) & ~PLAIN,
            message.priority,
            message.tag_hash,
            message.group_hash,
            0,
            b"".join(lines) + message.annotations,
            message.headers,
            message.body,
        )

    def _random_unit(self) -> float:
        """Return the next number in [-1, 1) of a seeded sequence: same seed, same history."""
        self.seed = (self.seed * _MULTIPLIER + _INCREMENT) & _MASK
        return (self.seed >> 11) / float(2**52) - 1.0
