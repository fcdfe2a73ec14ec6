"""Reports the way of messages to a tracer.  It exists only where there is a tracer."""

from __future__ import annotations

from typing import Final

from engine.backlog.context import Context
from engine.consumers.consumer import Consumer
from engine.ports.tracing import Traced, Tracing
from engine.sources.observer import Observer
from engine.sources.queue import Queue
from engine.values.delivery import Delivery
from engine.values.destination import TEMP_TOPIC, TOPIC
from engine.values.message import Message
from engine.values.outcomes import CAUSE_NAMES

PARENT_OCTETS: Final = b"traceparent"
ADVISORIES: Final = "ActiveMQ.Advisory."  # messages of the broker itself


class MessageTraces(Observer):
    """Asks the tracer about each message, and tells it about those that it wants."""

    __slots__ = ("context", "tracing")

    def __init__(self, context: Context, tracing: Tracing) -> None:
        self.context = context
        self.tracing = tracing

    def accepted(self, name: str, kind: int, message: Message) -> None:
        """A destination has taken a message."""
        traced = self._traced(name, kind, message)
        if traced is not None:
            self.tracing.accepted(traced)

    def given(self, consumer: Consumer, delivery: Delivery, message: Message, tag: int) -> None:
        """A message goes to a consumer."""
        queue = consumer.queue
        traced = self._traced(queue.name, queue.kind, message)
        if traced is not None:
            self.tracing.handed_over(traced, tag, delivery.failed_attempts + 1, consumer.description())

    def acknowledged(self, tag: int) -> None:
        self.tracing.settled(tag, "acknowledged", "")

    def failed(self, deliveries: list[Delivery], cause: int) -> None:
        """An attempt of each has failed."""
        for delivery in deliveries:
            self.tracing.settled(delivery.tag, "failed", CAUSE_NAMES[cause])

    def released(self, deliveries: list[Delivery]) -> None:
        """They are back in their places; of those that have failed this is known already."""
        for delivery in deliveries:
            self.tracing.settled(delivery.tag, "released", "")

    def expired(self, queue: Queue, message: Message) -> None:
        self._ended(queue, message, "expired")

    def dead(self, queue: Queue, message: Message, is_expired: bool) -> None:
        self._ended(queue, message, "expired" if is_expired else "given-up")

    def _ended(self, queue: Queue, message: Message, outcome: str) -> None:
        traced = self._traced(queue.name, queue.kind, message)
        if traced is not None:
            self.tracing.ended(traced, outcome)

    def _traced(self, name: str, kind: int, message: Message) -> Traced | None:
        """Return the message if its way is traced."""
        if name.startswith(ADVISORIES):
            return None
        identity = self.context.message_id(message)
        parent = state = ""
        if PARENT_OCTETS in message.headers:  # as text in each encoding; most messages have none, and are not decoded
            parent, state = self.context.readers.properties(message, 1, False).trace_context()
        if not self.tracing.wants(parent, identity):
            return None
        return Traced(message, identity, parent, state, name, kind in (TOPIC, TEMP_TOPIC))
