"""Confirmations that an AMQP connection owes: the one place that knows what each waits for.

Two kinds of frames confirm something:

    an outcome          one delivery or discharge: it waits until this turn is durable, and nothing else waits for it
    an answer           to end, close, and attach or detach of a durable subscription: it stands for everything before
                        it, so it waits for all of that

No begin, attach, detach or end overtakes an answer: a session may begin again on the channel that has ended, a link on
the handle that was detached.  What such a session or link would send waits behind it (``BEGIN_RCVD``, ``ATTACH_RCVD``);
all others go on.  Where nothing is left to be made durable an answer waits for nothing.
"""

from __future__ import annotations

from abc import abstractmethod

from engine.door import Door
from protocols.owed_confirmations import Held, OwedConfirmations


class Endpoint(Held):
    """A session or a link of the peer.  state: of ``states``."""

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state

    @abstractmethod
    def sent(self) -> None:
        """Take note that our own begin or attach leaves."""

    def release(self) -> None:
        """Go on: our own begin or attach, which had to wait, leaves."""
        self.sent()


class Confirmations(OwedConfirmations):
    """Collected during a turn, stamped at its end.

    behind: what of this turn waits; held: who may send once it has left.
    is_answering: an answer is in ``behind``.  answer_offset: what the last answer waits for.
    is_due: the end of this turn has something to stamp besides outcomes.
    kept: outcomes of earlier turns, while something that the peer has refused is still being put back.
    """

    __slots__ = ("store", "settlements", "behind", "held", "is_answering", "is_due", "kept", "answer_offset")

    def __init__(self, door: Door, out: list[bytes]) -> None:
        super().__init__(out)
        self.store = door.store
        self.settlements = door.settlements
        self.behind: list[bytes] = []
        self.held: list[Held] = []
        self.is_answering = False
        self.is_due = False
        self.kept = b""
        self.answer_offset = 0

    def stand_for_all(self, is_refusing: bool) -> None:
        """Let what ``send`` is given from here on wait until everything before it is durable: it is an answer.

        is_refusing: something that the peer has refused is still being put back.
        """
        if self.is_answering:
            return
        if self.settlements.flush() > self.store.confirmed_offset() or is_refusing:
            self.is_answering = self.is_due = True

    def is_barred(self) -> bool:
        """Say whether an answer waits, which no begin, attach, detach or end may overtake."""
        return self.is_answering or self.barrier_count > 0

    def send(self, octets: bytes) -> None:
        """Send what must not overtake an answer."""
        if self.is_barred():
            self.behind.append(octets)
            self.is_due = True
        else:
            self.out.append(octets)

    def hold(self, one: Endpoint) -> bool:
        """Have ``one``, whose begin or attach is sent now, wait until that has left; return whether it must."""
        if self.is_barred():
            self.held.append(one)
            return True
        one.sent()
        return False

    def end_turn(self, outcomes: bytes, offset: int, confirmed_offset: int) -> None:
        """Stamp what this turn confirms; what may leave now goes to ``out``.

        outcomes: of the sessions that go on.
        """
        if self.kept:
            outcomes = self.kept + outcomes
            self.kept = b""
        if outcomes:
            self.owe(offset, outcomes, None, confirmed_offset)
        if self.is_due:
            if self.is_answering:
                self.answer_offset = offset
            octets = b"".join(self.behind)
            held = self.held
            self.is_answering = self.is_due = False
            self.behind.clear()
            self.held = []
            self.owe(self.answer_offset, octets, held, confirmed_offset)

    def release(self, offset: int) -> bool:
        is_owed = super().release(offset)
        if self.is_due and not self.is_barred():
            self.is_due = False
            self.out += self.behind
            self.behind.clear()
            for held in self.held:
                held.release()
            self.held.clear()
        return is_owed
