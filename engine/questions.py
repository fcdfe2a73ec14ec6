"""Questions that clients ask the broker with a message to a name of ActiveMQ's, and the way of the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine import gates
from engine.destination import KIND_NAMES, QUEUE, TOPIC
from engine.errors import AddressFull, EngineError
from engine.message import Message
from engine.queue import Queue
from engine.topic import Topic

if TYPE_CHECKING:
    from engine.broker import Broker

MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"  # a queue or a topic, in any case (SchedulerBroker)

_PREFIXES: Final = tuple(
    (form.format(name), kind) for kind, name in KIND_NAMES.items() for form in ("/{}/", "{}://", "/remote-{}/")
)


class QuestionQueue(Queue):
    """Where a question goes; it holds nothing."""

    __slots__ = ()


def is_management(name: str) -> bool:
    """Say whether messages to ``name`` look after the schedule."""
    return len(name) == len(MANAGEMENT) and name.lower() == MANAGEMENT.lower()


def reply_target(broker: Broker, reply_to: object) -> Queue | Topic | None:
    """Return where an answer goes, None for nowhere: who asks must be allowed to send there."""
    if not isinstance(reply_to, str):
        return None
    client = broker.clients.get(broker.sender)
    for prefix, kind in _PREFIXES:
        if reply_to.startswith(prefix):
            try:
                name = reply_to[len(prefix) :]
                temporary = broker.destinations.temporaries.get(name)  # AMQP clients do not say that it is one
                if temporary is not None:
                    return temporary
                if broker.access.is_open or kind not in (QUEUE, TOPIC):
                    return broker.destinations.target(kind, name)
                # Nobody knows who asked once a schedule has delayed the question, or its sender has gone.
                return None if client is None else broker.target(client, kind, name)
            except EngineError:
                return None
    return None


def send_answer(broker: Broker, target: Queue | Topic, answer: Message) -> None:
    """Send it unless a gate holds it back; then it is dropped, for nobody waits to send it again."""
    flow = broker.flow
    try:
        gate = flow.refusal(target, answer)
    except AddressFull:
        return
    if gate == gates.DISCARDED:
        flow.count_dropped(target)
    if gate == gates.OPEN:
        broker.publish_own(target, answer)
