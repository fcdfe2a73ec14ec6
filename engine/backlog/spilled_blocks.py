"""A lane's blocks in temporary files, in their order, and what is known of each without reading it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from engine.ports.temp_store import SpilledBlock, SpillListener
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.stored import NEVER_MS

if TYPE_CHECKING:
    from engine.backlog.lane import Lane

# What a block is read for.
FILLING: Final = 0  # it comes back, in its turn
LOOKING: Final = 1  # a selection takes what it wants
EXPIRING: Final = 2  # what has expired is taken out

BLOCK_OVERHEAD_BYTES: Final = 640  # of a block whose messages are on the disk, measured, rounded up
SPENT_MAX: Final = 64  # blocks between others of which nothing is left; beyond, and if they are the most, they go


class LaneBlock(SpilledBlock):
    """A block of one lane.

    memory_bytes: of what was gathered in it, in memory.
    left_count, left_bytes: of its messages that were not taken out.  taken: positions of those that were, once the
    block was on the disk; None before the first.
    first_expiry_ms: when the first of its messages expires that were not taken out, or before; NEVER_MS if none does.
    held: (destination, whether they are in the log) -> [octets, messages] that are left, for addresses with limits;
    None where there are none.
    """

    __slots__ = ("lane", "left_count", "left_bytes", "memory_bytes", "taken", "first_expiry_ms", "held")

    def __init__(self, lane: Lane, is_counted: bool) -> None:
        """is_counted: some address has a limit on what it holds."""
        super().__init__()
        self.lane = lane
        self.left_count = 0
        self.left_bytes = 0
        self.memory_bytes = 0
        self.taken: set[int] | None = None
        self.first_expiry_ms = NEVER_MS
        self.held: dict[tuple[int, bool], list[int]] | None = {} if is_counted else None

    def put(self, message: Message, position: int) -> None:
        """Put one more message behind the others."""
        self.add(message, position)
        self._count(message, 1)
        if 0 < message.expires_ms < self.first_expiry_ms:
            self.first_expiry_ms = message.expires_ms

    def take(self, message: Message, position: int) -> None:
        """Take one out, wherever the block is; not while it is on its way."""
        self._count(message, -1)
        if self.is_on_disk:
            if self.taken is None:
                self.taken = set()
            self.taken.add(position)
            return
        index = bisect_left(self.positions, position)
        del self.positions[index]
        del self.messages[index]
        self.count -= 1
        self.size_bytes -= message.size

    def is_left(self, position: int) -> bool:
        """Say whether a message that was put in was not taken out."""
        return self.taken is None or position not in self.taken

    def _count(self, message: Message, count: int) -> None:
        self.left_count += count
        self.left_bytes += message.size * count
        if self.held is None:
            return
        held = self.held.setdefault((message.destination_id, message.queue_offset >= 0), [0, 0])
        held[0] += message.size * count
        held[1] += count


class Spill:
    """The spilled messages of a lane: ``blocks`` in their order, then ``gathered``, the next one to be.

    memory_messages: the lane's own setting, which is 0 meanwhile: so what is logged and comes behind stays on disk.
    reading: the block that is being read, None for none; purpose: what for.
    look_from: position after the last block that a selection has looked at.
    spent_count: blocks, not the first ones, of which nothing is left.
    first_expiry_ms: nothing in it expires before.
    """

    __slots__ = (
        "blocks",
        "gathered",
        "memory_messages",
        "reading",
        "purpose",
        "look_from",
        "spent_count",
        "first_expiry_ms",
    )

    def __init__(self, lane: Lane, gathered: LaneBlock) -> None:
        self.blocks: deque[LaneBlock] = deque()
        self.gathered = gathered
        self.memory_messages = lane.memory_messages
        self.reading: LaneBlock | None = None
        self.purpose = FILLING
        self.look_from = 0
        self.spent_count = 0
        self.first_expiry_ms = NEVER_MS

    def first_position(self) -> int:
        """Return the position from which on messages are in it."""
        return self.blocks[0].first_position if self.blocks else self.gathered.first_position

    def is_empty(self) -> bool:
        """Say whether nothing is spilled any more."""
        return not self.blocks and not self.gathered.count

    def block_from(self, position: int) -> LaneBlock | None:
        """Return the first block with something left at ``position`` or behind it, None if there is none."""
        blocks = self.blocks
        index = bisect_left(blocks, position, key=_last_position)
        while index < len(blocks):
            if blocks[index].left_count:
                return blocks[index]
            index += 1
        gathered = self.gathered
        return gathered if gathered.count and gathered.last_position >= position else None

    def forget_spent(self, block: LaneBlock) -> None:
        """Nothing is left of ``block``, which is not ``gathered``."""
        self.spent_count += 1
        blocks = self.blocks
        while blocks and not blocks[0].left_count:
            blocks.popleft()
            self.spent_count -= 1
        if self.spent_count > SPENT_MAX and 2 * self.spent_count > len(blocks):
            self.blocks = deque(one for one in blocks if one.left_count)
            self.spent_count = 0

    def pop_first(self) -> LaneBlock:
        """Take out the first block, of which something is left."""
        block = self.blocks.popleft()
        while self.blocks and not self.blocks[0].left_count:
            self.blocks.popleft()
            self.spent_count -= 1
        return block


class SpillRoom(SpillListener):
    """The spiller as lanes and dispatchers see it."""

    __slots__ = ()

    @abstractmethod
    def takes(self, lane: Lane, message: Message, position: int) -> bool:
        """Say whether a message that comes behind all that a lane has goes to a temporary file; then it is taken."""

    @abstractmethod
    def fill(self, lane: Lane) -> int:
        """Bring back what comes next if the lane runs low; return how many entries of the log come before it, if so."""

    @abstractmethod
    def is_short(self) -> bool:
        """Say whether memory is so short that nobody looks ahead for more than what goes out at once."""

    @abstractmethod
    def may_look(self, lane: Lane) -> bool:
        """Say whether more may be brought in of a lane for those who look ahead."""

    @abstractmethod
    def look(self, lane: Lane, block: LaneBlock) -> None:
        """Let the selection of a lane look at a block that is not on its way, at once or when it has been read."""

    @abstractmethod
    def bring_in(self, lane: Lane, block: LaneBlock, delivery: Delivery) -> None:
        """Bring one message into memory before those before it: it waits among what has come back."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockSweep:
    """The part that has blocks read to take out expired messages."""

    __slots__ = ()

    @abstractmethod
    def block_read(self, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Let expire what has been read."""

    @abstractmethod
    def answered(self, block: SpilledBlock) -> None:
        """A block has been read, or could not be; ``block_read`` follows if that was for this."""


def _last_position(block: LaneBlock) -> int:
    return block.last_position
