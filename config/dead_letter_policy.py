"""Where a message goes that is given up: the only place that chooses its dead-letter destination."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeadLetterStrategy = Literal["shared", "individual", "discard"]


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """The destination of messages that are given up.  Terms: ActiveMQ DeadLetterStrategy.

    shared: the address settings' dead_letter_address; individual: a destination named after the message's own;
    discard: dropped, counted.  Artemis' auto-create-dead-letter-resources is ``individual`` with its own prefix.
    """

    strategy: DeadLetterStrategy = "shared"
    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    queue_suffix: str = ""
    topic_suffix: str = ""
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False
    # Whether expired messages without an expiry_address are moved here, as in ActiveMQ; for imported activemq.xml
    # files.
    process_expired: bool = False
    process_non_persistent: bool = True  # ActiveMQ drops these by default
    expiration_ms: int = 0  # of the dead letter; 0: never
    send_to_dla_on_no_route: bool = False  # messages that no queue and no subscription takes

    def destination(
        self, is_topic: bool, name: str, subscriber: str | None, shared: str | None
    ) -> tuple[bool, str] | None:
        """Return (whether it is a topic, its name) of the destination of a message that is given up; None: dropped.

        is_topic, name: of the message's destination.  shared: queue of the strategy ``shared``.
        subscriber: ``client id:subscription name`` of the durable subscription that gives the message up.
        """
        if self.strategy == "individual":
            return self._individual(is_topic, name, subscriber)
        if self.strategy == "discard" or shared is None:
            return None
        return False, shared

    def _individual(self, is_topic: bool, name: str, subscriber: str | None) -> tuple[bool, str]:
        if is_topic:
            base = f"{self.topic_prefix}{name}{self.topic_suffix}"
            if subscriber is not None and self.destination_per_durable_subscriber:
                base = f"{base}.{subscriber}"
            return not self.use_queue_for_topic_messages, base
        return not self.use_queue_for_queue_messages, f"{self.queue_prefix}{name}{self.queue_suffix}"
