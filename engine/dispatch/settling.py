"""Accepts many deliveries at once, so that costs per delivery are paid once per run.

A run belongs to one consumer and one lane.  A cumulative ACK, an AMQP disposition and a COMMIT may cover as many
deliveries as a consumer may hold.
"""

from __future__ import annotations

from engine.backlog.memory import MESSAGE_OVERHEAD_BYTES, MemoryBudget
from engine.consumers.consumer import Consumer
from engine.dispatch.dispatcher import Dispatcher
from engine.values.delivery import ACKNOWLEDGE, HELD, IN_FLIGHT, Delivery, advance


class Settling:
    """``Dispatcher.acknowledge`` for many deliveries."""

    __slots__ = ("_dispatcher", "_memory")

    def __init__(self, dispatcher: Dispatcher, memory: MemoryBudget) -> None:
        self._dispatcher = dispatcher
        self._memory = memory

    def acknowledge(self, deliveries: list[Delivery]) -> None:
        """Settle all of them as accepted, in order."""
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
            assert isinstance(consumer, Consumer), "an acknowledged delivery is with a consumer"
            run = deliveries if end - start == count else deliveries[start:end]
            queue = consumer.queue
            if end - start == 1 or queue.selection is not None or queue.account is not None:
                for one in run:
                    self._dispatcher.acknowledge(one)
            else:
                self._acknowledge_run(lane.priority, consumer, state, run)
            start = end

    def _acknowledge_run(self, priority: int, consumer: Consumer, state: int, run: list[Delivery]) -> None:
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
        if state == IN_FLIGHT or (state == HELD and not queue.settings.prefetch.use_prefetch_extension):
            if consumer.window.give_back_all(sizes):
                queue.list_consumer(consumer)
        else:
            consumer.window.release_held(sizes)
        if not queue.is_logged or min(offsets) < 0:
            self._let_go(consumer, run)
            return
        self._memory.paged_bytes -= sum(sizes) + count * MESSAGE_OVERHEAD_BYTES
        if consumer.batch.add_all(priority, offsets, sizes):
            self._dispatcher.settling.append((consumer.batch, consumer))

    def _let_go(self, consumer: Consumer, run: list[Delivery]) -> None:
        """Do the same if some of them are only in memory."""
        memory = self._memory
        is_logged = consumer.queue.is_logged
        for delivery in run:
            message = delivery.message
            if message.queue_offset < 0 or not is_logged:
                memory.release(message)
                continue
            memory.paged_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
            if consumer.batch.add(message):
                self._dispatcher.settling.append((consumer.batch, consumer))
