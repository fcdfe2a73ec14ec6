"""The one budget for messages in memory: those that are only in memory, and those that are in the log as well.

Messages only in memory make producers wait at the limit.  Logged messages give way: they shrink the room of the others,
but to no less than half of the limit.  From KEEP_PERCENT on they are read a few at a time, as consumers take them, and
no new ones are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.values.message import Message

if TYPE_CHECKING:
    from engine.backlog.address_account import Accounts

MESSAGE_OVERHEAD_BYTES: Final = 512  # of the objects around the octets, measured, rounded up
KEEP_PERCENT: Final = 75  # of the limit; from here on only logged messages that are taken now stay in memory
IDLE_PERCENT: Final = 25  # of the limit; from here on queues without consumers keep no more logged messages
RESUME_PERCENT: Final = 90  # of the room; producers wait until usage is down to this
SPILL_PERCENT: Final = 60  # of the room; from here on lanes spill that hold more than a little
CROWDED_PERCENT: Final = 80  # of the room; from here on all lanes spill
HOLDER_BYTES: Final = 200  # of one more Delivery with its place in a lane or a ledger, measured, rounded up


@dataclass(slots=True, eq=False)
class MemoryBudget:
    """Counts the octets of a message once, however many deliveries hold it, and a little for each further holder.

    The second holder adds the octets once more: a message for several receivers is also kept in encoded form
    (``Message.wire``) from its first hand-over on.
    used_bytes: of messages only in memory, with their overhead.  paged_bytes: of logged messages in memory for a queue
    or a durable subscription, in any state: ready, in flight, delayed.
    unwritten_bytes: the part of used_bytes that was appended to the log, but cannot be written by the store.
    limit_bytes: of both.  keep_bytes, idle_bytes: KEEP_PERCENT and IDLE_PERCENT of it.
    spill_bytes: of both; from here on each lane checks whether to spill: SPILL_PERCENT of the limit.
    near_bytes: of both; from here on the gate may have to be shut soon: RESUME_PERCENT of the limit.
    is_relieved: what waits for users with too much is moved or dropped now; work that fills memory waits for that.
    accounts: of the addresses with limits, None while no address has one.
    """

    limit_bytes: int
    keep_bytes: int = field(init=False)
    idle_bytes: int = field(init=False)
    spill_bytes: int = field(init=False)
    near_bytes: int = field(init=False)
    is_relieved: bool = False
    used_bytes: int = 0
    paged_bytes: int = 0
    unwritten_bytes: int = 0
    accounts: Accounts | None = None

    def __post_init__(self) -> None:
        self.keep_bytes = self.limit_bytes * KEEP_PERCENT // 100
        self.idle_bytes = self.limit_bytes * IDLE_PERCENT // 100
        self.spill_bytes = self.limit_bytes * SPILL_PERCENT // 100
        self.near_bytes = self.limit_bytes * RESUME_PERCENT // 100

    def held_bytes(self) -> int:
        """Return the octets of all messages in memory, with their overhead."""
        return self.used_bytes + self.paged_bytes

    def room_bytes(self) -> int:
        """Return the room for messages that are only in memory."""
        return self.limit_bytes - min(self.paged_bytes, self.limit_bytes // 2)

    def keep_unwritten(self, size_bytes: int) -> None:
        """Count the octets that the store has appended and cannot write at present."""
        self.used_bytes += size_bytes - self.unwritten_bytes
        self.unwritten_bytes = size_bytes

    def keep_prepared(self, more_bytes: int) -> None:
        """Count what prepared transactions hold in memory; negative for less."""
        self.used_bytes += more_bytes

    def is_used(self, percent: int) -> bool:
        """Say whether messages only in memory use ``percent`` of their room."""
        return self.used_bytes * 100 >= self.room_bytes() * percent

    def is_full(self) -> bool:
        """Say whether producers wait at the gate MEMORY from now on."""
        return self.used_bytes >= self.room_bytes()

    def is_eased(self) -> bool:
        """Say whether producers continue: at nine tenths, so that a full budget does not toggle with every message."""
        return self.used_bytes * 100 <= self.room_bytes() * RESUME_PERCENT

    def is_short(self) -> bool:
        """Say whether logged messages may come to memory only as they are taken."""
        return self.used_bytes + self.paged_bytes >= self.keep_bytes

    def is_choked(self) -> bool:
        """Say whether data that a failing store cannot write fills half of the limit; no backlog is read then."""
        return self.unwritten_bytes > self.limit_bytes // 2

    def load(self, message: Message) -> None:
        """Count a logged message that has come to memory."""
        self.paged_bytes += MESSAGE_OVERHEAD_BYTES if message.is_hollow() else message.size + MESSAGE_OVERHEAD_BYTES

    def load_page(self, count: int, size_bytes: int) -> None:
        """Count logged messages that have just been read; ``size_bytes``: of all."""
        self.paged_bytes += size_bytes + count * MESSAGE_OVERHEAD_BYTES

    def unload(self, message: Message) -> None:
        """Subtract it again: it is settled, or only in the log now."""
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
        """Note that one holder has moved a message to a temporary file; its address counts that copy, too."""
        if message.holders == 1:
            message.holders = 0
            self.used_bytes -= message.size + MESSAGE_OVERHEAD_BYTES
        else:
            self.release(message)
            if self.accounts is not None:
                self.accounts.enter(message)

    def page_in(self, message: Message) -> None:
        """Note that a holder's copy is back from a temporary file, as a message of its own."""
        message.holders = 1
        self.used_bytes += message.size + MESSAGE_OVERHEAD_BYTES


def part_of(message: Message) -> float:
    """Return one holder's part of what ``MemoryBudget.hold`` counts for a message."""
    holders = message.holders
    if holders <= 1:
        return float(message.size + MESSAGE_OVERHEAD_BYTES)
    return HOLDER_BYTES + (2 * message.size + MESSAGE_OVERHEAD_BYTES - HOLDER_BYTES) / holders
