"""Negative answers of clients; what one turn does not finish goes on in the next ones.

One NACK, one AMQP disposition or one rollback may cover as many messages as a client may hold, and each may become one
more message in a dead-letter queue.  A delivery that has to wait is REFUSED, and only this file touches it.  Its place
in the window stays taken, and the consumer gets nothing, until all refused deliveries are back, so nothing overtakes
them.  Until then no confirmation is sent to the connection (``Client.is_refusing``).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer, consumer_of
from engine.consumers.turn_steps import DEAD_LETTER_STEPS, Chore, Steps
from engine.fate.redelivery import Redelivery, runs_of
from engine.values.delivery import IN_FLIGHT, REFUSE, Delivery, Refusal, advance

REFUSAL_STEPS: Final = 10  # for one message that waits or is requeued
TAKEN: Final = advance(IN_FLIGHT, REFUSE)


class Refusing(Chore):
    """All refused deliveries of one client that still wait.

    jobs: in the order of arrival; ``_place``: progress in the first.
    stopped: the consumers that get nothing meanwhile.
    """

    __slots__ = ("jobs", "stopped", "_client", "_under_way", "_redelivery", "_place")

    def __init__(self, client: Client, under_way: dict[int, Refusing], redelivery: Redelivery) -> None:
        self._client = client
        self._under_way = under_way
        client.is_refusing = True
        under_way[client.client_number] = self
        self.jobs: deque[tuple[list[Delivery], Refusal]] = deque()
        self.stopped: dict[int, Consumer] = {}
        self._redelivery = redelivery
        self._place = 0

    def add(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Add refused deliveries behind those that wait already."""
        last: Consumer | None = None
        for delivery in deliveries:
            assert delivery.state == IN_FLIGHT, "a refused delivery was handed over"
            delivery.state = TAKEN
            consumer = consumer_of(delivery)
            consumer.queue.fates.refused_count += 1
            consumer.furthest_tag = max(consumer.furthest_tag, delivery.tag)
            if consumer is not last:
                last = consumer
                self._stop(consumer.lead())
        self.jobs.append((deliveries, refusal))

    def _stop(self, consumer: Consumer) -> None:
        if consumer.consumer_id not in self.stopped:
            self.stopped[consumer.consumer_id] = consumer
            consumer.window.begin_refusing()
            consumer.queue.unlist_consumer(consumer)

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.jobs:
            if steps.left <= least:
                return False
            deliveries, refusal = self.jobs[0]
            first = self._place
            left = steps.left
            while self._place < len(deliveries) and left > least:
                left -= _steps_of(self._redelivery, deliveries[self._place], refusal)
                self._place += 1
            steps.left = left
            part = deliveries[first : self._place]
            _come_back(part)
            self._redelivery.refuse_all(part, refusal)
            if self._place == len(deliveries):
                self.jobs.popleft()
                self._place = 0
        self._client.is_refusing = False
        del self._under_way[self._client.client_number]
        for consumer in self.stopped.values():
            if consumer.window.end_refusing():
                consumer.queue.list_consumer(consumer)
        self._client.refused()
        return True


@dataclass(slots=True, eq=False)
class Refusals:
    """Applies refusals at once if the turn has steps for all of them.  _under_way: other refusals, by client."""

    redelivery: Redelivery
    _steps: Steps
    _under_way: dict[int, Refusing] = field(default_factory=dict)

    def take(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Apply one negative answer of a client to several deliveries."""
        if not deliveries:
            return
        client = consumer_of(deliveries[0]).client
        steps = self._steps
        if client.is_refusing:
            self._under_way[client.client_number].add(deliveries, refusal)
        elif self._has_steps_for(deliveries, refusal):
            self.redelivery.refuse_all(deliveries, refusal)
        else:
            refusing = Refusing(client, self._under_way, self.redelivery)
            refusing.add(deliveries, refusal)
            steps.begin(refusing)

    def _has_steps_for(self, deliveries: list[Delivery], refusal: Refusal) -> bool:
        """Spend the steps for all of them; return False, and spend none, if that is too much for this turn."""
        least = self._steps.left_to_others()
        left = self._steps.left
        if left - len(deliveries) * REFUSAL_STEPS < least:
            return False
        for delivery in deliveries:
            left -= _steps_of(self.redelivery, delivery, refusal)
            if left < least:
                return False
        self._steps.left = left
        return True

    def roll_back(self, deliveries: list[Delivery]) -> None:
        """Take back what a rolled-back transaction had acknowledged: an attempt, with a delay if so configured."""
        for run in runs_of(deliveries):
            self.take(run, self.redelivery.refusal_of_rollback(run[0]))


def _come_back(refused: list[Delivery]) -> None:
    """Count deliveries as no longer refused; messages that waited for the last one of a queue continue."""
    for delivery in refused:
        queue = consumer_of(delivery).queue
        queue.fates.refused_count -= 1
        if queue.fates.refused_count == 0:
            queue.mark_dirty()


def _steps_of(redelivery: Redelivery, delivery: Delivery, refusal: Refusal) -> int:
    return DEAD_LETTER_STEPS if redelivery.dead_letters.gives_up(delivery, refusal) else REFUSAL_STEPS
