"""The Dispatcher that also measures how long messages take to consumers and to acknowledgements.

A subclass, so that this costs next to nothing where nobody asks for it.  Browsers, replays, purges and retries do not
count: they are no consumers.
"""

from __future__ import annotations

from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.consumers.settlement_log import SettlementLog
from engine.consumers.turn_steps import Steps
from engine.consumers.wakes import Rates
from engine.dispatch.dispatcher import Dispatcher
from engine.dispatch.message_selection import Selection
from engine.dispatch.message_times import MessageTimes
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.message import Message


class TimedDispatcher(Dispatcher):
    __slots__ = ("message_times",)

    def __init__(
        self,
        context: Context,
        rates: Rates,
        settlements: SettlementLog,
        observers: list[Observer],
        steps: Steps,
        message_times: MessageTimes,
    ) -> None:
        super().__init__(context, rates, settlements, observers, steps)
        self.message_times = message_times

    def run(self, queue: Queue, selection: Selection | None = None) -> None:
        self.times = None if queue.feed.is_browser else self.message_times
        Dispatcher.run(self, queue, selection)

    def acknowledge_run(self, priority: int, consumer: Consumer, state: int, run: list[Delivery]) -> None:
        if not consumer.queue.feed.is_browser:
            ages = self.message_times.acknowledged
            for delivery in run:
                ages.add(delivery.message.store_time_ms)
        Dispatcher.acknowledge_run(self, priority, consumer, state, run)

    def gone(self, message: Message, consumer: Consumer, queue: Queue) -> None:
        if consumer.is_ruled and not queue.feed.is_browser:
            self.message_times.acknowledged.add(message.store_time_ms)
        Dispatcher.gone(self, message, consumer, queue)
