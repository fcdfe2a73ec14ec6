"""Bounds the work of one turn that grows with the number of destinations, consumers, selectors, groups or frames.

A step is a look at one of them, or its wake-up: a few microseconds of work.  What one turn does not finish goes on in
the next, so no client's messages wait until all of it is done.  The cost of each message itself is not counted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mypy_extensions import mypyc_attr

from engine.backlog.context import Context, TurnAgenda
from engine.backlog.delivery_row import LaneOwner
from engine.ports.timers import TimerTarget

TURN_STEPS: Final = 3_600  # per turn; a step is some 25 lines of Python
CHORE_STEPS: Final = 1_800  # of these, per chore, so that others go on beside it
DEAD_LETTER_STEPS: Final = 30  # for a message that is given up, as it is added to another queue
QUEUE_STEPS: Final = 4  # for the dispatch of a queue that may have nothing to hand over
POSTPONED_QUEUES: Final = 100  # that a turn takes up again: even queues that find no steps left cost something
END_STEPS: Final = 500  # kept for the end of a turn, so that chores also finish under steady traffic
NOBODY: Final = 0  # instead of a client: the chore is for several, or for none
INPUT_PART: Final = 2  # part of the steps left at the end of a turn that frames of earlier reads leave to other work


@mypyc_attr(allow_interpreted_subclasses=True)
class WaitingInput:
    """A connection with octets whose frames wait for a later turn."""

    @abstractmethod
    def go_on(self) -> None:
        """Take frames while its share of this turn lasts; if some are left, wait again (``Steps.wait``)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """Work that one turn may not finish."""

    @abstractmethod
    def go_on(self, steps: Steps) -> bool:
        """Do some of it while ``steps.left`` allows; say whether all is done."""


class Chores:
    """Chores in rows: one for each client that may begin thousands, and one for each that is nobody's.

    Rows take turns, and so do the chores of a row, so none waits behind all that another client has begun.
    """

    __slots__ = ("_rows", "_count", "_next_row")

    def __init__(self) -> None:
        self._rows: dict[int, deque[Chore]] = {}
        self._count = 0
        self._next_row = -1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Chore]:
        for chores in self._rows.values():
            yield from chores

    def add(self, chore: Chore, client: int) -> None:
        row = client
        if client == NOBODY:
            row = self._next_row
            self._next_row = row - 1
        self.put_back(chore, row)

    def take(self) -> tuple[Chore, int]:
        """Remove and return the next chore and its row, whose others come after those of all rows."""
        row = next(iter(self._rows))
        chores = self._rows.pop(row)
        chore = chores.popleft()
        if chores:
            self._rows[row] = chores
        self._count -= 1
        return chore, row

    def put_back(self, chore: Chore, row: int) -> None:
        self._rows.setdefault(row, deque()).append(chore)
        self._count += 1


@dataclass(slots=True, eq=False)
class Steps(TimerTarget):
    """The steps left in this turn, and the work that waits for the next ones.

    left: below 0 only because of work that could not be divided.
    reserved: for the end of the turn; lent: what the end took beyond what was left.
    most: the most that one turn has taken.
    chores: under way.  postponed: queues to dispatch again in the next turn.
    inputs: connections whose frames wait, the next one first.  input_floor: steps that these leave to other work,
    0 while none of them goes on.
    is_armed: another turn was requested.
    turn: number of a turn; it stays the same over turns that take no steps.
    """

    _context: Context
    agenda: TurnAgenda = field(init=False)
    left: int = TURN_STEPS
    reserved: int = END_STEPS
    lent: int = 0
    most: int = 0
    chores: Chores = field(default_factory=Chores)
    postponed: dict[LaneOwner, None] = field(default_factory=dict)
    inputs: deque[WaitingInput] = field(default_factory=deque)
    input_floor: int = 0
    turn: int = 0
    is_armed: bool = False

    def __post_init__(self) -> None:
        self.agenda = self._context.agenda

    def begin(self, chore: Chore, client: int = NOBODY) -> None:
        """Add a chore; it goes on in this turn as far as the steps allow.  client: one that may begin thousands."""
        self.chores.add(chore, client)
        self.agenda.is_open = True

    def take_up(self, chore: Chore, client: int = NOBODY) -> None:
        """Let a chore go on at once; what this turn does not finish follows in the next ones."""
        if self.begin_now(chore, client):
            self.need_a_turn()

    def begin_now(self, chore: Chore, client: int = NOBODY) -> bool:
        """Do the same if the turn ends in any case; say whether something is left."""
        if chore.go_on(self):
            return False
        self.begin(chore, client)
        return True

    def wait(self, one: WaitingInput) -> None:
        """Let a connection go on at the end of this turn or of a later one, after those that wait already."""
        self.inputs.append(one)
        self.agenda.is_open = True

    def begin_end(self) -> None:
        """The inputs of this turn are over: make steps available for its end."""
        if self.left < self.reserved:
            self.lent = self.reserved - self.left
            self.left = self.reserved

    def left_to_others(self) -> int:
        """Return the steps left at which a chore that starts now has used its share of this turn."""
        return max(0, self.left - CHORE_STEPS)

    def run_inputs(self) -> None:
        """Let each waiting connection go on in turn, while more is left than a part for other work."""
        self.input_floor = self.left // INPUT_PART
        for _ in range(len(self.inputs)):
            if self.left <= self.input_floor:
                break
            self.inputs.popleft().go_on()
        self.input_floor = 0

    def run_chores(self) -> None:
        """Let each chore go on in turn, until all are done or the turn has no steps left."""
        for _ in range(len(self.chores)):
            if self.left <= 0:
                break
            chore, row = self.chores.take()
            if not chore.go_on(self):
                self.chores.put_back(chore, row)
        if self.chores:
            self.need_a_turn()

    def postpone(self, queue: LaneOwner) -> None:
        """Have ``queue`` dispatched in the next turn, too: this one had no steps left for it."""
        self.postponed[queue] = None
        self.need_a_turn()

    def resume(self, queue: LaneOwner) -> None:
        """Have ``queue``, one of perhaps thousands, dispatched in this turn if there are steps, else in a later one."""
        if self.left > 0:
            self.left -= QUEUE_STEPS
            queue.mark_dirty()
        else:
            self.postpone(queue)

    def need_a_turn(self) -> None:
        """Request another turn right after this one."""
        if not self.is_armed:
            self.is_armed = True
            self._context.call_later(0, self, 0)

    def end_turn(self) -> None:
        taken = TURN_STEPS + self.lent - self.left
        self.lent = 0
        if taken > self.most:
            self.most = taken
        self.turn += 1
        self.left = TURN_STEPS
        self.reserved = END_STEPS

    def timer_fired(self, key: int) -> None:
        self.is_armed = False
        for queue in list(islice(self.postponed, POSTPONED_QUEUES)):
            del self.postponed[queue]
            queue.mark_dirty()
        if self.postponed:
            self.need_a_turn()
