"""Destinations of delayed messages."""

from __future__ import annotations

from engine.features.scheduler.plan import Plan
from engine.features.scheduler.schedule_record import standing_lines
from engine.sources.composite import Composite, Destination, Target
from engine.sources.identified import Identified
from engine.sources.queue import QuestionQueue
from engine.values.errors import InvalidDestination


class Delayed(Composite):
    """Sends to ``parts`` when ``plan`` says so.  It is a destination like others, so undelayed sends pay no cost for
    it.

    lines: content of the record of each part.  numbers: of the parts; negative for those that the store
    does not know.
    """

    __slots__ = ("plan", "lines", "numbers")

    def __init__(self, parts: list[Target], plan: Plan) -> None:
        super().__init__(parts)
        self.plan = plan
        if len(parts) == 1:  # nearly always
            part = parts[0]
            self.lines = [standing_lines(part.kind, part.name, plan)]
            self.numbers = [part.destination_id]
        else:
            self.lines = [standing_lines(part.kind, part.name, plan) for part in parts]
            self.numbers = [part.destination_id for part in parts]


def is_logged_anyway(destination: Destination) -> bool:
    """Say whether a message to ``destination`` is logged even if it is not persistent: all scheduled messages are."""
    return isinstance(destination.inner if isinstance(destination, Identified) else destination, Delayed)


def delayed(destination: Destination, plan: Plan) -> Delayed:
    """Return the delayed form of ``destination``.

    Raises: InvalidDestination for one that answers at once and keeps nothing.
    """
    parts = destination.parts if isinstance(destination, Composite) else [destination]
    for part in parts:
        if isinstance(part, QuestionQueue):
            raise InvalidDestination(f"{part.uri()} answers at once; allowed is a message without a delay")
    return Delayed(parts, plan)
