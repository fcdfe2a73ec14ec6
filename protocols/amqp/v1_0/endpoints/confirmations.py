"""Confirmations that an AMQP connection owes: only this file knows what each waits for.

Two kinds of frames confirm something:

    an outcome          of one delivery or discharge: it waits until this turn is durable, and nothing waits for it
    an answer           to end, close, and attach or detach of a durable subscription: it confirms everything before
                        it, so it waits until all of that is durable

No begin, attach, detach or end overtakes an answer, because a session may begin again on a channel that has ended, and
a link may attach again with a handle that was detached.  Such a session or link sends nothing until the answer has left
(``BEGIN_RCVD``, ``ATTACH_RCVD``); all others go on.  An answer leaves at once if everything is durable already.
"""

from __future__ import annotations

from abc import abstractmethod

from engine.api import EngineApi
from protocols.owed_confirmations import Deferred, OwedConfirmations


class Endpoint(Deferred):
    """A session or a link of the peer.  state: of ``states``."""

    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state

    @abstractmethod
    def sent(self) -> None:
        """Note that our own begin or attach is being sent."""

    def release(self) -> None:
        """Go on: our own begin or attach, which had to wait, is being sent."""
        self.sent()


class Confirmations(OwedConfirmations):
    """Collected during a turn, stamped at its end.

    behind: frames of this turn that wait; deferred: sessions and links that may send once these have left.
    is_answering: ``behind`` has an answer.  answer_offset: the log offset that the last answer waits for.
    is_due: the end of this turn has something to stamp besides outcomes.
    kept: outcomes of earlier turns, kept while refused deliveries of the peer are still being put back.
    """

    __slots__ = ("store", "settlements", "behind", "deferred", "is_answering", "is_due", "kept", "answer_offset")

    def __init__(self, engine: EngineApi, out: list[bytes]) -> None:
        super().__init__(out)
        self.store = engine.store
        self.settlements = engine.settlements
        self.behind: list[bytes] = []
        self.deferred: list[Deferred] = []
        self.is_answering = False
        self.is_due = False
        self.kept = b""
        self.answer_offset = 0

    def stand_for_all(self, is_refusing: bool) -> None:
        """Begin an answer: frames passed to ``send`` from here on wait until everything before them is durable.

        is_refusing: refused deliveries of the peer are still being put back.
        """
        if self.is_answering:
            return
        if self.settlements.flush() > self.store.confirmed_offset() or is_refusing:
            self.is_answering = self.is_due = True

    def is_barred(self) -> bool:
        """Say whether an answer waits; no begin, attach, detach or end may overtake it."""
        return self.is_answering or self.barrier_count > 0

    def send(self, octets: bytes) -> None:
        """Send a frame that must not overtake an answer."""
        if self.is_barred():
            self.behind.append(octets)
            self.is_due = True
        else:
            self.out.append(octets)

    def defer(self, one: Endpoint) -> bool:
        """Hold ``one`` back until its begin or attach, which is sent now, has left; return whether it must wait."""
        if self.is_barred():
            self.deferred.append(one)
            return True
        one.sent()
        return False

    def end_turn(self, outcomes: bytes, offset: int, confirmed_offset: int) -> None:
        """Stamp the confirmations of this turn; append those that may leave now to ``out``.

        outcomes: of the sessions that have not ended.
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
            deferred = self.deferred
            self.is_answering = self.is_due = False
            self.behind.clear()
            self.deferred = []
            self.owe(self.answer_offset, octets, deferred, confirmed_offset)

    def forget(self) -> None:
        super().forget()
        self.behind.clear()
        self.deferred.clear()
        self.is_answering = self.is_due = False
        self.kept = b""

    def release(self, offset: int) -> bool:
        is_owed = super().release(offset)
        if self.is_due and not self.is_barred():
            self.is_due = False
            self.out += self.behind
            self.behind.clear()
            for deferred in self.deferred:
                deferred.release()
            self.deferred.clear()
        return is_owed
