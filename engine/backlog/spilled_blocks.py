"""A lane's blocks in temporary files, in order, and what is known of each without reading it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from engine.backlog.memory_budget import MemoryBudget, part_of
from engine.ports.temp_store import SpilledBlock, SpillListener, SpillSpace
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.stored import NEVER_MS

if TYPE_CHECKING:
    from engine.backlog.lane import Lane

# Why a block is read.
FILLING: Final = 0  # to bring it back, in its turn
SEARCHING: Final = 1  # to let a selection take what it wants
EXPIRING: Final = 2  # to remove expired messages

NOTICES_MAX: Final = 100  # losses that are kept in words until they are logged
BLOCK_OVERHEAD_BYTES: Final = 640  # of a block whose messages are on the disk, measured, rounded up
SPENT_MAX: Final = 64  # empty blocks between others; removed once they are more than this and the majority
_NO_MESSAGES: Final[list[Message]] = []  # shared by all blocks on the disk, of which there may be hundreds of thousands
_NO_POSITIONS: Final[list[int]] = []


class LaneBlock(SpilledBlock):
    """A block of one lane.

    memory_bytes: of the messages gathered in it, while they are in memory.
    left_count, left_bytes: of its messages that were not taken out.
    taken: positions of messages taken out since the block is on the disk; None before the first.
    first_expiry_ms: lower bound for the expiry of the messages left; NEVER_MS if none of them expires.
    held: (destination, whether in the log) -> [octets, messages] that are left, for addresses with limits; None if no
    address has one.
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
        """Add a message behind the others."""
        self.add(message, position)
        self._count(message, 1)
        if 0 < message.expires_ms < self.first_expiry_ms:
            self.first_expiry_ms = message.expires_ms

    def take(self, message: Message, position: int) -> None:
        """Take out one message, wherever the block is, unless it is on its way."""
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
        """Say whether a message of the block was not taken out."""
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
    """The spilled messages of a lane: ``blocks`` in order, then ``gathered``, which becomes the next block.

    memory_messages: saved setting of the lane, which is 0 meanwhile so that logged messages that follow stay on disk.
    reading: the block that is being read, None for none; purpose: why.
    search_from: position after the last block that a selection has searched.
    spent_count: empty blocks that are not at the front.
    first_expiry_ms: lower bound for the expiry of all its messages.
    """

    __slots__ = (
        "blocks",
        "gathered",
        "memory_messages",
        "reading",
        "purpose",
        "search_from",
        "spent_count",
        "first_expiry_ms",
    )

    def __init__(self, lane: Lane, gathered: LaneBlock) -> None:
        self.blocks: deque[LaneBlock] = deque()
        self.gathered = gathered
        self.memory_messages = lane.memory_messages
        self.reading: LaneBlock | None = None
        self.purpose = FILLING
        self.search_from = 0
        self.spent_count = 0
        self.first_expiry_ms = NEVER_MS

    def first_position(self) -> int:
        """Return the position of the first spilled message."""
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
        """Count ``block``, which is not ``gathered``, as empty."""
        self.spent_count += 1
        blocks = self.blocks
        while blocks and not blocks[0].left_count:
            blocks.popleft()
            self.spent_count -= 1
        if self.spent_count > SPENT_MAX and 2 * self.spent_count > len(blocks):
            self.blocks = deque(one for one in blocks if one.left_count)
            self.spent_count = 0

    def pop_first(self) -> LaneBlock:
        """Remove and return the first block, which is not empty."""
        block = self.blocks.popleft()
        while self.blocks and not self.blocks[0].left_count:
            self.blocks.popleft()
            self.spent_count -= 1
        return block


@dataclass(slots=True, eq=False)
class SpilledBlocks:
    """The blocks of all lanes: how much they hold, and the ways in which a block or one of its messages leaves.

    gathered_bytes: memory of the blocks that are being gathered.  spilled_bytes: in temporary files now.
    lost_count: messages lost since the start because their block could not be read back; ``notices`` describes them in
    words, and the operator's log takes the notices out.
    """

    _space: SpillSpace
    _memory: MemoryBudget
    gathered_bytes: int = 0
    spilled_bytes: int = 0
    lost_count: int = 0
    notices: list[str] = field(default_factory=list)

    def begin(self, lane: Lane) -> Spill:
        """Send the next messages of a lane to temporary files."""
        lane.spill_above = 0
        spill = lane.spill = Spill(lane, self.new_block(lane))
        lane.memory_messages = 0
        return spill

    def new_block(self, lane: Lane) -> LaneBlock:
        return LaneBlock(lane, self._memory.accounts is not None)

    def end_gathering(self, spill: Spill) -> LaneBlock:
        """Return the block that was being gathered; another takes its place."""
        block = spill.gathered
        self.gathered_bytes -= block.memory_bytes
        spill.gathered = self.new_block(block.lane)
        return block

    def leave_memory(self, block: LaneBlock) -> None:
        """Release the messages of a block that has been written."""
        for message in block.messages:
            self._memory.page_out(message)
        self._memory.used_bytes += BLOCK_OVERHEAD_BYTES
        self.spilled_bytes += block.left_bytes
        block.messages = _NO_MESSAGES
        block.positions = _NO_POSITIONS
        block.is_on_disk = True

    def take_out(self, lane: Lane, block: LaneBlock, message: Message, position: int) -> None:
        """Take one message out, which is in memory from now on; the block must not be on its way."""
        spill = lane.spill
        assert spill is not None, "something is spilled"
        block.take(message, position)
        if block.is_on_disk:
            self._memory.page_in(message)
            self.spilled_bytes -= message.size
        elif block is spill.gathered and not block.count:
            self.gathered_bytes -= block.memory_bytes
            block.memory_bytes = 0
        if not block.left_count and block is not spill.gathered:
            self.free(block)
            spill.forget_spent(block)
        if spill.is_empty():
            lane.end_spill()

    def free(self, block: LaneBlock) -> None:
        """Release the file space of a block that is on the disk."""
        block.is_dropped = True
        if block.is_on_disk:
            self.spilled_bytes -= block.left_bytes
            self._memory.used_bytes -= BLOCK_OVERHEAD_BYTES
            self._space.free(block)

    def lose(self, lane: Lane, spill: Spill, block: LaneBlock, reason: str) -> None:
        """Continue without a block that is lost: its messages were not persistent."""
        count = block.left_count
        self.lost_count += count
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(f"{lane.queue.uri()}: {count} non-persistent messages are lost: {reason}")
        self._discard(lane, spill, block)

    def discard_first(self, lane: Lane) -> float:
        """Discard the first block of a lane; return the octets of the memory budget that this frees, 0 for none."""
        spill = lane.spill
        if spill is None or spill.reading is not None or spill.is_empty():
            return 0.0
        block = spill.blocks[0] if spill.blocks else spill.gathered
        freed_bytes = sum([part_of(message) for message in block.messages]) or float(BLOCK_OVERHEAD_BYTES)
        self._discard(lane, spill, block)
        return freed_bytes

    def _discard(self, lane: Lane, spill: Spill, block: LaneBlock) -> None:
        """Discard a block, wherever it is, with its messages; it must not be on its way back."""
        queue = lane.queue
        queue.depth -= block.left_count
        queue.dropped_count += block.left_count
        self._drop(block)
        block.left_count = block.left_bytes = 0
        if block is spill.gathered:
            self.end_gathering(spill)
        else:
            spill.forget_spent(block)
        if spill.is_empty():
            lane.end_spill()
        queue.mark_dirty()

    def drop_all(self, lane: Lane) -> None:
        """Discard all that a lane has spilled: its queue ends."""
        spill = lane.spill
        if spill is None:
            return
        lane.end_spill()
        self.gathered_bytes -= spill.gathered.memory_bytes
        for block in (*spill.blocks, spill.gathered):
            if block.left_count:
                self._drop(block)

    def _drop(self, block: LaneBlock) -> None:
        """Release the memory or the file space of a block, and what the accounts of its addresses hold for it."""
        for message in block.messages:
            self._memory.release(message)
        block.messages = []
        accounts = self._memory.accounts
        if block.is_on_disk and accounts is not None and block.held is not None:
            for (destination_id, is_logged), (size_bytes, count) in block.held.items():
                accounts.leave_many(destination_id, is_logged, size_bytes, count)
        self.free(block)


class SpillRoom(SpillListener):
    """The spiller as lanes and dispatchers see it."""

    __slots__ = ()

    @abstractmethod
    def takes(self, lane: Lane, message: Message, position: int) -> bool:
        """Say whether the last message of a lane is spilled to a temporary file; if so, it is taken."""

    @abstractmethod
    def fill(self, lane: Lane) -> int:
        """Bring back the next block if the lane runs low; return how many log entries come before it, if any."""

    @abstractmethod
    def is_short(self) -> bool:
        """Say whether memory is so short that only messages that leave at once may be brought in ahead."""

    @abstractmethod
    def may_search(self, lane: Lane) -> bool:
        """Say whether more of a lane may be brought in ahead."""

    @abstractmethod
    def search(self, lane: Lane, block: LaneBlock) -> None:
        """Let the selection of a lane search a block that is not on its way, now or once it has been read."""

    @abstractmethod
    def bring_in(self, lane: Lane, block: LaneBlock, delivery: Delivery) -> None:
        """Bring one message into memory before earlier ones; it waits among the returned deliveries."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockSweep:
    """The part that has blocks read to remove expired messages."""

    __slots__ = ()

    @abstractmethod
    def block_read(self, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Expire messages of a block that was read."""

    @abstractmethod
    def answered(self, block: SpilledBlock) -> None:
        """A block was read, or could not be; ``block_read`` follows if it was read for this part."""


def _last_position(block: LaneBlock) -> int:
    return block.last_position
