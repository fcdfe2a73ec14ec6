"""Messages of the broker about itself, on the topics ``ActiveMQ.Advisory.>``.  Source: ActiveMQ AdvisorySupport.

Bodies are JSON as ActiveMQ's STOMP transformation ``jms-advisory-json`` writes its command objects: the name of the
class around its fields.  While nobody listens nothing is made; topics of advisories are in memory only.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.fate.acceptance import Acceptance
from engine.sources.composite import Composite, Destination
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_subscriptions import Subscriptions
from engine.values.annotations import annotation
from engine.values.destination import (
    ADVISORY_PREFIX,
    QUEUE,
    TEMP_QUEUE,
    TEMP_TOPIC,
    TOPIC,
    advisory_name,
    is_topic,
)
from engine.values.message import DEFAULT_PRIORITY, PLAIN, STOMP, TEXT, Message

Fields = dict[str, object]

# Events that are told, as they stand in the topic's name.
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

ABOUT_DESTINATIONS: Final = (  # each has a topic for each destination
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
RETIRED_MAX: Final = 1_000  # topics kept of destinations that are gone, so that what still waits names them

_CREATED_AS: Final = {QUEUE: "Queue", TOPIC: "Topic", TEMP_QUEUE: "TempQueue", TEMP_TOPIC: "TempTopic"}
_CLASSES: Final = {QUEUE: "queue", TOPIC: "topic", TEMP_QUEUE: "tempQueue", TEMP_TOPIC: "tempTopic"}
_ADDED: Final = 0
_REMOVED: Final = 1


class Advisories(Observer):
    """listeners: subscriptions that may take advisories.  connections: clients whose coming was to be told.
    producers: how many each destination has, by its number.  next_producer: the number of the next one.
    retired: topics that nobody needs but what waits for listeners of wildcards, the oldest first.

    is_enabled: advisory_support of the configuration; it governs all but the events of messages, which addresses ask
    for.  name: of the broker.
    """

    __slots__ = (
        "context",
        "destinations",
        "subscriptions",
        "acceptance",
        "is_enabled",
        "name",
        "listeners",
        "connections",
        "producers",
        "next_producer",
        "retired",
    )

    def __init__(
        self,
        context: Context,
        destinations: Destinations,
        subscriptions: Subscriptions,
        acceptance: Acceptance,
        is_enabled: bool,
        name: str,
    ) -> None:
        self.context = context
        self.destinations = destinations
        self.subscriptions = subscriptions
        self.acceptance = acceptance
        self.is_enabled = is_enabled
        self.name = name
        self.listeners = 0
        self.connections: set[int] = set()
        self.producers: dict[int, int] = {}
        self.next_producer = 1
        self.retired: deque[Topic] = deque()

    # -- what happens

    def connected(self, client: Client) -> None:
        """A client has introduced itself: its adapter says when it is known who it is."""
        self.connections.add(client.client_number)
        if self.listeners and self.is_enabled:
            self.advise(CONNECTION, None, "ConnectionInfo", _connection(client), {})

    def disconnected(self, client: Client) -> None:
        if client.client_number not in self.connections:
            return
        self.connections.discard(client.client_number)
        if self.listeners and self.is_enabled:
            self.advise(CONNECTION, None, "RemoveInfo", {"objectId": {"value": str(client.client_number)}}, {})

    def consumer_added(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and _is_taking(consumer):
            self.advise(CONSUMER, consumer.queue, "ConsumerInfo", _consumer(consumer), self._counted(consumer.queue))

    def consumer_removed(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and _is_taking(consumer):
            fields: Fields = {
                "objectId": _client_part(consumer.client, consumer.consumer_id),
                "lastDeliveredSequenceId": -2,
            }
            self.advise(CONSUMER, consumer.queue, "RemoveInfo", fields, self._counted(consumer.queue))

    def producer_added(self, client: Client, destination: Destination) -> int:
        """A producer has come, of a protocol that has producers; return its number."""
        number = self.next_producer
        self.next_producer = number + 1
        for part in _parts(destination):
            count = self.producers[part.destination_id] = self.producers.get(part.destination_id, 0) + 1
            self._producer_changed(part, "ProducerInfo", {"producerId": _client_part(client, number)}, count)
        return number

    def producer_removed(self, client: Client, destination: Destination, number: int) -> None:
        """The producer of that number has gone."""
        for part in _parts(destination):
            count = self.producers.pop(part.destination_id, 0) - 1
            if count > 0:
                self.producers[part.destination_id] = count
            if count >= 0:  # else the destination has gone, and came again under another number
                self._producer_changed(part, "RemoveInfo", {"objectId": _client_part(client, number)}, count)

    def _producer_changed(self, part: Queue | Topic, name: str, fields: Fields, count: int) -> None:
        if self.listeners and self.is_enabled:
            fields["destination"] = _named(part)
            self.advise(PRODUCER, part, name, fields, {"producerCount": str(count)})

    def slow_consumer(self, consumer: Consumer) -> None:
        """A consumer was found slow."""
        queue = consumer.queue
        if self.listeners and queue.settings.advisories.slow_consumers:
            told = {"consumerId": f"{consumer.client.client_number}:1:{consumer.consumer_id}"}
            self.advise(SLOW_CONSUMER, queue, "ConsumerInfo", _consumer(consumer), told)

    def fast_producer(self, client: Client, destination: Queue | Topic) -> None:
        """A producer is held back."""
        if self.listeners and destination.settings.advisories.fast_producers:
            self.advise(FAST_PRODUCER, destination, "ProducerInfo", {"destination": _named(destination)}, {})

    def full(self, destination: Queue | Topic, limit: str) -> None:
        """An address holds all that it may.  limit: in words."""
        if self.listeners and destination.settings.advisories.when_full:
            self.advise(FULL, destination, "UsageInfo", {"usageName": limit}, {"usageName": limit})

    def message_event(self, event: str, destination: Queue | Topic, message: Message) -> None:
        """Something has happened to a message.

        event: one of those named after messages, EXPIRED or NO_CONSUMER.
        """
        if not self.listeners or _is_own(destination.name):
            return
        identity = self.context.message_id(message)
        fields: Fields = {"messageId": identity, "destination": _named(destination), "priority": message.priority}
        if destination.settings.advisories.include_body:
            fields["text"] = message.body.decode(errors="replace")
        told = {"originalMessageId": identity, "originalDestination": destination.uri()}
        self.advise(event, destination, "ActiveMQMessage", fields, told)

    def discarded(self, queue: Queue, message: Message) -> None:
        """A message was dropped because too many waited for a slow consumer."""
        if self.listeners and queue.settings.advisories.discarding_messages:
            self.message_event(MESSAGE_DISCARDED, queue, message)

    def handed_over(self, queue: Queue, message: Message) -> None:
        """A message has gone to a consumer."""
        if self.listeners:
            source = self._source(queue, message)
            if source.settings.advisories.dispatched:
                self.message_event(MESSAGE_DISPATCHED, source, message)

    def consumed(self, queue: Queue, message: Message) -> None:
        """A consumer has acknowledged a message, or got it acknowledged already."""
        if self.listeners:
            source = self._source(queue, message)
            if source.settings.advisories.consumed:
                self.message_event(MESSAGE_CONSUMED, source, message)

    def sent(self, destination: Queue | Topic, message: Message) -> None:
        """A message has come to a destination that tells of each."""
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
                    self.retire(topic)

    def listener_added(self, name: str) -> None:
        self.listeners += 1

    def listener_removed(self, name: str) -> None:
        self.listeners -= 1

    def dead(self, queue: Queue, message: Message, is_expired: bool) -> None:
        self.message_event(EXPIRED if is_expired else MESSAGE_DEAD, queue, message)

    def topic_unused(self, topic: Topic) -> None:
        self.retire(topic)

    def retire(self, topic: Topic) -> None:
        """Forget a topic that is of no use, as soon as nothing of it can be waiting; it is made again if need be."""
        self.retired.append(topic)
        while self.retired and (len(self.retired) > RETIRED_MAX or not _is_waited_for(self.retired[0])):
            oldest = self.retired.popleft()
            if not oldest.is_closed and not oldest.subscriptions:
                self.destinations.remove(oldest)

    # -- telling

    def advise(
        self, event: str, destination: Queue | Topic | None, name: str, fields: Fields, told: dict[str, str]
    ) -> None:
        """Tell of ``event``, about ``destination`` if it is about one, to those who listen.

        name, fields: the JSON object of the body.  told: headers of its own.
        """
        if not self.listeners:
            return
        if destination is None:
            topic = self._topic(f"{ADVISORY_PREFIX}{event}", True)
        else:
            topic = self._topic(advisory_name(event, destination.kind, destination.name), self._is_there(destination))
        if topic is None:
            return
        if self.context.memory.is_full():
            return  # nobody waits for an advisory to be taken
        headers = {
            "type": "Advisory",
            "transformation": "jms-advisory-json",
            "originBrokerId": self.context.store.store_id(),
            "originBrokerName": self.name,
            **told,
        }
        lines = b"".join(annotation(header, value) for header, value in headers.items())
        flags = TEXT if b"\\" in lines else TEXT | PLAIN
        body = json.dumps({name: fields}, separators=(",", ":"), ensure_ascii=False).encode()
        self.acceptance.publish_own(
            topic, Message(topic.destination_id, STOMP, flags, DEFAULT_PRIORITY, 0, 0, 0, b"", lines, body)
        )

    def _source(self, queue: Queue, message: Message) -> Queue | Topic:
        """Return what the message was sent to: a subscription's queue may take from many topics."""
        return self.destinations.by_id.get(message.destination_id, queue)

    def _topic(self, name: str, may_be_made: bool) -> Topic | None:
        """Return the topic of an advisory that somebody listens to."""
        destinations = self.destinations
        topic = destinations.topics.get(name)
        if topic is None and may_be_made and self.subscriptions.has_wildcard_for(name):
            topic = destinations.advisory_topic(name)
        return topic

    def _is_there(self, destination: Queue | Topic) -> bool:
        """Say whether a destination has not gone with its connection: then nothing would take its topics away."""
        is_temporary = destination.kind in (TEMP_QUEUE, TEMP_TOPIC)
        return not is_temporary or destination.name in self.destinations.temporaries

    def _destination_changed(self, destination: Queue | Topic, operation: int) -> None:
        if self.listeners and self.is_enabled and not _is_own(destination.name):
            fields: Fields = {"destination": _named(destination), "operationType": operation}
            self.advise(_CREATED_AS[destination.kind], None, "DestinationInfo", fields, {})

    def _counted(self, queue: Queue) -> dict[str, str]:
        """Return how many consumers a queue has, or a topic subscriptions."""
        count = len(queue.consumers)
        if is_topic(queue.kind):
            topic = self.destinations.topics.get(queue.name)
            count = 0 if topic is None else len(topic.subscriptions)
        return {"consumerCount": str(count)}


def _is_waited_for(topic: Topic) -> bool:
    """Say whether something of a topic may wait for a listener."""
    return any(queue.depth for taking in (topic.plain, topic.selected, topic.choosy) for queue in taking.values())


def _is_taking(consumer: Consumer) -> bool:
    """Say whether a consumer takes messages of others; advisories tell of no browsers."""
    queue = consumer.queue
    return bool(queue.destination_id) and not queue.feed.is_browser and not _is_own(queue.name)


def _is_own(name: str) -> bool:
    return name.startswith(ADVISORY_PREFIX)


def _parts(destination: Destination) -> list[Queue | Topic]:
    """Return what a producer sends to; advisories tell of none of their own topics."""
    parts = destination.parts if isinstance(destination, Composite) else [destination]
    return [part for part in parts if not _is_own(part.name)]


def _client_part(client: Client, number: int) -> Fields:
    return {"connectionId": str(client.client_number), "sessionId": 1, "value": number}


def _named(destination: Queue | Topic) -> Fields:
    return {"@class": _CLASSES[destination.kind], "physicalName": destination.name}


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
