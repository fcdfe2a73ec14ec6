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

from collections import deque
from typing import TYPE_CHECKING

from engine.broker import Broker
from engine.values.message import PERSISTENT, Message

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.link import Link
    from protocols.amqp.v1_0.endpoints.session import AmqpSession


def waits(message: Message) -> bool:
    """Say whether the outcome of ``message``, which has been taken, waits until this turn is durable.

    A persistent one does, however it was taken: a composite destination and a virtual topic log copies of it.  One
    that is not persistent does where it was logged all the same, as what is scheduled is.
    """
    return message.flags & PERSISTENT != 0 or message.log_offset >= 0


class Owed:
    """Octets that may leave once the log is durable up to ``offset``; behind an answer ``held`` may send then.

    held: None where it is no answer.
    """

    __slots__ = ("offset", "octets", "held")

    def __init__(self, offset: int, octets: bytes, held: list[AmqpSession | Link] | None) -> None:
        self.offset = offset
        self.octets = octets
        self.held = held


class Confirmations:
    """Collected during a turn, stamped at its end, let go in order as the confirmed offset moves.

    out: what the connection sends in this turn.  behind: what of this turn waits; held: who may send once it has left.
    is_answering: an answer is in ``behind``.  answers_count: of those owed; answer_offset: what the last waits for.
    """

    __slots__ = ("broker", "out", "behind", "held", "owed", "is_answering", "answers_count", "answer_offset")

    def __init__(self, broker: Broker, out: list[bytes]) -> None:
        self.broker = broker
        self.out = out
        self.behind: list[bytes] = []
        self.held: list[AmqpSession | Link] = []
        self.owed: deque[Owed] = deque()
        self.is_answering = False
        self.answers_count = 0
        self.answer_offset = 0

    def stand_for_all(self) -> None:
        """Let what ``send`` is given from here on wait until everything before it is durable: it is an answer."""
        if not self.is_answering:
            self.is_answering = self.broker.flush_settlements() > self.broker.store.confirmed_offset()

    def is_barred(self) -> bool:
        """Say whether an answer waits, which no begin, attach, detach or end may overtake."""
        return self.is_answering or self.answers_count > 0

    def send(self, octets: bytes) -> None:
        """Send what must not overtake an answer."""
        (self.behind if self.is_barred() else self.out).append(octets)

    def hold(self, one: AmqpSession | Link) -> None:
        """Have ``one``, whose begin or attach is sent now, wait until that has left."""
        if self.is_barred():
            one.is_behind = True
            self.held.append(one)

    def end_turn(self, outcomes: bytes, offset: int, confirmed_offset: int) -> None:
        """Stamp what this turn confirms; what may leave now goes to ``out``.

        outcomes: of the sessions that go on.
        """
        owed = self.owed
        if outcomes:
            if not owed and offset <= confirmed_offset:
                self.out.append(outcomes)
            else:
                owed.append(Owed(offset, outcomes, None))
        if self.is_answering or self.behind:
            if self.is_answering:
                self.answer_offset = offset
            owed.append(Owed(self.answer_offset, b"".join(self.behind), self.held))
            self.is_answering = False
            self.answers_count += 1
            self.behind.clear()
            self.held = []
            self.release(confirmed_offset)

    def release(self, offset: int) -> bool:
        """Let go what waited for ``offset`` or less; return whether anything still waits."""
        owed = self.owed
        while owed and owed[0].offset <= offset:
            one = owed.popleft()
            self.out.append(one.octets)
            if one.held is not None:
                self.answers_count -= 1
                for held in one.held:
                    held.release()
        if self.behind and not self.is_barred():
            self.out += self.behind
            self.behind.clear()
            for held in self.held:
                held.release()
            self.held.clear()
        return bool(owed)
