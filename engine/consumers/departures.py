"""Consumers of a connection or session that has gone: closed some a turn, for it may have had any number of them.

They get nothing more from the first moment on.  What they held goes back to its place when their turn has come, also
some a turn and the first of it first, or when somebody asks for the queue to whom they would be in the way.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.consumers.consumer import Consumer, DepartureBase, consumer_of
from engine.consumers.consumer_owner import ConsumerOwner
from engine.consumers.turn_steps import DEAD_LETTER_STEPS, Steps
from engine.sources.observer import Observers
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import DestinationInUse

if TYPE_CHECKING:
    from engine.consumers.client import Client
    from engine.sources.topics.topic import Topic

CLOSE_STEPS: Final = 12  # of one consumer, or of one temporary destination
SEAT_STEPS: Final = 15  # more of a consumer whose selector has found messages
RECORD_STEPS: Final = 20  # more of a consumer that is blamed: a record tells of it
GIVE_BACK_STEPS: Final = 2  # of a message that a consumer gives back
QUEUE_STEPS: Final = 5  # of one of several queues, for each may be of another queue
HELD_AT_ONCE: Final = 1_024  # messages: who holds more and closes leaves in the turns to come


class Departure(DepartureBase):
    """consumers: to be closed, then temporaries.  client: who has gone, None if only they go."""

    __slots__ = ("departures", "consumers", "temporaries", "client")

    def __init__(
        self,
        departures: Departures,
        consumers: list[Consumer],
        temporaries: list[Queue | Topic],
        client: Client | None,
        is_lost: bool,
    ) -> None:
        self.departures = departures
        self.consumers = deque(consumers)
        self.temporaries = deque(temporaries)
        self.client = client
        super().__init__(is_lost)

    def take(self, consumer: Consumer) -> None:
        """From now on ``consumer`` is leaving."""
        consumer.departure = self
        consumer.is_started = False

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.consumers:
            if steps.left <= least:
                return False
            consumer = self.consumers[0]
            if not consumer.is_closed:
                if self._is_holding(consumer, steps.left - least):
                    count = self._take_steps(consumer, steps, least)
                    if count and self.departures.owner.give_back_some(consumer, count, self.is_lost):
                        continue
                steps.left -= CLOSE_STEPS + GIVE_BACK_STEPS * len(consumer.ledger)
                if consumer.seat is not None:
                    steps.left -= SEAT_STEPS
                self.departures.owner.unsubscribe(consumer, self.is_lost)
            self.consumers.popleft()
        while self.temporaries:
            if steps.left <= least:
                return False
            destination = self.temporaries.popleft()
            if not destination.is_closed:
                steps.left -= CLOSE_STEPS
                self.departures.close_temporary(destination)
        if self.client is not None:
            self.departures.observers.disconnected(self.client)
        return True

    def _is_holding(self, consumer: Consumer, room: int) -> bool:
        """Say whether a consumer gives back some of what it holds before it is closed."""
        siblings = consumer.siblings
        if self.is_lost or (siblings is not None and not siblings.is_closed):
            return bool(consumer.ledger)
        return len(consumer.ledger) * GIVE_BACK_STEPS > room

    def _take_steps(self, consumer: Consumer, steps: Steps, least: int) -> int:
        """Take what it costs to give back some of what a consumer holds; return how many."""
        of_each = GIVE_BACK_STEPS if consumer.siblings is None else QUEUE_STEPS
        left = steps.left - (RECORD_STEPS if self.is_lost else 0)
        count = 0
        for delivery in consumer.ledger.values():
            if delivery.state == IN_FLIGHT:
                count += 1
                left -= of_each
                if self.is_lost and _is_last_attempt(delivery):
                    left -= DEAD_LETTER_STEPS
                if left <= least:
                    break
        steps.left = left
        return count


class Departures:
    """Begins them, and ends them early where they are in somebody's way."""

    __slots__ = ("steps", "destinations", "ends", "observers", "owner")

    def __init__(
        self,
        steps: Steps,
        destinations: Destinations,
        ends: QueueEnds,
        observers: Observers,
        owner: ConsumerOwner,
    ) -> None:
        self.steps = steps
        self.destinations = destinations
        self.ends = ends
        self.observers = observers
        self.owner = owner

    def close(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer whose client stays, now or, if it holds much or refuses much, in the turns to come."""
        if len(consumer.ledger) > HELD_AT_ONCE or consumer.client.is_refusing:
            self.leave([consumer], is_lost)
        else:
            self.owner.unsubscribe(consumer, is_lost)

    def leave(self, consumers: list[Consumer], is_lost: bool = False) -> None:
        """Close consumers whose client stays; it is handed nothing more for them from now on."""
        departure = Departure(self, consumers, [], None, is_lost)
        for consumer in consumers:
            for member in [consumer] if consumer.siblings is None else consumer.siblings.members:
                departure.take(member)
                member.queue.unlist_one(member)
        self.steps.take_up(departure)

    def part(self, consumers: list[Consumer], is_lost: bool) -> None:
        """Close what is left of a subscription to several destinations: its window is shut, and it holds nothing."""
        departure = Departure(self, consumers, [], None, is_lost)
        for consumer in consumers:
            departure.take(consumer)
        self.steps.take_up(departure)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of a client that has gone, then its temporary destinations."""
        client.is_output_full = True  # so nothing more is handed to it, and the dispatcher passes by its consumers
        consumers = list(client.consumers.values())
        temporaries = self.destinations.owned.pop(client.client_number, [])
        departure = Departure(self, consumers, temporaries, client, is_lost)
        for consumer in consumers:
            if consumer.departure is None:
                departure.take(consumer)
        self.steps.take_up(departure)

    def make_way(self, queue: Queue) -> None:
        """Close those that are leaving ``queue`` now."""
        if self.steps.chores:
            for consumer in list(queue.consumers.values()):
                if consumer.departure is not None:
                    self.owner.unsubscribe(consumer, consumer.departure.is_lost)

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        assert destination.owner, f"{destination.uri()} is not temporary"
        if isinstance(destination, Queue):
            self.make_way(destination)
            if destination.consumers:
                raise DestinationInUse(f"{destination.uri()} has {len(destination.consumers)} consumers")
            self.ends.let_go(destination)
        elif destination.subscriptions:
            raise DestinationInUse(f"{destination.uri()} has {len(destination.subscriptions)} subscriptions")
        self.observers.temporary_ending(destination)
        self.destinations.remove(destination)


def _is_last_attempt(delivery: Delivery) -> bool:
    """Say whether one more failure is one too many."""
    consumer = consumer_of(delivery)
    policy = consumer.redelivery or consumer.queue.settings.redelivery
    return policy.is_exhausted(delivery.failed_attempts + 1)
