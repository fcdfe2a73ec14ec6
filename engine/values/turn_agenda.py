"""Whether the end of a turn has more to look at than the queues that are dirty."""

from __future__ import annotations


class TurnAgenda:
    """A part that has something to do at the end of a turn opens it, so that a turn in which no part has does one look.

    is_open: some part may have something to do; ``Turn`` asks each of them, and shuts it once none has.
    """

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = False
