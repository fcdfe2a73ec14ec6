"""Confirmations that a connection is owed, in order: RECEIPT, and an ERROR that must not overtake them."""

from __future__ import annotations

from collections import deque

from engine.broker import Broker
from engine.consumer import Consumer


class Owed:
    """Octets that may leave once the log is durable up to ``offset``; then ``held`` consumers may get messages."""

    __slots__ = ("offset", "octets", "held")

    def __init__(self, offset: int, octets: bytes, held: list[Consumer]) -> None:
        self.offset = offset
        self.octets = octets
        self.held = held


class Confirmations:
    """Collected during a turn, stamped at its end, let go in order as the durable offset moves.

    A receipt also stands for the earlier frames of its connection, so none overtakes another.
    last_offset: what the latest logged operation of this connection waits for.
    """

    __slots__ = ("broker", "turn", "turn_held", "owed", "last_offset", "has_logged")

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.turn: list[bytes] = []
        self.turn_held: list[Consumer] = []
        self.owed: deque[Owed] = deque()
        self.last_offset = 0
        self.has_logged = False

    def is_settled(self, confirmed_offset: int) -> bool:
        """Say whether a confirmation made now could leave at once."""
        return not self.turn and not self.owed and not self.has_logged and self.last_offset <= confirmed_offset

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        """Stamp what this turn collected; return what may leave now."""
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if not self.turn:
            return b""
        octets = b"".join(self.turn)
        self.turn.clear()
        held = self.turn_held
        self.turn_held = []  # also if empty: what is owed keeps the old one, and it must not grow
        if self.owed or self.last_offset > confirmed_offset:
            self.owed.append(Owed(self.last_offset, octets, held))
            return b""
        for consumer in held:
            self.broker.start(consumer)
        return octets

    def release(self, offset: int, out: list[bytes]) -> None:
        """Move to ``out`` what waited for ``offset`` or less."""
        owed = self.owed
        while owed and owed[0].offset <= offset:
            one = owed.popleft()
            out.append(one.octets)
            for consumer in one.held:
                self.broker.start(consumer)
