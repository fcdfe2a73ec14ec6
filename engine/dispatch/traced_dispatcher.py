"""The Dispatcher that also reports hand-overs and acknowledgements to a tracer.

A subclass, so that this costs nothing where there is no tracer.  It measures the times of messages as well, because
the dispatcher reports hand-overs to these.
"""

from __future__ import annotations

from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.wakes import Rates
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.message_times import MessageTimes
from engine.dispatch.message_traces import MessageTraces
from engine.dispatch.timed_dispatcher import TimedDispatcher
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.message import Message


class TracedTimes(MessageTimes):
    """The times of messages, and their hand-overs for a tracer."""

    __slots__ = ("traces",)

    def __init__(self, context: Context, traces: MessageTraces) -> None:
        super().__init__(context)
        self.traces = traces

    def hand_over(self, consumer: Consumer, delivery: Delivery, message: Message, tag: int) -> None:
        MessageTimes.hand_over(self, consumer, delivery, message, tag)
        if consumer.is_ruled:
            self.traces.given(consumer, delivery, message, tag)


class TracedDispatcher(TimedDispatcher):
    __slots__ = ("traces",)

    def __init__(
        self,
        context: Context,
        rates: Rates,
        settlements: SettlementLog,
        observers: list[Observer],
        steps: Steps,
        message_times: TracedTimes,
    ) -> None:
        super().__init__(context, rates, settlements, observers, steps, message_times)
        self.traces = message_times.traces

    def acknowledge(self, delivery: Delivery) -> None:
        self.traces.acknowledged(delivery.tag)
        Dispatcher.acknowledge(self, delivery)

    def acknowledge_run(self, priority: int, consumer: Consumer, state: int, run: list[Delivery]) -> None:
        for delivery in run:
            self.traces.acknowledged(delivery.tag)
        TimedDispatcher.acknowledge_run(self, priority, consumer, state, run)

    def settle_automatically(self, delivery: Delivery, consumer: Consumer, queue: Queue) -> None:
        self.traces.acknowledged(self.next_tag)  # that of this hand-over, which needs no tag of its own
        Dispatcher.settle_automatically(self, delivery, consumer, queue)

    def expire(self, delivery: Delivery, queue: Queue) -> None:
        waiting_count = len(self.expired)
        Dispatcher.expire(self, delivery, queue)
        if not queue.feed.is_browser and len(self.expired) == waiting_count:  # dead letters report the others
            self.traces.expired(queue, delivery.message)
