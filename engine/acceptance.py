"""Accepts messages: past the gates, into the log or the memory budget, and on to queues and subscriptions."""

from __future__ import annotations

from engine.backlog.context import Context
from engine.dispatch.message_traces import MessageTraces
from engine.fate.dead_letters import DeadLetters
from engine.limits.producer_gates import ProducerGates
from engine.sources.composite import Target
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.sources.topics.topic_publication import TopicPublication
from engine.values import gates
from engine.values.message import PERSISTENT, Message


class Acceptance:
    """Accepts messages from clients and from the broker itself.

    joins: of wildcards that have not joined all topics yet.
    """

    __slots__ = ("context", "store", "memory", "producer_gates", "publication", "joins", "dead_letters", "_next_serial")

    def __init__(
        self, context: Context, producer_gates: ProducerGates, publication: TopicPublication, dead_letters: DeadLetters
    ) -> None:
        self.context = context
        self.store = context.store
        self.memory = context.memory
        self.producer_gates = producer_gates
        self.publication = publication
        self.joins = publication.joins
        self.dead_letters = dead_letters
        self._next_serial = 1

    def send(self, destination: Target, message: Message) -> int:
        """Accept ``message``, or return the gate that refuses it.  Raises: AddressFull if the policy is to fail."""
        gate = self.producer_gates.refusal(destination, message)
        if gate == gates.DISCARDED:
            self.producer_gates.count_dropped(destination)
            return gates.OPEN
        if gate == gates.OPEN:
            self.accept(destination, message)
        return gate

    def send_granted(self, destination: Target, message: Message) -> int:
        """Accept a message despite its full address, because its sender had been granted credit for it.

        Return the gate of the disk or the memory that refuses it nevertheless, gates.OPEN for none.
        """
        gate = self.producer_gates.machine_gate(destination, message)
        if gate == gates.OPEN:
            self.accept(destination, message)
        return gate

    def accept(self, destination: Target, message: Message) -> None:
        """Put ``message`` into its destination; the caller has checked the gates."""
        if destination.intake is not None:
            destination.intake.stamp(message, self.context.wall_ms)
        if self.joins and isinstance(destination, Topic):
            self.publication.join_now(destination, self.context.sender)
        if destination.is_logged and (message.flags & PERSISTENT or destination.settings.log_non_persistent):
            self.store.append(message)
            if isinstance(destination, Queue):
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                return
        else:
            message.serial = self._next_serial
            self._next_serial += 1
            message.store_time_ms = self.context.store_time_ms
            if isinstance(destination, Queue):
                self.memory.hold(message)
                destination.enqueue(message)
                if destination.rotation and not destination.is_dirty:
                    destination.mark_dirty()
                if self.memory.used_bytes + self.memory.paged_bytes >= self.memory.near_bytes:
                    self.producer_gates.block()
                return
        if destination.late is not None:
            self.publication.publish_later(destination, destination.late, message, self.context.sender)
        else:
            destination.publish(message, self.memory)
            if destination.is_choosy:
                self.publication.offer(destination, message, self.context.sender)
        if self.memory.used_bytes + self.memory.paged_bytes >= self.memory.near_bytes:
            self.producer_gates.block()

    def send_on(self) -> None:
        """Dead-letter accepted messages that nobody takes, if their topics want it."""
        if self.publication.unrouted:
            self.dead_letters.send_on()

    def publish_own(self, target: Target, message: Message) -> None:
        """Send a message of the broker itself, which no gate holds."""
        context = self.context
        sender = context.sender
        context.sender = 0
        self.accept(target, message)
        self.send_on()
        context.sender = sender


class TracedAcceptance(Acceptance):
    """Also reports accepted messages to a tracer; a subclass, so that this costs nothing where there is none."""

    __slots__ = ("traces",)

    def __init__(
        self,
        context: Context,
        producer_gates: ProducerGates,
        publication: TopicPublication,
        dead_letters: DeadLetters,
        traces: MessageTraces,
    ) -> None:
        super().__init__(context, producer_gates, publication, dead_letters)
        self.traces = traces

    def accept(self, destination: Target, message: Message) -> None:
        Acceptance.accept(self, destination, message)
        self.traces.accepted(destination.name, destination.kind, message)
