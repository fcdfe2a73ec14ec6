"""Messages of the broker about itself, on the topics ``ActiveMQ.Advisory.>``.  Source: ActiveMQ AdvisorySupport.

Bodies are JSON as written by ActiveMQ's STOMP transformation ``jms-advisory-json`` for its command objects: the class
name around its fields.  Without listeners no advisory is made.  Advisory topics are in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.features.advisory_topics import AdvisoryTopics, Fields
from engine.sources.composite import Composite, Destination
from engine.sources.observer import Observer
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
    advisory_name,
    is_topic,
)
from engine.values.message import Message

# Events that have advisories, as spelled in the topic's name.
CONNECTION: Final = "Connection"
CONSUMER: Final = "Consumer"
PRODUCER: Final = "Producer"
SLOW_CONSUMER: Final = "SlowConsumer"
FAST_PRODUCER: Final = "FastProducer"
MESSAGE_DELIVERED: Final = "MessageDelivered"
MESSAGE_DISPATCHED: Final = "MessageDispatched"
MESSAGE_CONSUMED: Final = "MessageConsumed"
MESSAGE_DISCARDED: Final = "MessageDiscarded"
MESSAGE_DEAD: Final = "MessageDLQd"
EXPIRED: Final = "Expired"
FULL: Final = "FULL"
NO_CONSUMER: Final = "NoConsumer"

ABOUT_DESTINATIONS: Final = (  # each event has a topic per destination
    CONSUMER,
    PRODUCER,
    SLOW_CONSUMER,
    FAST_PRODUCER,
    MESSAGE_DELIVERED,
    MESSAGE_DISPATCHED,
    MESSAGE_CONSUMED,
    MESSAGE_DISCARDED,
    MESSAGE_DEAD,
    EXPIRED,
    FULL,
    NO_CONSUMER,
)

_CREATED_AS: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}
_CLASSES: Final = {QUEUE: "queue", TOPIC: "topic", TEMP_QUEUE: "tempQueue", TEMP_TOPIC: "tempTopic"}
_ADDED: Final = 0
_REMOVED: Final = 1


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory.  name: of the command that it is about.  fields: of that.  headers: of the message."""

    name: str
    fields: Fields
    headers: dict[str, str]


@dataclass(slots=True, eq=False)
class Advisories(Observer):
    """listeners: subscriptions that may take advisories.  connections: clients whose connect was announced, by number.
    producers: how many each destination has, by its number.  next_producer: the number of the next one.

    is_enabled: advisory_support of the configuration; it governs all events except those of messages, for which
    addresses ask.  topics: where the advisories are published.
    """

    context: Context
    destinations: Destinations
    topics: AdvisoryTopics
    is_enabled: bool
    listeners: int = 0
    connections: dict[int, Client] = field(default_factory=dict)
    producers: dict[int, int] = field(default_factory=dict)
    next_producer: int = 1

    def present(self, name: str) -> list[Client | Queue | Topic | Consumer]:
        """Return what is there now and the advisories of one topic would have told of; ``about`` tells of each.

        name: of the topic; only those of connections, queues, topics, and consumers of one destination have a past.
        """
        if not self.is_enabled:
            return []
        event = name.removeprefix(ADVISORY_PREFIX)
        destinations = self.destinations
        if event == CONNECTION:
            return list(self.connections.values())
        if event == _CREATED_AS[QUEUE]:
            return list(destinations.queues.values())
        if event == _CREATED_AS[TOPIC]:
            return list(destinations.topics.values())
        about = advised_destination(name)
        if about is None or not event.startswith(f"{CONSUMER}."):
            return []
        kind, its_name = about
        queues = [destinations.queues.get(its_name)] if kind == QUEUE else self._subscribed(its_name)
        return [consumer for queue in queues if queue is not None for consumer in queue.consumers.values()]

    def about(self, one: Client | Queue | Topic | Consumer) -> Advisory | None:
        """Return the advisory of its coming, None if there is none or it has gone."""
        if isinstance(one, Client):
            is_there = one.client_number in self.connections
            return Advisory("ConnectionInfo", _connection(one), {}) if is_there else None
        if isinstance(one, Consumer):
            if one.is_closed or not _is_taking(one):
                return None
            return Advisory("ConsumerInfo", _consumer(one), self._counted(one.queue))
        is_told = not one.is_closed and one.kind in (QUEUE, TOPIC) and not _is_own(one.name)
        return Advisory("DestinationInfo", _changed(one, _ADDED), {}) if is_told else None

    # -- events

    def connected(self, client: Client) -> None:
        """A client has introduced itself; its adapter calls this once the identity is known."""
        self.connections[client.client_number] = client
        if self.listeners and self.is_enabled:
            self.topics.advise(CONNECTION, None, "ConnectionInfo", _connection(client), {})

    def disconnected(self, client: Client) -> None:
        if client.client_number not in self.connections:
            return
        del self.connections[client.client_number]
        if self.listeners and self.is_enabled:
            self.topics.advise(CONNECTION, None, "RemoveInfo", {"objectId": {"value": str(client.client_number)}}, {})

    def consumer_added(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and _is_taking(consumer):
            self.topics.advise(
                CONSUMER, consumer.queue, "ConsumerInfo", _consumer(consumer), self._counted(consumer.queue)
            )

    def consumer_removed(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and _is_taking(consumer):
            fields: Fields = {
                "objectId": _client_part(consumer.client, consumer.consumer_id),
                "lastDeliveredSequenceId": -2,
            }
            self.topics.advise(CONSUMER, consumer.queue, "RemoveInfo", fields, self._counted(consumer.queue))

    def producer_added(self, client: Client, destination: Destination) -> int:
        """Announce a producer, in protocols that have producers; return its number."""
        number = self.next_producer
        self.next_producer = number + 1
        for part in _parts(destination):
            count = self.producers[part.destination_id] = self.producers.get(part.destination_id, 0) + 1
            self._producer_changed(part, "ProducerInfo", {"producerId": _client_part(client, number)}, count)
        return number

    def producer_removed(self, client: Client, destination: Destination, number: int) -> None:
        """A producer has gone."""
        for part in _parts(destination):
            count = self.producers.pop(part.destination_id, 0) - 1
            if count > 0:
                self.producers[part.destination_id] = count
            if count >= 0:  # otherwise the destination was removed and recreated under another number
                self._producer_changed(part, "RemoveInfo", {"objectId": _client_part(client, number)}, count)

    def _producer_changed(self, part: Queue | Topic, name: str, fields: Fields, count: int) -> None:
        if self.listeners and self.is_enabled:
            fields["destination"] = _named(part)
            self.topics.advise(PRODUCER, part, name, fields, {"producerCount": str(count)})

    def slow_consumer(self, consumer: Consumer) -> None:
        """A consumer was found slow."""
        queue = consumer.queue
        if self.listeners and queue.settings.advisories.slow_consumers:
            headers = {"consumerId": f"{consumer.client.client_number}:1:{consumer.consumer_id}"}
            self.topics.advise(SLOW_CONSUMER, queue, "ConsumerInfo", _consumer(consumer), headers)

    def fast_producer(self, client: Client, destination: Queue | Topic) -> None:
        """A producer is held back."""
        if self.listeners and destination.settings.advisories.fast_producers:
            self.topics.advise(FAST_PRODUCER, destination, "ProducerInfo", {"destination": _named(destination)}, {})

    def full(self, destination: Queue | Topic, limit: str) -> None:
        """An address is full.  limit: in words."""
        if self.listeners and destination.settings.advisories.when_full:
            self.topics.advise(FULL, destination, "UsageInfo", {"usageName": limit}, {"usageName": limit})

    def message_event(self, event: str, destination: Queue | Topic, message: Message) -> None:
        """Announce an event of a message.

        event: one of those named after messages, EXPIRED or NO_CONSUMER.
        """
        if not self.listeners or _is_own(destination.name):
            return
        identity = self.context.message_id(message)
        fields: Fields = {"messageId": identity, "destination": _named(destination), "priority": message.priority}
        if destination.settings.advisories.include_body:
            fields["text"] = message.body.decode(errors="replace")
        headers = {"originalMessageId": identity, "originalDestination": destination.uri()}
        self.topics.advise(event, destination, "ActiveMQMessage", fields, headers)

    def discarded(self, queue: Queue, message: Message) -> None:
        """A message was dropped because too many waited for a slow consumer."""
        if self.listeners and queue.settings.advisories.discarding_messages:
            self.message_event(MESSAGE_DISCARDED, queue, message)

    def handed_over(self, queue: Queue, message: Message) -> None:
        """A message was handed over to a consumer."""
        if self.listeners:
            source = self._source(queue, message)
            if source.settings.advisories.dispatched:
                self.message_event(MESSAGE_DISPATCHED, source, message)

    def consumed(self, queue: Queue, message: Message) -> None:
        """A consumer has acknowledged a message, or got it as acknowledged."""
        if self.listeners:
            source = self._source(queue, message)
            if source.settings.advisories.consumed:
                self.message_event(MESSAGE_CONSUMED, source, message)

    def sent(self, destination: Queue | Topic, message: Message) -> None:
        """A message was sent to a destination that announces each message."""
        policy = destination.settings.advisories
        if policy.delivery:
            self.message_event(MESSAGE_DELIVERED, destination, message)
        receivers = destination.consumers if isinstance(destination, Queue) else destination.subscriptions
        if policy.no_consumers and not receivers:
            self.message_event(NO_CONSUMER, destination, message)

    def destination_added(self, destination: Queue | Topic) -> None:
        self._destination_changed(destination, _ADDED)

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.producers.pop(destination.destination_id, None)
        self._destination_changed(destination, _REMOVED)
        destinations = self.destinations
        if destinations.advisory_count and not _is_own(destination.name):
            for event in ABOUT_DESTINATIONS:
                topic = destinations.topics.get(advisory_name(event, destination.kind, destination.name))
                if topic is not None and not topic.subscriptions:
                    self.topics.retire(topic)

    def listener_added(self, name: str) -> None:
        self.listeners += 1

    def listener_removed(self, name: str) -> None:
        self.listeners -= 1

    def dead(self, queue: Queue, message: Message, is_expired: bool) -> None:
        self.message_event(EXPIRED if is_expired else MESSAGE_DEAD, queue, message)

    def topic_unused(self, topic: Topic) -> None:
        self.topics.retire(topic)

    def _source(self, queue: Queue, message: Message) -> Queue | Topic:
        """Return the destination the message was sent to; a subscription's queue may take from many topics."""
        return self.destinations.by_id.get(message.destination_id, queue)

    def _destination_changed(self, destination: Queue | Topic, operation: int) -> None:
        if self.listeners and self.is_enabled and not _is_own(destination.name):
            fields = _changed(destination, operation)
            self.topics.advise(_CREATED_AS[destination.kind], None, "DestinationInfo", fields, {})

    def _subscribed(self, name: str) -> list[Queue | None]:
        topic = self.destinations.topics.get(name)
        return [] if topic is None else list(topic.subscriptions.values())

    def _counted(self, queue: Queue) -> dict[str, str]:
        """Return the number of a queue's consumers, or of a topic's subscriptions."""
        count = len(queue.consumers)
        if is_topic(queue.kind):
            topic = self.destinations.topics.get(queue.name)
            count = 0 if topic is None else len(topic.subscriptions)
        return {"consumerCount": str(count)}


def _is_taking(consumer: Consumer) -> bool:
    """Say whether a consumer really consumes; there are no advisories about browsers."""
    queue = consumer.queue
    return bool(queue.destination_id) and not queue.feed.is_browser and not _is_own(queue.name)


def _is_own(name: str) -> bool:
    return name.startswith(ADVISORY_PREFIX)


def _parts(destination: Destination) -> list[Queue | Topic]:
    """Return the destinations of a producer; there are no advisories about advisory topics."""
    parts = destination.parts if isinstance(destination, Composite) else [destination]
    return [part for part in parts if not _is_own(part.name)]


def _client_part(client: Client, number: int) -> Fields:
    return {"connectionId": str(client.client_number), "sessionId": 1, "value": number}


def _named(destination: Queue | Topic) -> Fields:
    return {"@class": _CLASSES[destination.kind], "physicalName": destination.name}


def _changed(destination: Queue | Topic, operation: int) -> Fields:
    return {"destination": _named(destination), "operationType": operation}


def _connection(client: Client) -> Fields:
    known = client.describe()
    return {
        "connectionId": {"value": str(client.client_number)},
        "clientId": known.get("client_id", ""),
        "clientIp": known.get("address", ""),
        "userName": known.get("login", ""),
    }


def _consumer(consumer: Consumer) -> Fields:
    queue = consumer.queue
    return {
        "consumerId": _client_part(consumer.client, consumer.consumer_id),
        "browser": queue.feed.is_browser,
        "destination": _named(queue),
        "prefetchSize": consumer.window.prefetch,
        "clientId": consumer.client.describe().get("client_id", ""),
        "subscriptionName": consumer.name,
        "exclusive": consumer.is_exclusive,
        "priority": consumer.priority,
    }
