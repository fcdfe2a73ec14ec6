"""Bounds the work of one turn that grows with the number of destinations, consumers, selectors or groups.

A step is a look at one of them, or its wake-up: a few microseconds of work.  What one turn does not finish goes on in
the next, so no client's messages wait until all of it is done.  The cost of each message itself is not counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from engine.backlog.context import TurnAgenda
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget

if TYPE_CHECKING:
    from engine.backlog.delivery_row import LaneOwner

TURN_STEPS: Final = 3_600  # per turn; a step is some 25 lines of Python
CHORE_STEPS: Final = 1_800  # of these, per chore, so that others go on beside it
DEAD_LETTER_STEPS: Final = 30  # for a message that is given up, as it is added to another queue
END_STEPS: Final = 500  # kept for the end of a turn, so that chores also finish under steady traffic


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """Work that one turn may not finish."""

    @abstractmethod
    def go_on(self, steps: Steps) -> bool:
        """Do some of it while ``steps.left`` allows; say whether all is done."""


class Steps(TimerTarget):
    """The steps left in this turn, and the work that waits for the next ones.

    left: below 0 only because of work that could not be divided.
    reserved: for the end of the turn; lent: what the end took beyond what was left.
    most: the most that one turn has taken.
    chores: under way, the next one first.  postponed: queues to dispatch again in the next turn.
    """

    __slots__ = ("left", "reserved", "lent", "most", "chores", "postponed", "agenda", "_clock", "_timers", "_is_armed")

    def __init__(self, clock: Clock, timers: Timers, agenda: TurnAgenda) -> None:
        self.left = TURN_STEPS
        self.reserved = END_STEPS
        self.lent = 0
        self.most = 0
        self.chores: deque[Chore] = deque()
        self.postponed: dict[LaneOwner, None] = {}
        self.agenda = agenda
        self._clock = clock
        self._timers = timers
        self._is_armed = False

    def begin(self, chore: Chore) -> None:
        """Add a chore; it goes on in this turn as far as the steps allow."""
        self.chores.append(chore)
        self.agenda.is_open = True

    def take_up(self, chore: Chore) -> None:
        """Let a chore go on at once; what this turn does not finish follows in the next ones."""
        if not chore.go_on(self):
            self.begin(chore)
            self.need_a_turn()

    def begin_end(self) -> None:
        """The inputs of this turn are over: make steps available for its end."""
        if self.left < self.reserved:
            self.lent = self.reserved - self.left
            self.left = self.reserved

    def left_to_others(self) -> int:
        """Return the steps left at which a chore that starts now has used its share of this turn."""
        return max(0, self.left - CHORE_STEPS)

    def run_chores(self) -> None:
        """Let each chore go on in turn, until all are done or the turn has no steps left."""
        for _ in range(len(self.chores)):
            if self.left <= 0:
                break
            chore = self.chores.popleft()
            if not chore.go_on(self):
                self.chores.append(chore)
        if self.chores:
            self.need_a_turn()

    def postpone(self, queue: LaneOwner) -> None:
        """Have ``queue`` dispatched in the next turn, too: this one had no steps left for it."""
        self.postponed[queue] = None
        self.need_a_turn()

    def need_a_turn(self) -> None:
        """Request another turn right after this one."""
        if not self._is_armed:
            self._is_armed = True
            self._timers.call_at(self._clock.monotonic_ms(), self, 0)

    def is_waiting(self) -> bool:
        """Say whether another turn was requested."""
        return self._is_armed

    def end_turn(self) -> None:
        taken = TURN_STEPS + self.lent - self.left
        self.lent = 0
        if taken > self.most:
            self.most = taken
        self.left = TURN_STEPS
        self.reserved = END_STEPS

    def timer_fired(self, key: int) -> None:
        self._is_armed = False
        postponed = self.postponed
        self.postponed = {}
        for queue in postponed:
            queue.mark_dirty()
