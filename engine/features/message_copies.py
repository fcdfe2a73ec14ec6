"""Copies of one message for all destinations it reaches, by name or by virtual topics."""

from __future__ import annotations

from typing import Final

from engine.features.broker_questions import Questions
from engine.features.virtual_topics import VirtualTopics
from engine.sources.composite import Composite, Destination, Target
from engine.sources.question_queue import QuestionQueue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic
from engine.values.errors import LimitReached
from engine.values.message import Message

COMPOSITE_BYTES_MAX: Final = 64 * 1024 * 1024  # of one message, over all destinations named by its sender


class MessageCopies:
    """Makes a message for each destination that is reached."""

    __slots__ = ("_destinations", "_questions", "_virtual_topics")

    def __init__(self, destinations: Destinations, questions: Questions, virtual_topics: VirtualTopics) -> None:
        self._destinations = destinations
        self._questions = questions
        self._virtual_topics = virtual_topics

    def expand(self, destination: Destination, message: Message) -> list[tuple[Target, Message]]:
        """Return the messages that sending ``message`` makes, one for each destination that it reaches.

        Raises: InvalidDestination if one of them is a temporary destination that is gone; InvalidOption for an invalid
        question; LimitReached for one too many; AccessDenied for a question about what its sender may not see.
        """
        if isinstance(destination, Composite):
            size_bytes = message.size * len(destination.parts)
            if size_bytes > COMPOSITE_BYTES_MAX:
                raise LimitReached(
                    f"a message of {message.size} octets to {len(destination.parts)} destinations takes "
                    f"{size_bytes} octets; allowed are {COMPOSITE_BYTES_MAX} at once"
                )
            found: list[tuple[Target, Message]] = []
            for part in destination.parts:
                found += self.expand(part, message.copy_to(part.destination_id))
            return found
        if destination.is_closed:
            # The sender refers to a deleted destination; it is recreated by name, unless it was temporary.
            destination = self._destinations.target(destination.kind, destination.name)
            message.destination_id = destination.destination_id
        if isinstance(destination, QuestionQueue):
            self._questions.check(destination, message)
        found = [(destination, message)]
        if isinstance(destination, Topic) and destination.copies:
            found += self._virtual_topics.copies(destination, message)
        return found
