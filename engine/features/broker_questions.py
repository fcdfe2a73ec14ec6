"""Questions that clients ask the broker with a message to a name of ActiveMQ's, and the way of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.ports.client import Client
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values import gates
from engine.values.destination import KIND_NAMES, QUEUE, TOPIC
from engine.values.errors import AddressFull, EngineError
from engine.values.message import Message

if TYPE_CHECKING:
    from engine.broker import Broker

MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"  # a queue or a topic, in any case (SchedulerBroker)

_PREFIXES: Final = tuple(
    (form.format(name), kind) for kind, name in KIND_NAMES.items() for form in ("/{}/", "{}://", "/remote-{}/")
)


class QuestionQueue(Queue):
    """Where a question goes; it holds nothing."""

    __slots__ = ()

    def enqueue(self, message: Message) -> None:
        raise AssertionError(f"{self.uri()} answers questions, and would keep {message.size} octets for ever")


def is_management(name: str) -> bool:
    """Say whether messages to ``name`` look after the schedule."""
    return len(name) == len(MANAGEMENT) and name.lower() == MANAGEMENT.lower()


def reply_target(broker: Broker, reply_to: object) -> Queue | Topic | None:
    """Return where an answer goes, None for nowhere: who asks must be allowed to send there.

    An answer is no question: nothing goes to a name that only answers.
    """
    if not isinstance(reply_to, str):
        return None
    client = broker.clients.get(broker.sender)
    for prefix, kind in _PREFIXES:
        if reply_to.startswith(prefix):
            try:
                target = _named(broker, client, kind, reply_to[len(prefix) :])
            except EngineError:
                return None
            return None if isinstance(target, QuestionQueue) else target
    return None


def _named(broker: Broker, client: Client | None, kind: int, name: str) -> Queue | Topic | None:
    temporary = broker.destinations.temporaries.get(name)  # AMQP clients do not say that it is one
    if temporary is not None:
        return temporary
    if broker.access.is_open or kind not in (QUEUE, TOPIC):
        return broker.destinations.target(kind, name)
    # Nobody knows who asked once a schedule has delayed the question, or its sender has gone.
    return None if client is None else broker.target(client, kind, name)


def send_answer(broker: Broker, target: Queue | Topic, answer: Message) -> None:
    """Send it unless a gate holds it back, or who asked has closed the target; then it is dropped.

    Nobody waits to send it again.
    """
    if target.is_closed:
        return
    flow = broker.flow
    try:
        gate = flow.refusal(target, answer)
    except AddressFull:
        return
    if gate == gates.DISCARDED:
        flow.count_dropped(target)
    if gate == gates.OPEN:
        broker.publish_own(target, answer)
