"""The budget for what only memory holds: non-persistent messages and pending topic deliveries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.message import Message

if TYPE_CHECKING:
    from engine.accounts import Accounts

MESSAGE_OVERHEAD_BYTES: Final = 512  # of the objects around the octets, measured, rounded up
HOLDER_BYTES: Final = 200  # of one more Delivery with its place in a lane or a ledger, measured, rounded up


class MemoryBudget:
    """Counts the octets of a message once, however many deliveries hold it, and a little for each further one.

    The second holder counts the octets again: what goes to several receivers is kept in encoded form, too
    (``Message.wire``), from its first hand-over on.
    limit_bytes: producers wait at the gate MEMORY from here on; they go on at ``resume_bytes``, nine tenths of it,
    so that a full budget does not open and close for every message.
    accounts: of the addresses with limits, None while no address has one.
    """

    __slots__ = ("limit_bytes", "resume_bytes", "used_bytes", "accounts")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.resume_bytes = limit_bytes * 9 // 10
        self.used_bytes = 0
        self.accounts: Accounts | None = None

    def hold(self, message: Message) -> None:
        holders = message.holders
        message.holders = holders + 1
        if holders > 1:
            self.used_bytes += HOLDER_BYTES
        elif holders == 1:
            self.used_bytes += message.size + HOLDER_BYTES
        else:
            self.used_bytes += message.size + MESSAGE_OVERHEAD_BYTES
            if self.accounts is not None:
                self.accounts.enter(message)

    def release(self, message: Message) -> None:
        holders = message.holders - 1
        message.holders = holders
        if holders > 1:
            self.used_bytes -= HOLDER_BYTES
        elif holders == 1:
            self.used_bytes -= message.size + HOLDER_BYTES
        else:
            self.used_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
            if self.accounts is not None:
                self.accounts.leave(message)

    def page_out(self, message: Message) -> None:
        """Take note that one holder of a message has it in a temporary file now; its address has that copy, too."""
        if message.holders == 1:
            message.holders = 0
            self.used_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        else:
            self.release(message)
            if self.accounts is not None:
                self.accounts.enter(message)

    def page_in(self, message: Message) -> None:
        """Take note that what a holder had there is back, as a message of its own."""
        message.holders = 1
        self.used_bytes += message.size + MESSAGE_OVERHEAD_BYTES
