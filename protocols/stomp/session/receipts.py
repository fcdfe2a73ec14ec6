"""Confirmations of a STOMP connection, in order: RECEIPT, and ERROR, which must not overtake one."""

from __future__ import annotations

from typing import Final

from protocols.session.turn_confirmations import TurnConfirmations
from protocols.stomp.codec.frames import Frame

_RECEIPT: Final = b"RECEIPT\nreceipt-id:"
_RECEIPT_END: Final = b"\n\n\0\n"
_NEXT_RECEIPT: Final = _RECEIPT_END + _RECEIPT


class Receipts(TurnConfirmations):
    """parts: headers ``receipt`` as they came, escaped already; the hot path appends to it."""

    __slots__ = ()

    def confirm(self, frame: Frame) -> None:
        """Owe a receipt for ``frame`` at the end of this turn, if it asks for one."""
        if frame.receipt is not None:
            self.parts.append(frame.receipt)

    def add_error(self, octets: bytes) -> None:
        """Put an ERROR that keeps the connection after the earlier confirmations of this turn."""
        self.earlier += self.octets_of(self.parts) + octets
        self.parts.clear()

    def octets_of(self, parts: list[bytes]) -> bytes:
        return _RECEIPT + _NEXT_RECEIPT.join(parts) + _RECEIPT_END if parts else b""
