"""Names that answer questions about the broker, and the queues that represent them."""

from __future__ import annotations

from typing import Final

from engine.sources.queue import Queue
from engine.values.message import Message

STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
MANAGEMENT: Final = "ActiveMQ.Scheduler.Management"  # a queue or a topic, in any case (SchedulerBroker)


class QuestionQueue(Queue):
    """The target of a question; it holds nothing."""

    __slots__ = ()

    def enqueue(self, message: Message) -> None:
        raise AssertionError(f"{self.uri()} answers questions, and would keep {message.size} octets for ever")


def is_management(name: str) -> bool:
    """Say whether messages to ``name`` manage the schedule."""
    return len(name) == len(MANAGEMENT) and name.lower() == MANAGEMENT.lower()
