"""Events that parts of the engine report to interested parts: advisories, upkeep, slow consumers."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from engine.consumers.client import Client
from engine.consumers.consumer import Consumer
from engine.sources.queue import Queue
from engine.sources.topics.named_subscription import NamedSubscription
from engine.sources.topics.topic import Topic
from engine.values.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Receives events and ignores them; a subclass overrides those that it needs.

    Events of single messages are reported only by queues and topics whose settings ask for them.
    """

    __slots__ = ()

    def destination_added(self, destination: Queue | Topic) -> None:
        """A destination was just made, and is empty."""

    def temporary_ending(self, destination: Queue | Topic) -> None:
        """A temporary destination is about to be removed, with its subscriptions and messages."""

    def destination_removed(self, destination: Queue | Topic) -> None:
        """A destination is no longer known; its contents were discarded."""

    def cursor_added(self, subscription: NamedSubscription, queue: Queue) -> None:
        """A durable subscription to a wildcard takes from one more topic, by ``queue``."""

    def queue_ended(self, queue: Queue) -> None:
        """A queue has ended; what waits in its lanes is discarded next."""

    def disconnected(self, client: Client) -> None:
        """A client and its consumers have gone."""

    def consumer_coming(self, consumer: Consumer) -> None:
        """A consumer is on its queue, but gets no messages yet."""

    def consumer_added(self, consumer: Consumer) -> None:
        """A consumer was added."""

    def consumer_removed(self, consumer: Consumer) -> None:
        """A consumer has closed, and its messages were returned."""

    def listener_added(self, name: str) -> None:
        """A subscription in memory was added, to a topic or a wildcard of this name."""

    def listener_removed(self, name: str) -> None:
        """A subscription in memory, to a topic or a wildcard of this name, has ended."""

    def topic_unused(self, topic: Topic) -> None:
        """The last subscription of a topic without a record in the store has ended."""

    def fast_producer(self, client: Client, destination: Queue | Topic) -> None:
        """A producer is held back."""

    def full(self, destination: Queue | Topic, limit: str) -> None:
        """An address is full.  limit: in words."""

    def slow_consumer(self, consumer: Consumer) -> None:
        """A consumer was found slow."""

    def dead(self, queue: Queue, message: Message, is_expired: bool) -> None:
        """A message was given up, or has expired."""

    def discarded(self, queue: Queue, message: Message) -> None:
        """A message was dropped because too many waited for a slow consumer."""

    def handed_over(self, queue: Queue, message: Message) -> None:
        """A message was handed over to a consumer."""

    def consumed(self, queue: Queue, message: Message) -> None:
        """A consumer has acknowledged a message, or got it as acknowledged."""

    def sent(self, destination: Queue | Topic, message: Message) -> None:
        """A message was sent to a destination."""

    def schedule_gone(self, number: int) -> None:
        """Nothing is scheduled any more for the destination with this number."""
