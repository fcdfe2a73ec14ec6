"""Consumers of a connection or session that has gone: closed some a turn, for it may have had any number of them.

They get nothing more from the first moment on.  What they held goes back to its place when their turn has come, also
some a turn and the first of it first, or when somebody asks for the queue to whom they would be in the way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.consumers.steps import CHORE_STEPS, Chore, Steps

if TYPE_CHECKING:
    from engine.broker import Broker
    from engine.consumers.consumer import Consumer
    from engine.ports.client import Client
    from engine.sources.queue import Queue
    from engine.sources.topic import Topic
    from engine.values.delivery import Delivery

CLOSE_STEPS: Final = 10  # of one consumer, or of one temporary destination
SEAT_STEPS: Final = 15  # more of a consumer whose selector has found messages
# A message that a consumer gives back is a step; one of several queues so many, for each may be of another queue.
QUEUE_STEPS: Final = 5
HELD_AT_ONCE: Final = 1_024  # messages: who holds more and closes leaves in the turns to come


class Departure(Chore):
    """consumers: to be closed, then temporaries.  client: who has gone, None if only they go."""

    __slots__ = ("broker", "consumers", "temporaries", "client", "is_lost")

    def __init__(
        self,
        broker: Broker,
        consumers: list[Consumer],
        temporaries: list[Queue | Topic],
        client: Client | None,
        is_lost: bool,
    ) -> None:
        self.broker = broker
        self.consumers = deque(consumers)
        self.temporaries = deque(temporaries)
        self.client = client
        self.is_lost = is_lost

    def take(self, consumer: Consumer) -> None:
        """From now on ``consumer`` is leaving."""
        consumer.departure = self
        consumer.is_started = False

    def go_on(self, steps: Steps) -> bool:
        least = max(0, steps.left - CHORE_STEPS)
        while self.consumers:
            if steps.left <= least:
                return False
            consumer = self.consumers[0]
            if not consumer.is_closed:
                if self._is_holding(consumer, steps.left - least):
                    count = max(1, (steps.left - least) // (1 if consumer.siblings is None else QUEUE_STEPS))
                    steps.left = least
                    if self.broker.subscribing.give_back_some(consumer, count, self.is_lost):
                        return False
                steps.left -= CLOSE_STEPS + len(consumer.ledger)
                if consumer.seat is not None:
                    steps.left -= SEAT_STEPS
                self.broker.subscribing.unsubscribe(consumer, self.is_lost)
            self.consumers.popleft()
        while self.temporaries:
            if steps.left <= least:
                return False
            destination = self.temporaries.popleft()
            if not destination.is_closed:
                steps.left -= CLOSE_STEPS
                self.broker.close_temporary(destination)
        if self.client is not None:
            self.broker.advisories.disconnected(self.client)
        return True

    def _is_holding(self, consumer: Consumer, room: int) -> bool:
        """Say whether a consumer gives back some of what it holds before it is closed."""
        siblings = consumer.siblings
        if siblings is not None and not siblings.is_closed:
            return bool(consumer.ledger)
        return len(consumer.ledger) > room


class QueueRemains(Chore):
    """What waited in a queue that has ended: it leaves the memory budget."""

    __slots__ = ("broker", "deliveries")

    def __init__(self, broker: Broker, deliveries: list[Delivery]) -> None:
        self.broker = broker
        self.deliveries = deliveries

    def go_on(self, steps: Steps) -> bool:
        deliveries = self.deliveries
        count = min(len(deliveries), max(1, min(steps.left, CHORE_STEPS)))
        steps.left -= count
        for _ in range(count):
            self.broker.release(deliveries.pop())
        return not deliveries


class Departures:
    """Begins them, and ends them early where they are in somebody's way."""

    __slots__ = ("broker", "steps")

    def __init__(self, broker: Broker, steps: Steps) -> None:
        self.broker = broker
        self.steps = steps

    def leave(self, consumers: list[Consumer], is_lost: bool = False) -> None:
        """Close consumers whose client stays; it is handed nothing more for them from now on."""
        departure = Departure(self.broker, consumers, [], None, is_lost)
        for consumer in consumers:
            for member in [consumer] if consumer.siblings is None else consumer.siblings.members:
                departure.take(member)
                member.queue.unlist_one(member)
        self._begin(departure)

    def part(self, consumers: list[Consumer], is_lost: bool) -> None:
        """Close what is left of a subscription to several destinations: its window is shut, and it holds nothing."""
        departure = Departure(self.broker, consumers, [], None, is_lost)
        for consumer in consumers:
            departure.take(consumer)
        self._begin(departure)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of a client that has gone, then its temporary destinations."""
        client.is_output_full = True  # so nothing more is handed to it, and the dispatcher passes by its consumers
        consumers = list(client.consumers.values())
        temporaries = self.broker.destinations.owned.pop(client.client_number, [])
        departure = Departure(self.broker, consumers, temporaries, client, is_lost)
        for consumer in consumers:
            if consumer.departure is None:
                departure.take(consumer)
        self._begin(departure)

    def make_way(self, queue: Queue) -> None:
        """Close those that are leaving ``queue`` now."""
        if self.steps.chores:
            for consumer in list(queue.consumers.values()):
                if consumer.departure is not None:
                    self.broker.subscribing.unsubscribe(consumer, consumer.departure.is_lost)

    def let_go(self, deliveries: list[Delivery]) -> None:
        """Let go of what waited in a queue that has ended."""
        if deliveries:
            self._begin(QueueRemains(self.broker, deliveries))

    def _begin(self, chore: Chore) -> None:
        if not chore.go_on(self.steps):
            self.steps.begin(chore)
            self.steps.need_a_turn()
