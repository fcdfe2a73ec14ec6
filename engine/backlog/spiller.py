"""Moves messages that are only in memory to temporary files, in blocks, once they exceed their share of memory.

A lane of a queue whose address pages (``address-full-policy: PAGE``) keeps its first messages in memory; temporary
queues and subscriptions of a topic do the same.  Once a lane has enough in memory, or memory as a whole runs short,
new messages are gathered into blocks that a worker writes.  The blocks come back in order when the lane runs low.  A
selection whose consumers find nothing in memory searches the blocks one after the other and takes what they want.
Nothing spilled survives a restart.  If the disk refuses, the messages stay in memory, and its gate shuts as usual.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from engine.backlog.delivery_row import LaneOwner, position_of
from engine.backlog.found_ahead import AHEAD_BYTES
from engine.backlog.lane import SERIAL_BITS, Lane
from engine.backlog.lane_pages import PAGE_MESSAGES
from engine.backlog.memory import CROWDED_PERCENT, HOLDER_BYTES, SPILL_PERCENT, MemoryBudget
from engine.backlog.spilled_blocks import (
    BLOCK_OVERHEAD_BYTES,
    EXPIRING,
    FILLING,
    LOOKING,
    BlockSweep,
    LaneBlock,
    Spill,
    SpillRoom,
)
from engine.ports.clock import Clock
from engine.ports.temp_store import SpilledBlock, SpillSpace
from engine.ports.timers import Timers, TimerTarget
from engine.values.delivery import Delivery
from engine.values.message import Message

BLOCK_BYTES: Final = 64 * 1024  # of one block, unless a message is larger
LOW_BYTES: Final = 256 * 1024  # a lane with less than this ready asks for the next block
SMALL_BLOCK_BYTES: Final = 2 * 1024  # of one block while too much is gathered: thousands of queues may gather
BLOCK_MESSAGES: Final = 512  # in one block, however few octets they have
SMALL_BLOCK_MESSAGES: Final = 32  # the same while too much is gathered
LITTLE_BYTES: Final = 4 * 1024  # a lane with less than this ready spills only in crowded memory
LOOK_PERCENT: Final = 90  # of the room; from here on only messages that leave at once are brought in ahead
GATHERED_PART: Final = 16  # gathered in all lanes: above the memory limit / 16 blocks are small
RETRY_MS: Final = 1_000  # after the disk refused
NOTICES_MAX: Final = 100  # losses that are kept in words until they are logged
_NO_MESSAGES: Final[list[Message]] = []  # shared by all blocks on the disk, of which there may be hundreds of thousands
_NO_POSITIONS: Final[list[int]] = []


class Spiller(SpillRoom):
    """reason: why the disk refused the last block, "" if it did not.  spilled_bytes: in temporary files now.

    lost_count: messages lost since the start because their block could not be read back; ``notices`` describes them in
    words, and the operator's log takes the notices out.
    block_bytes, small_block_bytes: BLOCK_BYTES and SMALL_BLOCK_BYTES; tests set less.
    gathered_bytes: in blocks that are being gathered.
    sweep: removes expired messages from blocks; None before the broker is whole.
    _waiting: lanes whose block could not be read; they are asked for again after RETRY_MS.
    """

    __slots__ = (
        "reason",
        "spilled_bytes",
        "lost_count",
        "notices",
        "block_bytes",
        "small_block_bytes",
        "gathered_bytes",
        "sweep",
        "_space",
        "_memory",
        "_clock",
        "_timers",
        "_refused_ms",
        "_waiting",
    )

    def __init__(self, space: SpillSpace, memory: MemoryBudget, clock: Clock, timers: Timers) -> None:
        self.reason = ""
        self.spilled_bytes = 0
        self.lost_count = 0
        self.notices: list[str] = []
        self.block_bytes = BLOCK_BYTES
        self.small_block_bytes = SMALL_BLOCK_BYTES
        self.gathered_bytes = 0
        self.sweep: BlockSweep | None = None
        self._space = space
        self._memory = memory
        self._clock = clock
        self._timers = timers
        self._refused_ms = -RETRY_MS
        self._waiting: list[Lane] = []
        space.attach(self)

    # To the disk.

    def _wants(self, lane: Lane) -> bool:
        """Say whether new messages of a lane are spilled from now on."""
        queue = lane.queue
        full = queue.settings.full
        is_full = 0 <= full.max_size_bytes <= lane.ready_bytes or 0 <= full.max_size_messages <= len(lane.ready)
        if not is_full:
            has_little = lane.ready_bytes < min(LITTLE_BYTES, lane.memory_bytes)
            if not self._memory.is_used(CROWDED_PERCENT if has_little else SPILL_PERCENT):
                return False
        if queue.needs_all_at_hand():
            return False
        return not self._is_refused()

    def may_look(self, lane: Lane) -> bool:
        """Say whether more of a lane may be brought in ahead.

        While memory is short, only messages that leave at once are allowed, so none of groups whose owners are busy.
        """
        if not lane.returned:
            return True
        if self.is_short():
            return lane.queue.has_selection() and not lane.queue.has_groups_known()
        if lane.ready_bytes <= AHEAD_BYTES:  # what has come back is part of it
            return True
        return sum([delivery.message.size for delivery in lane.returned]) <= AHEAD_BYTES

    def is_short(self) -> bool:
        """Say whether memory is so short that only messages that leave at once may be brought in ahead."""
        return self._memory.is_used(LOOK_PERCENT)

    def _is_refused(self) -> bool:
        return self._clock.monotonic_ms() - self._refused_ms < RETRY_MS

    def takes(self, lane: Lane, message: Message, position: int) -> bool:
        spill = lane.spill
        if spill is None:
            if not self._wants(lane):
                return False
            lane.spill_above = 0
            spill = lane.spill = Spill(lane, self._block(lane))
            lane.memory_messages = 0
        block = spill.gathered
        block.put(message, position)
        if 0 < message.expires_ms < spill.first_expiry_ms:
            spill.first_expiry_ms = message.expires_ms
        block.memory_bytes += _memory_of(message)
        self.gathered_bytes += _memory_of(message)
        is_much = self.gathered_bytes * GATHERED_PART > self._memory.limit_bytes
        most_bytes = self.small_block_bytes if is_much else self.block_bytes
        most_count = SMALL_BLOCK_MESSAGES if is_much else BLOCK_MESSAGES  # a tiny message takes more than its octets
        if block.size_bytes >= most_bytes or block.count >= most_count:
            self.gathered_bytes -= block.memory_bytes
            spill.blocks.append(block)
            spill.gathered = self._block(lane)
            if not self._is_refused():
                block.is_writing = True
                self._space.write(block)
        return True

    def _block(self, lane: Lane) -> LaneBlock:
        return LaneBlock(lane, self._memory.accounts is not None)

    def written(self, block: SpilledBlock, reason: str) -> None:
        assert isinstance(block, LaneBlock), "a written block is one of a lane"
        block.is_writing = False
        self.reason = reason
        if reason:
            self._refused_ms = self._clock.monotonic_ms()
        elif block.is_dropped:
            self._space.free(block)
            return
        else:
            for message in block.messages:
                self._memory.page_out(message)
            self._memory.used_bytes += BLOCK_OVERHEAD_BYTES
            self.spilled_bytes += block.left_bytes
            block.messages = _NO_MESSAGES
            block.positions = _NO_POSITIONS
            block.is_on_disk = True
        if block.lane.queue.has_selection() and not block.is_dropped:
            block.lane.queue.mark_dirty()  # a selection may have waited to search it

    # From the disk.

    def fill(self, lane: Lane) -> int:
        """Bring back the next block if the lane runs low; return how many log entries come before it, if any."""
        while (spill := lane.spill) is not None and spill.reading is None and self._is_low(lane):
            before = 0
            if lane.next_load < lane.tail:
                before = (spill.first_position() >> SERIAL_BITS) + 1 - lane.next_load
            if before > 0:
                return (
                    0
                    if lane.pages.is_loading or lane.pages.awaits_retry
                    else min(before, lane.tail - lane.next_load, PAGE_MESSAGES)
                )
            if not spill.blocks:
                block = spill.gathered
                self.gathered_bytes -= block.memory_bytes
                spill.gathered = self._block(lane)
            else:
                block = spill.blocks[0]
                if block.is_on_disk:
                    self.read(spill, block, FILLING)
                    return 0
                spill.pop_first()
            # Even on its way to the disk the block is still in memory.
            block.is_dropped = True
            messages, block.messages = block.messages, []
            self._give_back(lane, spill, block.positions, messages)
        return 0

    def _is_low(self, lane: Lane) -> bool:
        return lane.ready_bytes < max(1, min(LOW_BYTES, lane.memory_bytes))

    def read(self, spill: Spill, block: LaneBlock, purpose: int) -> None:
        """Have a block on the disk read; a lane reads one at a time."""
        spill.reading = block
        spill.purpose = purpose
        self._space.read(block)

    def loaded(self, block: SpilledBlock, positions: list[int], messages: list[Message]) -> None:
        spill = self._answered(block)
        if spill is None:
            return  # the queue has ended meanwhile
        assert isinstance(block, LaneBlock), "a block that was read is one of a lane"
        self.reason = ""
        lane = block.lane
        if spill.purpose == LOOKING:
            lane.queue.show_spilled(lane, block, positions, messages)
            return
        if spill.purpose == EXPIRING:
            assert self.sweep is not None, "a sweep asked for the block"
            self.sweep.block_read(block, positions, messages)
            lane.queue.mark_dirty()  # a selection may have waited to read another block
            return
        spill.pop_first()
        if block.taken is not None:
            left = [index for index, position in enumerate(positions) if block.is_left(position)]
            positions = [positions[index] for index in left]
            messages = [messages[index] for index in left]
        for message in messages:
            self._memory.page_in(message)
        self._free(block)
        self._give_back(lane, spill, positions, messages)

    def refused(self, block: SpilledBlock, reason: str, is_lost: bool) -> None:
        spill = self._answered(block)
        if spill is None:
            return
        assert isinstance(block, LaneBlock), "a refused block is one of a lane"
        lane = block.lane
        if is_lost:
            self._lose(lane, spill, block, reason)
            return
        self.reason = reason
        spill.reading = block  # no second request meanwhile
        self._waiting.append(lane)
        self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, ReadRetry(self), 0)

    def _answered(self, block: SpilledBlock) -> Spill | None:
        """Return the spill that an answer belongs to, None if the block is no longer needed."""
        if self.sweep is not None:
            self.sweep.answered(block)
        if block.is_dropped or not isinstance(block, LaneBlock):
            return None
        spill = block.lane.spill
        if spill is not None:
            spill.reading = None
        return spill

    def ask_again(self) -> None:
        """Let lanes whose block could not be read ask again."""
        waiting, self._waiting = self._waiting, []
        for lane in waiting:
            if lane.spill is not None:
                lane.spill.reading = None
                lane.queue.mark_dirty()

    def _lose(self, lane: Lane, spill: Spill, block: LaneBlock, reason: str) -> None:
        """Continue without a block that is lost: its messages were not persistent."""
        queue = lane.queue
        count = block.left_count
        self.lost_count += count
        if len(self.notices) < NOTICES_MAX:
            self.notices.append(f"{queue.uri()}: {count} non-persistent messages are lost: {reason}")
        queue.depth -= count
        queue.dropped_count += count
        self._leave_accounts(block)
        self._free(block)
        block.left_count = block.left_bytes = 0
        spill.forget_spent(block)
        if spill.is_empty():
            lane.end_spill()
        queue.mark_dirty()

    def _give_back(self, lane: Lane, spill: Spill, positions: list[int], messages: list[Message]) -> None:
        if spill.is_empty():
            lane.end_spill()
        queue = lane.queue
        deliveries = [Delivery(message, lane, position) for position, message in zip(positions, messages, strict=True)]
        if any(message.expires_ms for message in messages):
            queue.has_expiring = True
        lane.add_back(deliveries)
        queue.mark_dirty()
        queue.read_back(deliveries)

    # For selections, which look ahead.

    def look(self, lane: Lane, block: LaneBlock) -> None:
        """Let the selection of a lane search a block that is not on its way, now or once it has been read."""
        spill = lane.spill
        assert spill is not None, "a block belongs to what a lane has spilled"
        if block.is_on_disk:
            self.read(spill, block, LOOKING)
        else:
            lane.queue.show_spilled(lane, block, block.positions, block.messages)

    def bring_in(self, lane: Lane, block: LaneBlock, delivery: Delivery) -> None:
        """Bring one message into memory before earlier ones; it waits among the returned deliveries."""
        message = delivery.message
        self.take_out(lane, block, message, delivery.position)
        insort(lane.returned, delivery, key=position_of)
        lane.ready_bytes += message.size
        lane.queue.mask |= lane.bit
        if message.expires_ms:
            lane.queue.has_expiring = True

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
            self._free(block)
            spill.forget_spent(block)
        if spill.is_empty():
            lane.end_spill()

    # The end.

    def drop(self, lane: Lane) -> None:
        """Discard all that a lane has spilled: its queue ends."""
        spill = lane.spill
        if spill is None:
            return
        lane.end_spill()
        self.gathered_bytes -= spill.gathered.memory_bytes
        for block in (*spill.blocks, spill.gathered):
            for message in block.messages:
                self._memory.release(message)
            block.messages = []
            if block.is_on_disk and block.left_count:
                self._leave_accounts(block)
                self._free(block)
            block.is_dropped = True

    def _leave_accounts(self, block: LaneBlock) -> None:
        """Subtract what is left of a block on the disk from the accounts of its addresses."""
        accounts = self._memory.accounts
        if accounts is not None and block.held is not None:
            for (destination_id, is_logged), (size_bytes, count) in block.held.items():
                accounts.leave_many(destination_id, is_logged, size_bytes, count)

    def _free(self, block: LaneBlock) -> None:
        """Release the file space of a block that is on the disk."""
        block.is_dropped = True
        if block.is_on_disk:
            self.spilled_bytes -= block.left_bytes
            self._memory.used_bytes -= BLOCK_OVERHEAD_BYTES
            self._space.free(block)


class ReadRetry(TimerTarget):
    """Ends the pause in which a disk that refused is not asked."""

    __slots__ = ("_spiller",)

    def __init__(self, spiller: Spiller) -> None:
        self._spiller = spiller

    def timer_fired(self, key: int) -> None:
        self._spiller.ask_again()


def _memory_of(message: Message) -> int:
    """Return roughly how much memory one holder of a message takes."""
    return max(message.size, HOLDER_BYTES) if message.holders <= 1 else HOLDER_BYTES


def may_spill(queue: LaneOwner) -> bool:
    """Say whether messages only in memory may be moved to temporary files."""
    return queue.settings.full.address_full_policy == "PAGE"
