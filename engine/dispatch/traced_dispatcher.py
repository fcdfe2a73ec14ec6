"""The Dispatcher that also reports hand-overs and acknowledgements to a tracer.

A subclass, so that this costs nothing where there is no tracer.
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


class TracedDispatcher(TimedDispatcher):
    __slots__ = ("message_traces",)

    def __init__(
        self,
        context: Context,
        rates: Rates,
        settlements: SettlementLog,
        observers: list[Observer],
        steps: Steps,
        message_times: MessageTimes,
        traces: MessageTraces,
    ) -> None:
        super().__init__(context, rates, settlements, observers, steps, message_times)
        self.message_traces = self.traces = traces

    def acknowledge(self, delivery: Delivery) -> None:
        self.message_traces.acknowledged(delivery.tag)
        Dispatcher.acknowledge(self, delivery)

    def acknowledge_run(self, priority: int, consumer: Consumer, state: int, run: list[Delivery]) -> None:
        for delivery in run:
            self.message_traces.acknowledged(delivery.tag)
        TimedDispatcher.acknowledge_run(self, priority, consumer, state, run)

    def settle_automatically(self, delivery: Delivery, consumer: Consumer, queue: Queue) -> None:
        self.message_traces.acknowledged(self.next_tag)  # that of this hand-over, which needs no tag of its own
        Dispatcher.settle_automatically(self, delivery, consumer, queue)

    def expire(self, delivery: Delivery, queue: Queue) -> None:
        waiting_count = len(self.expired)
        Dispatcher.expire(self, delivery, queue)
        if not queue.feed.is_browser and len(self.expired) == waiting_count:  # dead letters report the others
            self.message_traces.expired(queue, delivery.message)
