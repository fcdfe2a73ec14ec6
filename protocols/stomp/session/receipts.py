"""Confirmations of a STOMP connection, in order: RECEIPT, and ERROR, which must not overtake one."""

from __future__ import annotations

from typing import Final

from engine.api import EngineApi
from engine.consumers.consumer import Consumer
from protocols.owed_confirmations import Deferred, OwedConfirmations
from protocols.stomp.codec.frames import Frame

_RECEIPT: Final = b"RECEIPT\nreceipt-id:"
_RECEIPT_END: Final = b"\n\n\0\n"
_NEXT_RECEIPT: Final = _RECEIPT_END + _RECEIPT


class DeferredConsumer(Deferred):
    """A consumer whose SUBSCRIBE is confirmed before its first MESSAGE."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer

    def release(self) -> None:
        self.consumer.start()


class Receipts(OwedConfirmations):
    """A receipt also stands for the earlier frames of its connection, so none overtakes another.

    receipts: of this turn, as they were on the wire; the hot path appends to it, and all are written at once.
    earlier: octets before them.  turn_deferred: consumers that wait for one of them.
    last_offset: the log offset that the latest logged operation of this connection waits for.
    has_unlogged: an ACK without a receipt may not be logged yet; the next receipt confirms it too.
    """

    __slots__ = (
        "store",
        "settlements",
        "receipts",
        "earlier",
        "turn_deferred",
        "last_offset",
        "has_logged",
        "has_unlogged",
    )

    def __init__(self, engine: EngineApi, out: list[bytes]) -> None:
        super().__init__(out)
        self.store = engine.store
        self.settlements = engine.settlements
        self.receipts: list[bytes] = []
        self.earlier = b""
        self.turn_deferred: list[Deferred] = []
        self.last_offset = 0
        self.has_logged = False
        self.has_unlogged = False

    def add_error(self, octets: bytes) -> None:
        """Put an ERROR that keeps the connection after the earlier confirmations of this turn."""
        self.earlier = self._turn_octets() + octets
        self.receipts.clear()

    def confirm(self, frame: Frame) -> None:
        """Owe a receipt for ``frame`` at the end of this turn, if it asks for one."""
        if frame.receipt is not None:
            self.receipts.append(frame.receipt)

    def start_after(self, receipt: bytes, consumer: Consumer) -> None:
        """Start ``consumer`` once the receipt of its SUBSCRIBE is sent; that is now if nothing comes before it."""
        if self.is_settled(self.store.confirmed_offset()):
            self.out.append(receipt_frames([receipt]))
            consumer.start()
        else:
            self.receipts.append(receipt)
            self.turn_deferred.append(DeferredConsumer(consumer))

    def drop(self) -> None:
        """Forget those of this turn."""
        self.receipts.clear()
        self.earlier = b""

    def is_idle(self) -> bool:
        """Say whether nothing is left to be confirmed."""
        return not self.receipts and not self.earlier and not self.owed

    def is_settled(self, confirmed_offset: int) -> bool:
        """Say whether a confirmation made now could leave at once."""
        if self.has_logged or self.has_unlogged:
            return False
        return self.is_idle() and self.last_offset <= confirmed_offset

    def end_turn(self, offset: int, confirmed_offset: int) -> None:
        """Stamp the confirmations of this turn; append those that may be sent now to ``out``."""
        if self.has_logged:
            self.has_logged = False
            self.last_offset = offset
        if not self.receipts and not self.earlier:
            return
        if self.has_unlogged:
            self.has_unlogged = False
            self.last_offset = self.settlements.flush()
        octets = self._turn_octets()
        self.receipts.clear()
        self.earlier = b""
        deferred: list[Deferred] | None = None
        if self.turn_deferred:
            deferred = self.turn_deferred
            self.turn_deferred = []
        self.owe(self.last_offset, octets, deferred, confirmed_offset)

    def _turn_octets(self) -> bytes:
        if not self.receipts:
            return self.earlier
        return self.earlier + receipt_frames(self.receipts)


def receipt_frames(receipts: list[bytes]) -> bytes:
    """Return one RECEIPT for each; the values are sent as they came, escaped already."""
    return _RECEIPT + _NEXT_RECEIPT.join(receipts) + _RECEIPT_END
