"""What advisories have announced and is there: connections and producers; and what a late listener is to be told.

The fields are those of ActiveMQ's command objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.features.advisory_topics import Fields
from engine.sources.composite import Composite, Destination
from engine.sources.entry_readers import kept_by
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.destination import (
    ADVISORY_PREFIX,
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    advised_destination,
    is_topic,
)

# Events with a past, as spelled in the topic's name; a destination's making has the name of its kind.
CONNECTION: Final = "Connection"
CONSUMER: Final = "Consumer"
PRODUCER: Final = "Producer"
CREATED_AS: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}

ADDED: Final = 0
REMOVED: Final = 1

_CLASSES: Final = {QUEUE: "queue", TOPIC: "topic", TEMP_QUEUE: "tempQueue", TEMP_TOPIC: "tempTopic"}


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory.  name: of the command that it is about.  fields: of that.  headers: of the message."""

    name: str
    fields: Fields
    headers: dict[str, str]


class PresentProducer:
    """A producer of which a late listener is told."""

    __slots__ = ("number", "client", "destination")

    def __init__(self, number: int, client: Client, destination: Queue | Topic) -> None:
        self.number = number
        self.client = client
        self.destination = destination


Present = Client | Queue | Topic | Consumer | PresentProducer


@dataclass(slots=True, eq=False)
class AdvisoryState:
    """connections: clients whose connect was announced, by number.  producers: the clients of each destination's
    producers, by the numbers of both.  next_producer: the number of the next one.
    """

    destinations: Destinations
    connections: dict[int, Client] = field(default_factory=dict)
    producers: dict[int, dict[int, Client]] = field(default_factory=dict)
    next_producer: int = 1

    def new_producer(self) -> int:
        """Return the number of a new producer."""
        number = self.next_producer
        self.next_producer = number + 1
        return number

    def add_producer(self, part: Queue | Topic, number: int, client: Client) -> int:
        """Note a producer of a destination; return how many it has."""
        own = self.producers.setdefault(part.destination_id, {})
        own[number] = client
        return len(own)

    def remove_producer(self, part: Queue | Topic, number: int) -> int:
        """Return how many are left, -1 if it was not known: the destination was made anew under another number."""
        own = self.producers.get(part.destination_id, {})
        if own.pop(number, None) is None:
            return -1
        if not own:
            del self.producers[part.destination_id]
        return len(own)

    def producer_count(self, part: Queue | Topic) -> int:
        return len(self.producers.get(part.destination_id, ()))

    def present(self, name: str) -> list[Present]:
        """Return what is there now and the advisories of one topic would have told of; ``about`` tells of each.

        name: of the topic; only those of connections, queues, topics, and consumers or producers of one destination
        have a past.
        """
        event = name.removeprefix(ADVISORY_PREFIX)
        destinations = self.destinations
        if event == CONNECTION:
            return list(self.connections.values())
        if event == CREATED_AS[QUEUE]:
            return list(destinations.queues.values())
        if event == CREATED_AS[TOPIC]:
            return list(destinations.topics.values())
        about = advised_destination(name)
        if about is None:
            return []
        kind, its_name = about
        if event.startswith(f"{PRODUCER}."):
            return list(self._producers(destinations.queues if kind == QUEUE else destinations.topics, its_name))
        if not event.startswith(f"{CONSUMER}."):
            return []
        queues = [destinations.queues.get(its_name)] if kind == QUEUE else self._subscribed(its_name)
        shown = [one for queue in queues if queue is not None for one in destinations.readers.taken_from(queue)]
        return [consumer for queue in shown for consumer in queue.consumers.values()]

    def about(self, one: Present) -> Advisory | None:
        """Return the advisory of its coming, None if there is none or it has gone."""
        if isinstance(one, Client):
            is_there = one.client_number in self.connections
            return Advisory("ConnectionInfo", connection_fields(one), {}) if is_there else None
        if isinstance(one, Consumer):
            return None if one.is_closed or not is_taking(one) else self.about_consumer(one)
        if isinstance(one, PresentProducer):
            own = self.producers.get(one.destination.destination_id, {})
            if one.number not in own:
                return None
            fields = producer_fields(one.client, one.number, one.destination)
            return Advisory("ProducerInfo", fields, {"producerCount": str(len(own))})
        is_told = not one.is_closed and one.kind in (QUEUE, TOPIC) and not is_own(one.name)
        return Advisory("DestinationInfo", changed_fields(one, ADDED), {}) if is_told else None

    def about_consumer(self, consumer: Consumer) -> Advisory:
        return Advisory("ConsumerInfo", consumer_fields(consumer), self.counted(consumer.queue))

    def counted(self, queue: Queue) -> dict[str, str]:
        """Return the number of a queue's consumers, or of a topic's subscriptions."""
        count = kept_by(queue, self.destinations.queues_by_id).consumer_count()
        if is_topic(queue.kind):
            topic = self.destinations.topics.get(queue.name)
            count = 0 if topic is None else len(topic.subscriptions)
        return {"consumerCount": str(count)}

    def _producers(self, those: Mapping[str, Queue | Topic], name: str) -> list[PresentProducer]:
        """Return the producers of one of the queues or topics."""
        found = those.get(name)
        if found is None:
            return []
        own = self.producers.get(found.destination_id, {})
        return [PresentProducer(number, client, found) for number, client in own.items()]

    def _subscribed(self, name: str) -> list[Queue | None]:
        topic = self.destinations.topics.get(name)
        return [] if topic is None else list(topic.subscriptions.values())


def is_taking(consumer: Consumer) -> bool:
    """Say whether a consumer really consumes; there are no advisories about browsers."""
    queue = consumer.queue
    return bool(queue.destination_id) and not is_browsing(queue) and not is_own(queue.name)


def is_browsing(queue: Queue) -> bool:
    """Say whether a consumer of a queue only looks at another one; those of a non-destructive queue consume it."""
    return queue.feed.is_browser and not queue.feed.is_consuming


def is_own(name: str) -> bool:
    return name.startswith(ADVISORY_PREFIX)


def producer_parts(destination: Destination) -> list[Queue | Topic]:
    """Return the destinations of a producer; there are no advisories about advisory topics."""
    parts = destination.parts if isinstance(destination, Composite) else [destination]
    return [part for part in parts if not is_own(part.name)]


def client_part(client: Client, number: int) -> Fields:
    return {"connectionId": str(client.client_number), "sessionId": 1, "value": number}


def named(destination: Queue | Topic) -> Fields:
    return {"@class": _CLASSES[destination.kind], "physicalName": destination.name}


def producer_fields(client: Client, number: int, destination: Queue | Topic) -> Fields:
    return {"producerId": client_part(client, number), "destination": named(destination)}


def changed_fields(destination: Queue | Topic, operation: int) -> Fields:
    return {"destination": named(destination), "operationType": operation}


def connection_fields(client: Client) -> Fields:
    known = client.describe()
    return {
        "connectionId": {"value": str(client.client_number)},
        "clientId": known.get("client_id", ""),
        "clientIp": known.get("address", ""),
        "userName": known.get("login", ""),
    }


def consumer_fields(consumer: Consumer) -> Fields:
    queue = consumer.queue
    return {
        "consumerId": client_part(consumer.client, consumer.consumer_id),
        "browser": is_browsing(queue),
        "destination": named(queue),
        "prefetchSize": consumer.window.prefetch,
        "clientId": consumer.client.describe().get("client_id", ""),
        "subscriptionName": consumer.name,
        "exclusive": consumer.is_exclusive,
        "priority": consumer.priority,
    }
