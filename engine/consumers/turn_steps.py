"""How much one turn does of what grows with the number of destinations, consumers, selectors or groups.

A step is one of them looked at or woken, a few microseconds of work.  What one turn does not come to goes on in the
next, so that nobody's messages wait until all of it is done.  What each message costs by itself is not counted.
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

TURN_STEPS: Final = 3_600  # of one turn: some 25 lines of Python each
CHORE_STEPS: Final = 1_800  # of these, that one thing under way may take, so that others go on beside it
DEAD_LETTER_STEPS: Final = 30  # of a message that is given up: it is one more in another queue
END_STEPS: Final = 500  # at its end, however much its inputs have taken: what is under way ends beside steady traffic


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """Something that one turn may not finish."""

    @abstractmethod
    def go_on(self, steps: Steps) -> bool:
        """Do some of it while ``steps.left`` allows; say whether all is done."""


class Steps(TimerTarget):
    """The steps left in this turn, and the work that waits for those of the next.

    left: below 0 only by what could not be divided.  reserved: for its end; lent: what that took beyond it.
    most: the most that one turn has taken.
    chores: under way, the one whose turn it is first.  postponed: queues to dispatch again in the next turn.
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
        """Take up something; it goes on in this turn as far as that allows."""
        self.chores.append(chore)
        self.agenda.is_open = True

    def take_up(self, chore: Chore) -> None:
        """Let something go on at once; what this turn does not come to follows in the next ones."""
        if not chore.go_on(self):
            self.begin(chore)
            self.need_a_turn()

    def begin_end(self) -> None:
        """The inputs of this turn are over: leave some for what follows them."""
        if self.left < self.reserved:
            self.lent = self.reserved - self.left
            self.left = self.reserved

    def left_to_others(self) -> int:
        """Return at how many steps left a chore that goes on now has had its share of this turn."""
        return max(0, self.left - CHORE_STEPS)

    def run_chores(self) -> None:
        """Let each chore go on in turn, until all are done or the steps of this turn are."""
        for _ in range(len(self.chores)):
            if self.left <= 0:
                break
            chore = self.chores.popleft()
            if not chore.go_on(self):
                self.chores.append(chore)
        if self.chores:
            self.need_a_turn()

    def postpone(self, queue: LaneOwner) -> None:
        """Have ``queue`` dispatched in the next turn, too: this one had no steps left for all of it."""
        self.postponed[queue] = None
        self.need_a_turn()

    def need_a_turn(self) -> None:
        """Have another turn follow at once."""
        if not self._is_armed:
            self._is_armed = True
            self._timers.call_at(self._clock.monotonic_ms(), self, 0)

    def is_waiting(self) -> bool:
        """Say whether something goes on in the next turn."""
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
