"""Messages of the broker about itself, on the topics ``ActiveMQ.Advisory.>``.  Source: ActiveMQ AdvisorySupport.

Bodies are JSON as written by ActiveMQ's STOMP transformation ``jms-advisory-json`` for its command objects: the class
name around its fields.  Without listeners no advisory is made.  Advisory topics are in memory only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.backlog.context import Context
from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.dispatch.dispatcher import Dispatcher
from engine.features.advisory_state import (
    ADDED,
    CONNECTION,
    CONSUMER,
    CREATED_AS,
    PRODUCER,
    REMOVED,
    AdvisoryState,
    Present,
    changed_fields,
    client_part,
    connection_fields,
    consumer_fields,
    is_own,
    is_taking,
    named,
    producer_fields,
    producer_parts,
)
from engine.features.advisory_topics import AdvisoryTopics, Fields
from engine.sources.composite import Destination
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.destination import ADVISORY_PREFIX, QUEUE, TOPIC, advisory_name
from engine.values.message import Message

# Events that have advisories, as spelled in the topic's name; ``advisory_state`` has those with a past.
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

# Properties as AdvisorySupport spells them.
MESSAGE_ID: Final = "orignalMessageId"
DESTINATION: Final = "orignalDestination"

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


@dataclass(slots=True, eq=False)
class Advisories(Observer):
    """listeners: subscriptions that may take advisories.

    is_enabled: advisory_support of the configuration; it governs all events except those of messages, for which
    addresses ask.  topics: where the advisories are published.  dispatcher: keeps expired messages
    while somebody listens.
    """

    context: Context
    destinations: Destinations
    dispatcher: Dispatcher
    topics: AdvisoryTopics
    is_enabled: bool
    announced: AdvisoryState
    listeners: int = 0

    def present(self, name: str) -> list[Present]:
        """Return what is there now and the advisories of one topic would have told of; see ``AdvisoryState``."""
        return self.announced.present(name) if self.is_enabled else []

    # -- events

    def connected(self, client: Client) -> None:
        """A client has introduced itself; its adapter calls this once the identity is known."""
        self.announced.connections[client.client_number] = client
        if self.listeners and self.is_enabled:
            self.topics.advise(CONNECTION, None, "ConnectionInfo", connection_fields(client), {})

    def disconnected(self, client: Client) -> None:
        if client.client_number not in self.announced.connections:
            return
        del self.announced.connections[client.client_number]
        if self.listeners and self.is_enabled:
            self.topics.advise(CONNECTION, None, "RemoveInfo", {"objectId": {"value": str(client.client_number)}}, {})

    def consumer_added(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and is_taking(consumer):
            about = self.announced.about_consumer(consumer)
            self.topics.advise(CONSUMER, consumer.queue, about.name, about.fields, about.headers)

    def consumer_removed(self, consumer: Consumer) -> None:
        if self.listeners and self.is_enabled and is_taking(consumer):
            fields: Fields = {
                "objectId": client_part(consumer.client, consumer.consumer_id),
                "lastDeliveredSequenceId": -2,
            }
            self.topics.advise(CONSUMER, consumer.queue, "RemoveInfo", fields, self.announced.counted(consumer.queue))

    def producer_added(self, client: Client, destination: Destination) -> int:
        """Announce a producer, in protocols that have producers; return its number."""
        number = self.announced.new_producer()
        for part in producer_parts(destination):
            count = self.announced.add_producer(part, number, client)
            self._producer_changed(part, "ProducerInfo", producer_fields(client, number, part), count)
        return number

    def producer_removed(self, client: Client, destination: Destination, number: int) -> None:
        """A producer has gone."""
        for part in producer_parts(destination):
            count = self.announced.remove_producer(part, number)
            if count >= 0:
                fields: Fields = {"objectId": client_part(client, number), "destination": named(part)}
                self._producer_changed(part, "RemoveInfo", fields, count)

    def _producer_changed(self, part: Queue | Topic, name: str, fields: Fields, count: int) -> None:
        if self.listeners and self.is_enabled:
            self.topics.advise(PRODUCER, part, name, fields, {"producerCount": str(count)})

    def slow_consumer(self, consumer: Consumer) -> None:
        """A consumer was found slow."""
        queue = consumer.queue
        if self.listeners and queue.settings.advisories.slow_consumers:
            headers = {"consumerId": f"{consumer.client.client_number}:1:{consumer.consumer_id}"}
            self.topics.advise(SLOW_CONSUMER, queue, "ConsumerInfo", consumer_fields(consumer), headers)

    def fast_producer(self, client: Client, destination: Queue | Topic) -> None:
        """A producer is held back."""
        if self.listeners and destination.settings.advisories.fast_producers:
            self.topics.advise(FAST_PRODUCER, destination, "ProducerInfo", {"destination": named(destination)}, {})

    def full(self, destination: Queue | Topic, limit: str) -> None:
        """An address is full.  limit: in words."""
        if self.listeners and destination.settings.advisories.when_full:
            self.topics.advise(FULL, destination, "UsageInfo", {"usageName": limit}, {"usageName": limit})

    def message_event(self, event: str, destination: Queue | Topic, message: Message) -> None:
        """Announce an event of a message.

        event: one of those named after messages, EXPIRED or NO_CONSUMER.  What a temporary destination holds is for its
        owner alone, so no advisory has the body.
        """
        if not self.listeners or is_own(destination.name):
            return
        identity = self.context.message_id(message)
        fields: Fields = {"messageId": identity, "destination": named(destination), "priority": message.priority}
        if destination.settings.advisories.include_body and destination.kind in (QUEUE, TOPIC):
            fields["text"] = message.body.decode(errors="replace")
        headers = {MESSAGE_ID: identity, DESTINATION: destination.uri()}
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
        receivers = destination.consumer_count() if isinstance(destination, Queue) else len(destination.subscriptions)
        if policy.no_consumers and not receivers:
            self.message_event(NO_CONSUMER, destination, message)

    def destination_added(self, destination: Queue | Topic) -> None:
        self._destination_changed(destination, ADDED)

    def destination_removed(self, destination: Queue | Topic) -> None:
        self.announced.producers.pop(destination.destination_id, None)
        self._destination_changed(destination, REMOVED)
        destinations = self.destinations
        if destinations.advisory_count and not is_own(destination.name):
            for event in ABOUT_DESTINATIONS:
                topic = destinations.topics.get(advisory_name(event, destination.kind, destination.name))
                if topic is not None and not topic.subscriptions:
                    self.topics.retire(topic)

    def listener_added(self, name: str) -> None:
        self.listeners += 1
        self.dispatcher.expiry_listeners += _takes(name, EXPIRED)

    def listener_removed(self, name: str) -> None:
        self.listeners -= 1
        self.dispatcher.expiry_listeners -= _takes(name, EXPIRED)

    def dead(self, queue: Queue, message: Message, is_expired: bool) -> None:
        self.message_event(EXPIRED if is_expired else MESSAGE_DEAD, self._source(queue, message), message)

    def topic_unused(self, topic: Topic) -> None:
        self.topics.retire(topic)

    def _source(self, queue: Queue, message: Message) -> Queue | Topic:
        """Return the destination the message was sent to; a subscription's queue may take from many topics."""
        return self.destinations.by_id.get(message.destination_id, queue)

    def _destination_changed(self, destination: Queue | Topic, operation: int) -> None:
        if self.listeners and self.is_enabled and not is_own(destination.name):
            fields = changed_fields(destination, operation)
            self.topics.advise(CREATED_AS[destination.kind], None, "DestinationInfo", fields, {})


def _takes(name: str, event: str) -> bool:
    """Say whether subscribers of a topic or wildcard hear of ``event``."""
    for element, wanted in zip(name.split("."), (*ADVISORY_PREFIX.split(".")[:2], event), strict=False):
        if element in (">", "#"):
            return True
        if element not in ("*", wanted):
            return False
    return True
