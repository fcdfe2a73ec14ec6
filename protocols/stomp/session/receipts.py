"""Confirmations that a connection is owed, in order: RECEIPT, and an ERROR that must not overtake them."""

from __future__ import annotations

from collections import deque
from typing import Final

from engine.broker import Broker
from engine.consumers.consumer import Consumer
from protocols.stomp.codec.frames import Frame

_RECEIPT: Final = b"RECEIPT\nreceipt-id:"
_RECEIPT_END: Final = b"\n\n\0\n"
_NEXT_RECEIPT: Final = _RECEIPT_END + _RECEIPT


class Owed:
    """Octets that may leave once the log is durable up to ``offset``; then ``held`` consumers may get messages."""

    __slots__ = ("offset", "octets", "held")

    def __init__(self, offset: int, octets: bytes, held: list[Consumer]) -> None:
        self.offset = offset
        self.octets = octets
        self.held = held


class Receipts:
    """Collected during a turn, stamped at its end, let go in order as the durable offset moves.

    A receipt also stands for the earlier frames of its connection, so none overtakes another.
    receipts: of this turn, as they stood on the wire; the hot path appends to it, and all are written at once.
    earlier: octets that come before them.  last_offset: what the latest logged operation of this connection waits for.
    has_unlogged: an ACK that asked for no receipt may have been put off; the next receipt stands for it too.
    """

    __slots__ = ("broker", "receipts", "earlier", "turn_held", "owed", "last_offset", "has_logged", "has_unlogged")

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.receipts: list[bytes] = []
        self.earlier = b""
        self.turn_held: list[Consumer] = []
        self.owed: deque[Owed] = deque()
        self.last_offset = 0
        self.has_logged = False
        self.has_unlogged = False

    def add_error(self, octets: bytes) -> None:
        """Let an ERROR that does not close follow what this turn confirmed before it."""
        self.earlier = self._turn_octets() + octets
        self.receipts.clear()

    def confirm(self, frame: Frame) -> None:
        """Owe a receipt for ``frame`` at the end of this turn, if it asks for one."""
        if frame.receipt is not None:
            self.receipts.append(frame.receipt)

    def is_idle(self) -> bool:
        """Say whether nothing is left to be confirmed."""
        return not self.receipts and not self.earlier and not self.owed

    def is_settled(self, confirmed_offset: int) -> bool:
        """Say whether a confirmation made now could leave at once."""
        if self.has_logged or self.has_unlogged:
            return False
        return self.is_idle() and self.last_offset <= confirmed_offset

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        """Stamp what this turn collected; return what may leave now."""
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if not self.receipts and not self.earlier:
            return b""
        if self.has_unlogged:
            self.has_unlogged = False
            self.last_offset = self.broker.flush_settlements()
        octets = self._turn_octets()
        self.receipts.clear()
        self.earlier = b""
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

    def _turn_octets(self) -> bytes:
        if not self.receipts:
            return self.earlier
        return self.earlier + receipt_frames(self.receipts)


def receipt_frames(receipts: list[bytes]) -> bytes:
    """Return one RECEIPT for each: their values stand on the wire as they came, escaped already."""
    return _RECEIPT + _NEXT_RECEIPT.join(receipts) + _RECEIPT_END
