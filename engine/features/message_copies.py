"""Copies of one message for all destinations it reaches, by name or by virtual topics."""

from __future__ import annotations

from dataclasses import dataclass

from engine.backlog.context import Context
from engine.clients.naming import Naming
from engine.consumers.client import Client
from engine.features.broker_questions import Questions
from engine.features.virtual_topics import VirtualTopics
from engine.sources.composite import Composite, Destination, Target
from engine.sources.queue import QuestionQueue
from engine.sources.topics.topic import Topic
from engine.values.errors import LimitReached
from engine.values.message import Message


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """What one message may become, over all destinations that it reaches; all of it is one batch of the log.

    A message to a single destination has other limits.
    """

    count: int = 5_000
    size_bytes: int = 64 * 1024 * 1024


class MessageCopies:
    """Makes a message for each destination that is reached."""

    __slots__ = ("_context", "_clients", "_naming", "_questions", "_virtual_topics", "_limits")

    def __init__(
        self,
        context: Context,
        clients: dict[int, Client],
        naming: Naming,
        questions: Questions,
        virtual_topics: VirtualTopics,
        limits: CopyLimits,
    ) -> None:
        """clients: by number."""
        self._context = context
        self._clients = clients
        self._naming = naming
        self._questions = questions
        self._virtual_topics = virtual_topics
        self._limits = limits

    def there(self, destination: Target, is_owed: bool = False) -> Target:
        """Return a destination of the client whose input is processed, made again by its name if it was deleted.

        is_owed, and what it raises: as in ``Naming.made_again``.
        """
        if not destination.is_closed:
            return destination
        return self._naming.made_again(self._clients.get(self._context.sender), destination, is_owed)

    def expand(self, destination: Destination, message: Message) -> list[tuple[Target, Message]]:
        """Return the messages that sending ``message`` makes, one for each destination that it reaches.

        Raises: InvalidDestination if one of them is a temporary destination that is gone; InvalidOption for an invalid
        question; LimitReached for one too many; AccessDenied for a question about what its sender may not see; what
        ``there`` raises.
        """
        parts = destination.parts if isinstance(destination, Composite) else [destination]
        targets = [self.there(part) for part in parts]
        self._require_few(targets, message)
        found: list[tuple[Target, Message]] = []
        for target in targets:
            one = message
            if isinstance(destination, Composite):
                one = message.copy_to(target.destination_id)
            else:
                message.destination_id = target.destination_id  # its sender may refer to a deleted destination
            if isinstance(target, QuestionQueue):
                self._questions.check(target, one)
            found.append((target, one))
            if isinstance(target, Topic) and target.copies:
                found += self._virtual_topics.copies(target, one)
        return found

    def _require_few(self, targets: list[Target], message: Message) -> None:
        """Raises: LimitReached if the message would become too many, or too much."""
        count = sum(1 + len(target.copies) if isinstance(target, Topic) else 1 for target in targets)
        limits = self._limits
        size_bytes = message.size * count
        if count > 1 and (count > limits.count or size_bytes > limits.size_bytes):
            raise LimitReached(
                f"a message of {message.size} octets to {count} destinations, those of virtual topics included, takes "
                f"{size_bytes} octets; allowed are {limits.count} destinations (limits.copies) and {limits.size_bytes} "
                "octets (limits.copies-bytes)"
            )
