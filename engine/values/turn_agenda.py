"""Whether the end of a turn has more work than the dirty queues."""

from __future__ import annotations


class TurnAgenda:
    """A part with work for the end of a turn opens the agenda; a turn without such work costs one test.

    is_open: some part may have work; ``Turn`` asks each of them, and shuts the agenda once none has any.
    """

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = False
