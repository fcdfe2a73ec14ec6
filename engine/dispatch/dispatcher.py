"""Hands the messages of a queue to consumers with open windows, and settles what they acknowledge.

The next consumer is the first of the queue's ``rotation``.  Equal consumers take turns there, and each gets the next
message.  If consumers differ, priority_and_exclusive.py orders them; message_selection.py finds the message for each.
"""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.backlog.lane import lane_of
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.consumers.consumer import AUTO, Consumer
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.wakes import Rates
from engine.dispatch.message_selection import Selection, selection_of
from engine.dispatch.message_times import MessageTimes
from engine.dispatch.message_traces import MessageTraces
from engine.dispatch.page_requests import PageRequests
from engine.dispatch.unwritten_queues import UnwrittenQueues
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.values import gates
from engine.values.delivery import ACKNOWLEDGE, DISPATCH, ENLISTED, EXPIRE, IN_FLIGHT, READY, Delivery, advance
from engine.values.destination import QUEUE
from engine.values.message import Message

# The transitions of nearly every delivery, looked up once.
DISPATCHED: Final = advance(READY, DISPATCH)
ACKNOWLEDGED: Final = advance(IN_FLIGHT, ACKNOWLEDGE)
EXPIRE_STEPS: Final = 2  # for an expired message; sending it to another queue costs more


class Dispatcher:
    """Moves deliveries from READY to IN_FLIGHT, and from IN_FLIGHT to GONE when they are acknowledged.

    settling: batches to flush.  next_tag: number of the next hand-over.
    written_offset: messages from here on are not handed over yet.  A delivery may be sent before the sync, but never
    before the write: otherwise a crash could give its log offset, and so its id, to another message.
    expired: those that leave at the turn's end.  expiry_listeners: subscriptions to advisories about expired messages.
    times, traces: who is told of hand-overs to consumers; None where nobody asks for it.
    """

    __slots__ = (
        "context",
        "store",
        "memory",
        "settling",
        "next_tag",
        "written_offset",
        "unwritten",
        "pages",
        "expired",
        "expiry_listeners",
        "rates",
        "observers",
        "steps",
        "times",
        "traces",
    )

    def __init__(
        self, context: Context, rates: Rates, settlements: SettlementLog, observers: list[Observer], steps: Steps
    ) -> None:
        self.context = context
        self.store = context.store
        self.memory = context.memory
        self.settling = settlements.waiting
        self.next_tag = 1
        self.written_offset = context.store.written_offset()
        self.unwritten = UnwrittenQueues(context, steps)
        self.pages = PageRequests(context.store, context.memory, steps)
        self.expired: list[Delivery] = []
        self.expiry_listeners = 0
        self.rates = rates
        self.observers = observers
        self.steps = steps
        self.times: MessageTimes | None = None
        self.traces: MessageTraces | None = None

    def run(self, queue: Queue, selection: Selection | None = None) -> None:
        """Hand over until no consumer can take more, or nothing is left for those that could.  selection: the queue's.

        Without a Selection each consumer in turn takes the next message of the highest priority (``mask`` has a bit for
        each priority with messages in memory).  That case is written out here because nearly every message takes this
        path.  With one, ``pay_owed`` wakes the consumers that may find something.  Afterwards pages are requested if
        memory ran low.
        """
        rotation = queue.rotation
        shares_windows = queue.extras.has_siblings or selection is not None
        # Most hand-overs have neither: one check for both.
        times = self.times
        extra: Selection | MessageTimes | None = selection if selection is not None else times
        while (selection is None and rotation and queue.mask) or (
            selection is not None and (rotation or selection.turns.pay_owed())
        ):
            consumer = rotation[0]
            # What another queue has handed over may have filled it.
            if consumer.outlet.is_output_full or (shares_windows and consumer.window.is_full):
                self._stand_aside(consumer, queue)
                continue
            if selection is None:
                lane = queue.lanes[queue.mask.bit_length() - 1]
                assert lane is not None, "the mask names an existing lane"
                delivery = lane.next_ready()
            else:
                delivery = selection.next_in_turn(consumer)
            if delivery is None:
                if selection is not None and selection.index.budget <= 0:
                    break
                continue
            message = delivery.message
            if message.expires_ms and message.expires_ms <= self.context.wall_ms:
                if selection is not None:
                    lane_of(delivery).take(delivery)
                self.expire(delivery, queue)
                if self.steps.left <= 0:
                    self.steps.postpone(queue)
                    break
                continue
            if message.log_offset >= self.written_offset and not self.write_up_to(message.log_offset):
                if selection is None:
                    lane_of(delivery).give_back([delivery])
                self.unwritten.wait(queue)
                break
            if message.size > consumer.window.counted_above and not consumer.window.admits(
                message, consumer.ack_mode == AUTO, self.rates.clock
            ):
                self._wait_for_limit(consumer)
                if selection is None:
                    lane_of(delivery).give_back([delivery])
                self._stand_aside(consumer, queue)
                continue
            tag = self.next_tag
            if extra is not None:
                if selection is not None:
                    message = selection.take(consumer, delivery, tag)
                    if queue.extras.is_watched:
                        for observer in self.observers:
                            observer.handed_over(queue, message)
                if times is not None and consumer.is_ruled:
                    if not delivery.is_redelivered:
                        times.handed_over.add(message.store_time_ms)
                    if self.traces is not None:
                        self.traces.given(consumer, delivery, message, tag)
            delivery.consumer = consumer
            delivery.state = DISPATCHED
            queue.delivered_count += 1
            if consumer.ack_mode == AUTO:
                count = delivery.failed_attempts + 1
                consumer.client.deliver_settled(consumer, message, delivery.is_redelivered, count)
                self.settle_automatically(delivery, consumer, queue)
                if selection is not None and queue.extras.is_watched:
                    for observer in self.observers:
                        observer.consumed(queue, message)
            else:
                self.next_tag = tag + 1
                delivery.tag = tag
                consumer.ledger[tag] = delivery
                queue.in_flight_count += 1
                consumer.client.deliver(consumer, delivery)
                if consumer.window.take():
                    if shares_windows:
                        self._stand_aside(consumer, queue)
                    else:
                        consumer.is_listed = False
                        rotation.popleft()
                    continue
            if selection is not None:
                selection.turns.next_turn()
            elif len(rotation) > 1:
                rotation.rotate(-1)
        if selection is None and queue.consumers:
            self.pages.ask(queue)

    def _stand_aside(self, consumer: Consumer, queue: Queue) -> None:
        """Let the consumer in turn, which can take nothing more, wait until it can."""
        selection = selection_of(queue)
        if selection is None:
            consumer.is_listed = False
            queue.rotation.popleft()
        else:
            selection.turns.leave(consumer)
        queue.rest(consumer)

    def _wait_for_limit(self, consumer: Consumer) -> None:
        """Have a consumer whose window has refused a message try again once a second begins, or memory is free."""
        window = consumer.window
        bucket = window.limits.bucket
        memory = window.limits.memory
        if window.gate == gates.RATE and bucket is not None:
            self.rates.wait(consumer, bucket.refill_ms)
        elif window.gate == gates.MEMORY and memory is not None:
            memory.wait(consumer)

    def write_up_to(self, log_offset: int) -> bool:
        """Have the batch written before its first message is handed over; say whether it was."""
        store = self.store
        if store.written_offset() <= log_offset:
            store.write()
        self.written_offset = store.written_offset()
        return self.written_offset > log_offset

    def settle_automatically(self, delivery: Delivery, consumer: Consumer, queue: Queue) -> None:
        """Count a delivery as acknowledged on hand-over; it never took a place in the window."""
        delivery.state = advance(delivery.state, ACKNOWLEDGE)
        consumer.acknowledged_count += 1
        self.gone(delivery.message, consumer, queue)

    def acknowledge(self, delivery: Delivery) -> None:
        """Settle a delivery as accepted, and free its place in the window unless a transaction freed it before."""
        consumer = delivery.consumer
        assert isinstance(consumer, Consumer), "an acknowledged delivery is with a consumer"
        tag = delivery.tag
        consumer.ledger.pop(tag, None)
        if tag > consumer.furthest_tag:
            consumer.furthest_tag = tag
        consumer.acknowledged_count += 1
        queue = consumer.queue
        message = delivery.message
        if delivery.state == IN_FLIGHT:
            delivery.state = ACKNOWLEDGED
            queue.in_flight_count -= 1
            if consumer.window.give_back(message.size):
                if consumer.siblings is None:
                    queue.list_one(consumer)
                else:
                    queue.list_consumer(consumer)
        else:
            delivery.state = advance(delivery.state, ACKNOWLEDGE)
            queue.fates.enlisted_count -= 1
            self.free_held_place(consumer, queue, message.size)
        if queue.selection is not None:
            queue.selection.left(delivery)
            if queue.extras.is_watched:
                for observer in self.observers:
                    observer.consumed(queue, message)
            message = delivery.message  # no longer marked
        self.gone(message, consumer, queue)

    def acknowledge_all(self, deliveries: list[Delivery]) -> None:
        """Settle all of them as accepted, in order; costs of one delivery are paid once for a run.

        A run belongs to one consumer and one lane.  A cumulative ACK, an AMQP disposition and a COMMIT may cover as
        many deliveries as a consumer may hold.
        """
        start = 0
        count = len(deliveries)
        while start < count:
            first = deliveries[start]
            lane = first.lane
            consumer = first.consumer
            state = first.state
            end = start + 1
            while end < count:
                one = deliveries[end]
                if one.lane is not lane or one.consumer is not consumer or one.state != state:
                    break
                end += 1
            if end - start == 1:
                self.acknowledge(first)
            else:
                assert isinstance(consumer, Consumer), "an acknowledged delivery is with a consumer"
                run = deliveries if end - start == count else deliveries[start:end]
                queue = consumer.queue
                if queue.selection is not None or queue.account is not None:
                    for one in run:
                        self.acknowledge(one)
                else:
                    self.acknowledge_run(lane.priority, consumer, state, run)
            start = end

    def acknowledge_run(self, priority: int, consumer: Consumer, state: int, run: list[Delivery]) -> None:
        queue = consumer.queue
        count = len(run)
        ledger = consumer.ledger
        gone = advance(state, ACKNOWLEDGE)
        furthest_tag = consumer.furthest_tag
        sizes: list[int] = []
        offsets: list[int] = []
        for delivery in run:
            tag = delivery.tag
            if tag > furthest_tag:
                furthest_tag = tag
            ledger.pop(tag, None)
            delivery.state = gone
            message = delivery.message
            sizes.append(message.size)
            offsets.append(message.queue_offset)
        consumer.furthest_tag = furthest_tag
        consumer.acknowledged_count += count
        queue.depth -= count
        queue.acknowledged_count += count
        if state == IN_FLIGHT:
            queue.in_flight_count -= count
        else:
            queue.fates.enlisted_count -= count
        if state == IN_FLIGHT or (state == ENLISTED and not queue.settings.prefetch.use_prefetch_extension):
            if consumer.window.give_back_all(sizes):
                queue.list_consumer(consumer)
        else:
            consumer.window.limits.release_enlisted(sizes)
        if not queue.is_logged or min(offsets) < 0:
            self._gone_in_memory(consumer, run)
            return
        self.memory.paged_bytes -= sum(sizes) + count * MESSAGE_OVERHEAD_BYTES
        if consumer.batch.add_all(priority, offsets, sizes):
            self.settling.append((consumer.batch, consumer))

    def _gone_in_memory(self, consumer: Consumer, run: list[Delivery]) -> None:
        """Do the same if some of them are only in memory."""
        memory = self.memory
        is_logged = consumer.queue.is_logged
        for delivery in run:
            message = delivery.message
            if message.queue_offset < 0 or not is_logged:
                memory.release(message)
                continue
            memory.paged_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
            if consumer.batch.add(message):
                self.settling.append((consumer.batch, consumer))

    def free_held_place(self, consumer: Consumer, queue: Queue, size_bytes: int) -> None:
        """Free the place of a delivery in a transaction that kept it (use-prefetch-extension: false)."""
        if queue.settings.prefetch.use_prefetch_extension:
            consumer.window.limits.enlist(size_bytes, False)
        elif consumer.window.give_back(size_bytes):
            queue.list_consumer(consumer)

    def gone(self, message: Message, consumer: Consumer, queue: Queue) -> None:
        queue.depth -= 1
        queue.acknowledged_count += 1
        if message.queue_offset >= 0 and queue.is_logged:
            self.memory.paged_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
            if queue.account is not None:
                queue.account.leave(message.size)
            if consumer.batch.add(message):
                self.settling.append((consumer.batch, consumer))
        else:
            self.memory.release(message)

    def is_missed(self, queue: Queue) -> bool:
        """Say whether somebody must be given, or told of, the messages that expire in a queue."""
        place = queue.settings.expiry_destination(queue.kind != QUEUE, queue.name, queue.feed.subscriber)
        return self.expiry_listeners > 0 or place is not None

    def expire(self, delivery: Delivery, queue: Queue) -> None:
        """Settle an expired delivery; ``expired`` keeps one that moves or is reported until the turn's end."""
        delivery.state = advance(delivery.state, EXPIRE)
        self.steps.left -= EXPIRE_STEPS
        queue.fates.expired_count += 1
        if queue.feed.is_browser:  # the message itself expires in its own queue
            queue.depth -= 1
            self.memory.release(delivery.message)
            return
        if self.is_missed(queue):
            self.expired.append(delivery)
            self.context.agenda.is_open = True
            return
        queue.depth -= 1
        message = delivery.message
        if message.queue_offset >= 0 and queue.is_logged:
            self.memory.paged_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
            if queue.account is not None:
                queue.account.leave(message.size)
            if queue.fates.expired_batch.add(message):
                self.settling.append((queue.fates.expired_batch, None))
        else:
            self.memory.release(message)
