"""Work held back until COMMIT.  Nothing of it is visible before; ABORT leaves no trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.consumers.client import Client
from engine.consumers.consumer import consumer_of
from engine.sources.composite import Composite
from engine.sources.identified import Identified
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.delivery import DELIST, ENLIST, Delivery, Refusal, advance
from engine.values.errors import TransactionError
from engine.values.message import Message

ACTION_BYTES: Final = 256  # per action, for its objects, rounded up


@dataclass(frozen=True, slots=True)
class TransactionLimits:
    """Limits of one connection and one transaction; beyond, the client gets an error that names the limit."""

    open_count: int = 16
    action_count: int = 10_000
    size_bytes: int = 64 * 1024 * 1024

    def check_open(self, count: int) -> None:
        """Raises: TransactionError if a connection with ``count`` open transactions may begin no other."""
        if count >= self.open_count:
            raise TransactionError(f"{self.open_count} transactions are open on this connection, which is the limit")


class Transaction:
    """Sends, acknowledgements and refusals of one client, in order.

    client: None once it is prepared, because it then belongs to no connection.

    An acknowledged delivery is ENLISTED.  Its place in the window is free, so a transaction may be larger than the
    window (ActiveMQ prefetchExtension; not with use-prefetch-extension false).  It stays in the consumer's ledger until
    COMMIT.
    scheduled_count: of messages, one per destination.
    identified: destinations of the sends with a duplicate id, and the messages that each of these sends became.
    """

    __slots__ = (
        "client",
        "name",
        "limits",
        "sends",
        "scheduled",
        "scheduled_count",
        "identified",
        "accepted",
        "refused",
        "_covered",
        "_covered_count",
        "action_count",
        "size_bytes",
    )

    def __init__(self, client: Client | None, name: str, limits: TransactionLimits) -> None:
        self.client = client
        self.name = name
        self.limits = limits
        self.sends: list[tuple[Queue | Topic, Message]] = []
        self.scheduled: list[tuple[Composite, Message]] = []
        self.scheduled_count = 0
        self.identified: list[tuple[Identified, list[Message]]] = []
        self.accepted: list[Delivery] = []
        self.refused: list[tuple[Delivery, Refusal]] = []
        self._covered: set[Delivery] = (
            set()
        )  # the first ``_covered_count`` of ``accepted``, once ``has_accepted`` was called
        self._covered_count = 0
        self.action_count = 0
        self.size_bytes = 0

    def add_send(self, destination: Queue | Topic, message: Message) -> None:
        """Raises: TransactionError past the limits."""
        self._count(1, message.size)
        self.sends.append((destination, message))

    def add_sends(self, sends: list[tuple[Queue | Topic, Message]]) -> None:
        """Add all sends of one message, or none of them.  Raises: TransactionError past the limits."""
        self._count(len(sends), sum(message.size for _, message in sends))
        self.sends.extend(sends)

    def add_scheduled(self, delayed: Composite, message: Message) -> None:
        """Raises: TransactionError past the limits."""
        self._count(len(delayed.parts), message.size * len(delayed.parts))
        self.scheduled_count += len(delayed.parts)
        self.scheduled.append((delayed, message))

    def count_identified(self, identified: Identified) -> None:
        """Count what a send with a duplicate id keeps beside its message.  Raises: TransactionError past the limits."""
        self._count(0, identified.memory_bytes())

    def add_accepted(self, deliveries: list[Delivery]) -> None:
        """Raises: TransactionError past the limits."""
        self._count(len(deliveries), 0)
        for delivery in deliveries:
            self._enlist(delivery)
        self.accepted.extend(deliveries)

    def has_accepted(self, delivery: Delivery) -> bool:
        """Say whether an acknowledgement in this transaction covers ``delivery``."""
        self._covered.update(self.accepted[self._covered_count :])
        self._covered_count = len(self.accepted)
        return delivery in self._covered

    def add_refused(self, deliveries: list[Delivery], refusal: Refusal) -> None:
        """Raises: TransactionError past the limits."""
        self._count(len(deliveries), 0)
        for delivery in deliveries:
            self._enlist(delivery)
        self.refused.extend((delivery, refusal) for delivery in deliveries)

    def memory_bytes(self) -> int:
        """Return its size in memory: its messages, and a little for each action."""
        return self.size_bytes + self.action_count * ACTION_BYTES

    def enlisted(self) -> list[Delivery]:
        """Return the deliveries that it acknowledged and refused."""
        return self.accepted + [delivery for delivery, _ in self.refused]

    def undo(self) -> list[Delivery]:
        """Forget everything; return the deliveries that it enlisted and that are with their consumers again.

        Deliveries of a consumer that has closed stay ENLISTED; the broker returns them to their queue.
        """
        enlisted = self.enlisted()
        for delivery in enlisted:
            consumer = consumer_of(delivery)
            if not consumer.is_closed:
                delivery.state = advance(delivery.state, DELIST)
                consumer.unanswered.start_over()
                queue = consumer.queue
                if queue.settings.prefetch.use_prefetch_extension:
                    consumer.window.retake(delivery.message.size)
                    consumer.window.limits.enlist(delivery.message.size, False)
                queue.in_flight_count += 1
                queue.fates.enlisted_count -= 1
                if consumer.window.is_full:
                    queue.unlist_consumer(consumer)
        self.sends = []
        self.scheduled = []
        self.scheduled_count = 0
        self.identified = []
        self.accepted = []
        self.refused = []
        self._covered.clear()
        self._covered_count = 0
        return enlisted

    def _enlist(self, delivery: Delivery) -> None:
        consumer = consumer_of(delivery)
        delivery.state = advance(delivery.state, ENLIST)
        if delivery.tag > consumer.furthest_tag:
            consumer.furthest_tag = delivery.tag
        queue = consumer.queue
        queue.in_flight_count -= 1
        queue.fates.enlisted_count += 1
        if queue.settings.prefetch.use_prefetch_extension:
            consumer.window.limits.enlist(delivery.message.size, True)
            if consumer.window.give_back(delivery.message.size):
                queue.list_consumer(consumer)

    def _count(self, actions: int, size_bytes: int) -> None:
        limits = self.limits
        if self.action_count + actions > limits.action_count:
            raise TransactionError(
                f"transaction {self.name[:200]!r} has {self.action_count + actions} actions, "
                f"the limit is {limits.action_count}"
            )
        if self.size_bytes + size_bytes > limits.size_bytes:
            raise TransactionError(
                f"transaction {self.name[:200]!r} holds {self.size_bytes + size_bytes} octets of messages, "
                f"the limit is {limits.size_bytes}"
            )
        self.action_count += actions
        self.size_bytes += size_bytes
