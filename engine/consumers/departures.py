"""Closes what a connection or session that has gone leaves behind: its consumers, then its temporary destinations.

There may be any number of them, so each turn closes some.

They get nothing more from the first moment on.  When their turn has come, what they held returns to its place, also
some in each turn and the first of it first.  It returns earlier if a client that asks for the queue would find them in
the way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from engine.consumers.client import Client, DepartureBase
from engine.consumers.composite_consumer import ConsumerOwner
from engine.consumers.consumer import Consumer, consumer_of
from engine.consumers.turn_steps import DEAD_LETTER_STEPS, NOBODY, Steps
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.queue_ends import QueueEnds
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.errors import DestinationInUse

CLOSE_STEPS: Final = 12  # for one consumer, or for one temporary destination
FEW_IN_WAY: Final = 20  # leaving consumers of one queue that are closed at once whatever the turn has taken
WAY_STEPS: Final = 200 * CLOSE_STEPS  # taken beyond a turn's, so that leaving consumers are not in a client's way
SEAT_STEPS: Final = 15  # more for a consumer whose selector has found messages
RECORD_STEPS: Final = 20  # more for a consumer that is blamed: a record is written
GIVE_BACK_STEPS: Final = 2  # for a message that a consumer returns
QUEUE_STEPS: Final = 5  # the same with siblings, as each message may be of another queue
HELD_AT_ONCE: Final = 1_024  # messages: a consumer that holds more is closed over several turns


class Departure(DepartureBase):
    """consumers: to be closed first, then temporaries.  client: the client that has gone, None if it stays."""

    __slots__ = ("departures", "consumers", "temporaries", "client")

    def __init__(
        self,
        departures: Departures,
        consumers: Iterable[Consumer],
        temporaries: list[Queue | Topic],
        client: Client | None,
        is_lost: bool,
    ) -> None:
        self.departures = departures
        self.consumers = deque(consumers)
        self.temporaries = deque(temporaries)
        self.client = client
        super().__init__(is_lost)

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.consumers:
            if steps.left <= least:
                return False
            consumer = self.consumers[0]
            if not consumer.is_closed:
                is_lost = _is_lost(consumer)
                if _is_holding(consumer, is_lost, steps.left - least):
                    count = _take_steps(consumer, is_lost, steps, least)
                    if count and self.departures.owner.give_back_some(consumer, count, is_lost):
                        continue
                steps.left -= _close_steps(consumer)
                self.departures.owner.unsubscribe(consumer, is_lost)
            self.consumers.popleft()
        while self.temporaries:
            if steps.left <= least:
                return False
            destination = self.temporaries.popleft()
            if not destination.is_closed:
                steps.left -= CLOSE_STEPS
                self.departures.close_temporary(destination)
        if self.client is not None:
            for observer in self.departures.observers:
                observer.disconnected(self.client)
            self.client = None
        return True


@dataclass(slots=True, eq=False)
class Departures:
    """Starts departures, and completes them early if they are in the way."""

    steps: Steps
    destinations: Destinations
    ends: QueueEnds
    observers: list[Observer]
    owner: ConsumerOwner

    def close(self, consumer: Consumer, is_lost: bool) -> None:
        """Close a consumer whose client stays, now or in later turns if it holds or refuses many messages."""
        if consumer.departing() is not None:
            return
        if len(consumer.ledger) > HELD_AT_ONCE or consumer.client.is_refusing:
            self.leave([consumer], is_lost)
        else:
            self.owner.unsubscribe(consumer, is_lost)

    def leave(self, consumers: list[Consumer], is_lost: bool = False) -> None:
        """Close consumers whose client stays; they get nothing more from now on.

        consumers: of a subscription to several destinations, its lead.
        """
        departure = Departure(self, [], [], None, is_lost)
        for consumer in consumers:
            if consumer.departing() is None:
                consumer.departure = departure
                consumer.is_started = False
                consumer.queue.unlist_one(consumer)
                if consumer.siblings is None:
                    departure.consumers.append(consumer)
                else:
                    consumer.window.close()
                    departure.consumers += consumer.siblings.members
        self.steps.take_up(departure, consumers[0].client.client_number if consumers else NOBODY)

    def part(self, lead: Consumer, members: list[Consumer], is_lost: bool) -> None:
        """Close the rest of a subscription to several destinations, whose window is shut and which holds nothing."""
        lead.departure = Departure(self, members, [], None, is_lost)
        self.steps.take_up(lead.departure, lead.client.client_number)

    def disconnect(self, client: Client, is_lost: bool) -> None:
        """Close all consumers of a client that has gone, then its temporary destinations."""
        client.is_output_full = True  # nothing more is handed over, and the dispatcher skips its consumers
        temporaries = self.destinations.owned.pop(client.client_number, [])
        client.departure = Departure(self, client.consumers.values(), temporaries, client, is_lost)
        self.steps.take_up(client.departure)

    def make_way(self, queue: Queue) -> None:
        """Close the consumers that are leaving ``queue`` at once, but no more than a turn can bear.

        Where thousands leave, the rest is in the way for some turns.
        """
        steps = self.steps
        if not steps.chores:
            return
        count = 0
        for consumer in list(queue.consumers.values()):
            if consumer.departing() is not None:
                if count >= FEW_IN_WAY and steps.left <= -WAY_STEPS:
                    break
                count += 1
                steps.left -= _close_steps(consumer)
                self.owner.unsubscribe(consumer, _is_lost(consumer))

    def close_temporary(self, destination: Queue | Topic) -> None:
        """End a temporary destination; what waits in it is dropped.  Raises: DestinationInUse if it has consumers."""
        assert destination.owner, f"{destination.uri()} is not temporary"
        if isinstance(destination, Queue):
            self.make_way(destination)
            if destination.consumers:
                raise DestinationInUse(f"{destination.uri()} has {len(destination.consumers)} consumers")
            self.ends.discard(destination)
        elif destination.subscriptions:
            raise DestinationInUse(f"{destination.uri()} has {len(destination.subscriptions)} subscriptions")
        for observer in self.observers:
            observer.temporary_ending(destination)
        self.destinations.remove(destination)


def _is_lost(consumer: Consumer) -> bool:
    """Say whether the departure is a loss; a later loss of the connection does not change that."""
    departure = consumer.departing()
    assert departure is not None, "it is leaving"
    return departure.is_lost


def _close_steps(consumer: Consumer) -> int:
    """Return the steps for closing a consumer with all that it still holds."""
    return CLOSE_STEPS + GIVE_BACK_STEPS * len(consumer.ledger) + (SEAT_STEPS if consumer.seat is not None else 0)


def _is_holding(consumer: Consumer, is_lost: bool, room: int) -> bool:
    """Say whether a consumer returns some of what it holds before it is closed."""
    siblings = consumer.siblings
    if is_lost or (siblings is not None and not siblings.is_closed):
        return bool(consumer.ledger)
    return len(consumer.ledger) * GIVE_BACK_STEPS > room


def _take_steps(consumer: Consumer, is_lost: bool, steps: Steps, least: int) -> int:
    """Spend the steps for returning some of what a consumer holds; return how many messages that allows."""
    of_each = GIVE_BACK_STEPS if consumer.siblings is None else QUEUE_STEPS
    left = steps.left - (RECORD_STEPS if is_lost else 0)
    count = 0
    for delivery in consumer.ledger.values():
        if delivery.state == IN_FLIGHT:
            count += 1
            left -= of_each
            if is_lost and _is_last_attempt(delivery):
                left -= DEAD_LETTER_STEPS
            if left <= least:
                break
    steps.left = left
    return count


def _is_last_attempt(delivery: Delivery) -> bool:
    """Say whether one more failure exhausts its attempts."""
    consumer = consumer_of(delivery)
    policy = consumer.redelivery or consumer.queue.settings.redelivery
    return policy.is_exhausted(delivery.failed_attempts + 1)
