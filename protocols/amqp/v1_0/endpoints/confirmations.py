"""What an AMQP connection has confirmed and may not say yet: the one place that knows what a confirmation waits for.

Two kinds of frames confirm something:

    an outcome          one delivery or discharge: it waits until this turn is durable, and nothing else waits for it
    an answer           to end, close, and attach or detach of a durable subscription: it stands for everything before
                        it, so it waits for all of that

No begin, attach, detach or end overtakes an answer: a session may begin again on the channel that has ended, a link on
the handle that was detached.  What such a session or link would send waits behind it (``is_behind``); all others go on.
Where nothing is left to be made durable an answer waits for nothing.
"""

from __future__ import annotations

from engine.broker import Broker
from engine.values.message import PERSISTENT, Message
from protocols.owed_confirmations import Held, OwedConfirmations


def waits(message: Message) -> bool:
    """Say whether the outcome of ``message``, which has been taken, waits until this turn is durable.

    A persistent one does, however it was taken: a composite destination and a virtual topic log copies of it.  One
    that is not persistent does where it was logged all the same, as what is scheduled is.
    """
    return message.flags & PERSISTENT != 0 or message.log_offset >= 0


class Answered(Held):
    """A session or link.  is_behind: our begin or attach has not left yet, and it sends nothing before."""

    __slots__ = ("is_behind",)

    def __init__(self) -> None:
        self.is_behind = False

    def release(self) -> None:
        self.is_behind = False


class Confirmations(OwedConfirmations):
    """Collected during a turn, stamped at its end.

    behind: what of this turn waits; held: who may send once it has left.
    is_answering: an answer is in ``behind``.  answer_offset: what the last answer waits for.
    """

    __slots__ = ("broker", "behind", "held", "is_answering", "answer_offset")

    def __init__(self, broker: Broker, out: list[bytes]) -> None:
        super().__init__(out)
        self.broker = broker
        self.behind: list[bytes] = []
        self.held: list[Held] = []
        self.is_answering = False
        self.answer_offset = 0

    def stand_for_all(self) -> None:
        """Let what ``send`` is given from here on wait until everything before it is durable: it is an answer."""
        if not self.is_answering:
            self.is_answering = self.broker.flush_settlements() > self.broker.store.confirmed_offset()

    def is_barred(self) -> bool:
        """Say whether an answer waits, which no begin, attach, detach or end may overtake."""
        return self.is_answering or self.barrier_count > 0

    def send(self, octets: bytes) -> None:
        """Send what must not overtake an answer."""
        (self.behind if self.is_barred() else self.out).append(octets)

    def hold(self, one: Answered) -> None:
        """Have ``one``, whose begin or attach is sent now, wait until that has left."""
        if self.is_barred():
            one.is_behind = True
            self.held.append(one)

    def end_turn(self, outcomes: bytes, offset: int, confirmed_offset: int) -> None:
        """Stamp what this turn confirms; what may leave now goes to ``out``.

        outcomes: of the sessions that go on.
        """
        if outcomes:
            self.owe(offset, outcomes, None, confirmed_offset)
        if self.is_answering or self.behind:
            if self.is_answering:
                self.answer_offset = offset
            octets = b"".join(self.behind)
            held = self.held
            self.is_answering = False
            self.behind.clear()
            self.held = []
            self.owe(self.answer_offset, octets, held, confirmed_offset)

    def release(self, offset: int) -> bool:
        is_owed = super().release(offset)
        if self.behind and not self.is_barred():
            self.out += self.behind
            self.behind.clear()
            for held in self.held:
                held.release()
            self.held.clear()
        return is_owed
