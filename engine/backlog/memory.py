"""The one budget of messages in memory: those that only memory holds, and those of the log that are in memory, too.

What only memory holds makes producers wait at the limit.  What the log has gives way: it shrinks the room of the other,
but to no less than half of the limit, and from KEEP_PERCENT on it is read a few messages at a time, as somebody takes
them, and nothing fresh is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.address_account import Accounts

MESSAGE_OVERHEAD_BYTES: Final = 512  # of the objects around the octets, measured, rounded up
KEEP_PERCENT: Final = 75  # of the limit; from there on nothing of the log is kept in memory that nobody takes now
IDLE_PERCENT: Final = 25  # the same; of messages in the log no more is kept for queues without consumers
RESUME_PERCENT: Final = 90  # of the room; down to there producers wait
SPILL_PERCENT: Final = 60  # the same; from there on lanes spill that hold more than a little themselves
CROWDED_PERCENT: Final = 80  # the same; from there on lanes spill whatever they hold themselves
HOLDER_BYTES: Final = 200  # of one more Delivery with its place in a lane or a ledger, measured, rounded up


class MemoryBudget:
    """Counts the octets of a message once, however many deliveries hold it, and a little for each further one.

    The second holder counts the octets again: what goes to several receivers is kept in encoded form, too
    (``Message.wire``), from its first hand-over on.
    used_bytes: of what only memory holds, with its overhead.  paged_bytes: of messages in the log that are in memory
    for a queue or a durable subscription, wherever they are: ready, in flight, delayed.
    unwritten_bytes: of the used ones, what was appended to the log and the store cannot bring to the disk.
    limit_bytes: of both.  keep_bytes, idle_bytes: KEEP_PERCENT and IDLE_PERCENT of it.
    spill_bytes: of both, from which on each lane asks whether it is to spill: SPILL_PERCENT of the limit.
    accounts: of the addresses with limits, None while no address has one.
    """

    __slots__ = (
        "limit_bytes",
        "keep_bytes",
        "idle_bytes",
        "spill_bytes",
        "used_bytes",
        "paged_bytes",
        "unwritten_bytes",
        "accounts",
    )

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.keep_bytes = limit_bytes * KEEP_PERCENT // 100
        self.idle_bytes = limit_bytes * IDLE_PERCENT // 100
        self.spill_bytes = limit_bytes * SPILL_PERCENT // 100
        self.used_bytes = 0
        self.paged_bytes = 0
        self.unwritten_bytes = 0
        self.accounts: Accounts | None = None

    def held_bytes(self) -> int:
        """Return the octets of all messages in memory, with their overhead."""
        return self.used_bytes + self.paged_bytes

    def room_bytes(self) -> int:
        """Return how much there is for what only memory holds."""
        return self.limit_bytes - min(self.paged_bytes, self.limit_bytes // 2)

    def keep_unwritten(self, size_bytes: int) -> None:
        """Count so much that the store has appended and cannot write at present."""
        self.used_bytes += size_bytes - self.unwritten_bytes
        self.unwritten_bytes = size_bytes

    def is_used(self, percent: int) -> bool:
        """Say whether so much of the room is used for what only memory holds."""
        return self.used_bytes * 100 >= self.room_bytes() * percent

    def is_full(self) -> bool:
        """Say whether producers wait at the gate MEMORY from now on."""
        return self.used_bytes >= self.room_bytes()

    def is_eased(self) -> bool:
        """Say whether they go on: at nine tenths, so that a full budget does not open and close for every message."""
        return self.used_bytes * 100 <= self.room_bytes() * RESUME_PERCENT

    def is_short(self) -> bool:
        """Say whether of messages in the log no more is to come to memory than somebody takes now."""
        return self.used_bytes + self.paged_bytes >= self.keep_bytes

    def is_choked(self) -> bool:
        """Say whether what a failing store cannot write takes half of the limit: backlogs are read no further then."""
        return self.unwritten_bytes > self.limit_bytes // 2

    def load(self, message: Message) -> None:
        """Count a message of the log that has come to memory."""
        self.paged_bytes += MESSAGE_OVERHEAD_BYTES if message.is_hollow() else message.size + MESSAGE_OVERHEAD_BYTES

    def unload(self, message: Message) -> None:
        """Take it off again: it is settled, or only the log has it now."""
        self.paged_bytes -= MESSAGE_OVERHEAD_BYTES if message.is_hollow() else message.size + MESSAGE_OVERHEAD_BYTES

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
