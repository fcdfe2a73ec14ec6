"""The budget for what only memory holds: non-persistent messages and pending topic deliveries."""

from __future__ import annotations

from typing import Final

from engine.message import Message

MESSAGE_OVERHEAD_BYTES: Final = 512  # of the objects around the octets, measured, rounded up
HOLDER_BYTES: Final = 200  # of one more Delivery with its place in a lane or a ledger, measured, rounded up


class MemoryBudget:
    """Counts the octets of a message once, however many deliveries hold it, and a little for each further one.

    limit_bytes: producers wait at the gate MEMORY from here on; they go on at ``resume_bytes``, nine tenths of it,
    so that a full budget does not open and close for every message.
    """

    __slots__ = ("limit_bytes", "resume_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.resume_bytes = limit_bytes * 9 // 10
        self.used_bytes = 0

    def hold(self, message: Message) -> None:
        if message.holders == 0:
            self.used_bytes += message.size + MESSAGE_OVERHEAD_BYTES
        else:
            self.used_bytes += HOLDER_BYTES
        message.holders += 1

    def release(self, message: Message) -> None:
        message.holders -= 1
        if message.holders == 0:
            self.used_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        else:
            self.used_bytes -= HOLDER_BYTES
