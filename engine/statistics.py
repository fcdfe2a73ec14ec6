"""Statistics that a client asks for with a message: to ``ActiveMQ.Statistics.*``, answered to its reply-to.

Source: ActiveMQ StatisticsBroker.  The answer is a map, in the JSON of its transformation ``jms-map-json``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from engine.annotations import annotation
from engine.consumer import Consumer
from engine.destination import QUEUE, TOPIC, is_topic
from engine.message import DEFAULT_PRIORITY, PLAIN, STOMP, TEXT, Message
from engine.questions import QuestionQueue, reply_target, send_answer
from engine.queue import Queue
from engine.topic import Topic
from engine.wildcard import Wildcard, is_wildcard

if TYPE_CHECKING:
    from engine.broker import Broker

STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
BROKER: Final = "ActiveMQ.Statistics.Broker"
SUBSCRIPTION: Final = "ActiveMQ.Statistics.Subscription"
DESTINATION: Final = "ActiveMQ.Statistics.Destination."

Values = dict[str, str | int]


class Statistics:
    """Answers questions as they come."""

    __slots__ = ("broker",)

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def answer(self, queue: QuestionQueue, question: Message) -> None:
        """Send what was asked for to the question's reply-to; without one, or if it is gone, nobody wants to know."""
        properties = self.broker.readers.properties(question, 1, False)
        target = reply_target(self.broker, properties.get("JMSReplyTo"))
        if target is None:
            return
        correlation_id = properties.get("JMSCorrelationID")
        headers = {"transformation": "jms-map-json", "content-type": "application/json"}
        if isinstance(correlation_id, str):
            headers["correlation-id"] = correlation_id
        lines = b"".join(annotation(name, value) for name, value in headers.items())
        flags = TEXT if b"\\" in lines else TEXT | PLAIN
        for values in self._asked_for(queue.name):
            body = json.dumps(_as_map(values), separators=(",", ":"), ensure_ascii=False).encode()
            message = Message(target.destination_id, STOMP, flags, DEFAULT_PRIORITY, 0, 0, 0, b"", lines, body)
            send_answer(self.broker, target, message)

    # -- the steps

    def _asked_for(self, name: str) -> list[Values]:
        if name == BROKER:
            return [self._of_broker()]
        if name == SUBSCRIPTION:
            return [
                self._of_consumer(consumer)
                for client in self.broker.clients.values()
                for consumer in client.consumers.values()
            ]
        asked = name.removeprefix(DESTINATION)
        return [self._of_destination(destination) for destination in self._named(asked)]

    def _named(self, name: str) -> list[Queue | Topic]:
        destinations = self.broker.destinations
        if is_wildcard(name):
            return [one for kind in (QUEUE, TOPIC) for one in destinations.matching(Wildcard(kind, name))]
        found: list[Queue | Topic | None] = [destinations.queues.get(name), destinations.topics.get(name)]
        return [one for one in found if one is not None]

    def _of_broker(self) -> Values:
        broker = self.broker
        queues = broker.destinations.all_queues()
        memory = broker.memory
        return {
            "brokerName": broker.advisories.name,
            "brokerId": broker.store.store_id(),
            "size": sum(queue.depth for queue in queues),
            "memoryUsage": memory.held_bytes(),
            "memoryLimit": memory.limit_bytes,
            "memoryPercentUsage": memory.held_bytes() * 100 // max(1, memory.limit_bytes),
            "enqueueCount": sum(queue.enqueued_count for queue in queues),
            "dequeueCount": sum(queue.acknowledged_count for queue in queues),
            "dispatchCount": sum(queue.delivered_count for queue in queues),
            "expiredCount": sum(queue.expired_count for queue in queues),
            "inflightCount": sum(queue.in_flight_count for queue in queues),
            "consumerCount": sum(len(client.consumers) for client in broker.clients.values()),
            "connectionCount": len(broker.clients),
        }

    def _of_destination(self, destination: Queue | Topic) -> Values:
        queues = [destination] if isinstance(destination, Queue) else list(destination.subscriptions.values())
        # What a topic has is what has been published; its subscriptions count each message once each.
        past = destination if isinstance(destination, Topic) else None
        return {
            "destinationName": destination.uri(),
            "brokerName": self.broker.advisories.name,
            "size": sum(queue.depth for queue in queues),
            "enqueueCount": destination.enqueued_count,
            "dequeueCount": sum(one.acknowledged_count for one in queues) + (past.acknowledged_count if past else 0),
            "dispatchCount": sum(one.delivered_count for one in queues) + (past.delivered_count if past else 0),
            "expiredCount": sum(one.expired_count for one in queues) + (past.expired_count if past else 0),
            "inflightCount": sum(queue.in_flight_count for queue in queues),
            "consumerCount": sum(queue.consumer_count() for queue in queues),
        }

    def _of_consumer(self, consumer: Consumer) -> Values:
        queue = consumer.queue
        return {
            "destinationName": queue.uri(),
            "connectionId": str(consumer.client.client_number),
            "clientId": consumer.client.describe().get("client_id", ""),
            "subscriptionName": consumer.name,
            "isDurable": str(is_topic(queue.kind) and queue.is_logged).lower(),
            "prefetchSize": consumer.window.prefetch,
            "dispatchedQueueSize": len(consumer.ledger),
            "pendingQueueSize": queue.depth - queue.in_flight_count,
            "dequeueCounter": consumer.acknowledged_count,
        }


def _as_map(values: Values) -> dict[str, object]:
    """Return a MapMessage as ActiveMQ writes it in JSON."""
    entries: list[object] = []
    for name, value in values.items():
        if isinstance(value, str):
            entries.append({"string": [name, value]})
        else:
            entries.append({"string": name, "long": value})
    return {"map": {"entry": entries}}
