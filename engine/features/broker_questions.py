"""Questions that clients send to ActiveMQ's special destinations, and the sending of the answers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Final

from mypy_extensions import mypyc_attr

from engine.acceptance import Acceptance
from engine.backlog.context import Context
from engine.clients.naming import Naming
from engine.consumers.client import Client
from engine.limits.producer_gates import ProducerGates
from engine.sources.queue import QuestionQueue, Queue, is_management
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.destination import KIND_NAMES, QUEUE, TOPIC
from engine.values.errors import AddressFull, EngineError
from engine.values.message import Message

_PREFIXES: Final = tuple(
    (form.format(name), kind) for kind, name in KIND_NAMES.items() for form in ("/{}/", "{}://", "/remote-{}/")
)


@dataclass(slots=True, eq=False)
class Replies:
    """Sends answers."""

    context: Context
    clients: dict[int, Client]
    destinations: Destinations
    naming: Naming
    producer_gates: ProducerGates
    acceptance: Acceptance

    def asker(self) -> Client | None:
        """Return the client whose input is processed; None if a schedule delayed the question or it has gone."""
        return self.clients.get(self.context.sender)

    def target(self, reply_to: object) -> Queue | Topic | None:
        """Return the destination of an answer, None for none; the asking client must be allowed to send there.

        An answer is not a question: it is never sent to a name that answers questions.
        """
        if not isinstance(reply_to, str):
            return None
        for prefix, kind in _PREFIXES:
            if reply_to.startswith(prefix):
                try:
                    target = self._named(kind, reply_to[len(prefix) :])
                except EngineError:
                    return None
                return None if isinstance(target, QuestionQueue) else target
        return None

    def send(self, target: Queue | Topic, answer: Message) -> None:
        """Send the answer; drop it if a gate holds it back, or the asking client has closed the target.

        No client waits to send it again.
        """
        if target.is_closed:
            return
        producer_gates = self.producer_gates
        try:
            gate = producer_gates.refusal(target, answer)
        except AddressFull:
            return
        if gate == gates.DISCARDED:
            producer_gates.count_dropped(target)
        if gate == gates.OPEN:
            self.acceptance.publish_own(target, answer)

    def _named(self, kind: int, name: str) -> Queue | Topic | None:
        temporary = self.destinations.temporaries.get(name)  # AMQP clients do not mark temporary names
        if temporary is not None:
            return temporary
        client = self.asker()
        if client is not None:
            return self.naming.target(client, kind, name)
        if self.naming.access.is_open or kind not in (QUEUE, TOPIC):
            return self.destinations.target(kind, name)
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class Answerer:
    """Answers the questions to some of the names."""

    @abstractmethod
    def check(self, queue: QuestionQueue, question: Message) -> None:
        """Raises: InvalidOption for an invalid question; LimitReached for one too many; AccessDenied."""

    @abstractmethod
    def answer(self, queue: QuestionQueue, question: Message) -> None:
        """Carry out a question that was checked."""


@dataclass(slots=True, eq=False)
class Questions:
    """Finds the answerer.  management: of the schedule.  statistics: of everything else."""

    management: list[Answerer] = field(default_factory=list)
    statistics: list[Answerer] = field(default_factory=list)

    def answerers(self, queue: QuestionQueue) -> list[Answerer]:
        return self.management if is_management(queue.name) else self.statistics

    def check(self, queue: QuestionQueue, question: Message) -> None:
        """Raises: InvalidOption for an invalid question; LimitReached for one too many; AccessDenied."""
        for one in self.answerers(queue):
            one.check(queue, question)

    def answer(self, queue: QuestionQueue, question: Message) -> None:
        for one in self.answerers(queue):
            one.answer(queue, question)
