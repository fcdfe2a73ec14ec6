"""Moves messages that are only in memory to temporary files, in blocks, once they exceed their share of memory.

A lane of a queue whose address pages (``address-full-policy: PAGE``) keeps its first messages in memory; temporary
queues and subscriptions of a topic do the same.  Once a lane has enough in memory, or memory as a whole runs short,
new messages are gathered into blocks that a worker writes.  The blocks come back in order when the lane runs low.  A
selection whose consumers find nothing in memory searches the blocks one after the other and takes what they want.
Nothing spilled survives a restart.  If the disk refuses, the messages stay in memory, and its gate shuts as usual.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from engine.backlog.delivery_row import LaneOwner, position_of
from engine.backlog.lane import SERIAL_BITS, Lane
from engine.backlog.lane_entries import AHEAD_BYTES, PAGE_MESSAGES
from engine.backlog.memory_budget import CROWDED_PERCENT, HOLDER_BYTES, SPILL_PERCENT, MemoryBudget
from engine.backlog.spilled_blocks import (
    EXPIRING,
    FILLING,
    SEARCHING,
    BlockSweep,
    LaneBlock,
    Spill,
    SpilledBlocks,
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
AHEAD_PERCENT: Final = 90  # of the room; from here on only messages that leave at once are brought in ahead
GATHERED_PART: Final = 16  # gathered in all lanes: above the memory limit / 16 blocks are small
RETRY_MS: Final = 1_000  # after the disk refused


@dataclass(slots=True, eq=False)
class Spiller(SpillRoom):
    """reason: why the disk refused the last block, "" if it did not.  blocks: of all lanes.

    block_bytes, small_block_bytes: BLOCK_BYTES and SMALL_BLOCK_BYTES; tests set less.
    sweep: removes expired messages from blocks; None before the broker is whole.
    _waiting: lanes whose block could not be read; they are asked for again after RETRY_MS.
    _unwritten: blocks in memory that the disk has refused, and those ended meanwhile; written again after RETRY_MS.
    """

    _space: SpillSpace
    _memory: MemoryBudget
    _clock: Clock
    _timers: Timers
    blocks: SpilledBlocks
    reason: str = ""
    block_bytes: int = BLOCK_BYTES
    small_block_bytes: int = SMALL_BLOCK_BYTES
    sweep: BlockSweep | None = None
    _refused_ms: int = -RETRY_MS
    _waiting: list[Lane] = field(default_factory=list)
    _unwritten: deque[LaneBlock] = field(default_factory=deque)
    _is_retry_armed: bool = False

    def __post_init__(self) -> None:
        self._space.attach(self)

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

    def may_search(self, lane: Lane) -> bool:
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
        return self._memory.is_used(AHEAD_PERCENT)

    def _is_refused(self) -> bool:
        return self._clock.monotonic_ms() - self._refused_ms < RETRY_MS

    def takes(self, lane: Lane, message: Message, position: int) -> bool:
        spill = lane.spill
        if spill is None:
            if not self._wants(lane):
                return False
            spill = self.blocks.begin(lane)
        block = spill.gathered
        block.put(message, position)
        if 0 < message.expires_ms < spill.first_expiry_ms:
            spill.first_expiry_ms = message.expires_ms
        memory_bytes = _memory_of(message)
        block.memory_bytes += memory_bytes
        blocks = self.blocks
        blocks.gathered_bytes += memory_bytes
        is_much = blocks.gathered_bytes * GATHERED_PART > self._memory.limit_bytes
        most_bytes = self.small_block_bytes if is_much else self.block_bytes
        most_count = SMALL_BLOCK_MESSAGES if is_much else BLOCK_MESSAGES  # a tiny message takes more than its octets
        if block.size_bytes >= most_bytes or block.count >= most_count:
            spill.blocks.append(blocks.end_gathering(spill))
            if self._is_refused():
                self._unwritten.append(block)
            else:
                self._write(block)
        return True

    def _write(self, block: LaneBlock) -> None:
        block.is_writing = True
        self._space.write(block)

    def write_out(self, lane: Lane) -> bool:
        """Write the last messages in memory to a block before the others; say whether there were any to write.

        What the log has stays: its part of the memory is not a user's, and a block may be discarded.
        """
        queue = lane.queue
        if (
            not lane.ready
            or not queue.is_in_memory(lane.ready[-1].message)
            or lane.ready_bytes <= LITTLE_BYTES
            or lane.next_load < lane.tail
            or lane.volatile
            or lane.stale
            or queue.has_selection()
            or queue.needs_all_at_hand()
            or self._is_refused()
            or (lane.spill is not None and lane.spill.reading is not None)  # the first block, which comes back next
        ):
            return False
        spill = lane.spill or self.blocks.begin(lane)
        last: list[Delivery] = []
        size_bytes = 0
        while lane.ready and lane.ready_bytes > LITTLE_BYTES and size_bytes < self.block_bytes:
            if len(last) == BLOCK_MESSAGES or not queue.is_in_memory(lane.ready[-1].message):
                break
            delivery = lane.ready.pop()
            lane.ready_bytes -= delivery.message.size
            size_bytes += delivery.message.size
            last.append(delivery)
        block = self.blocks.new_block(lane)
        for delivery in reversed(last):
            block.put(delivery.message, delivery.position)
        spill.first_expiry_ms = min(spill.first_expiry_ms, block.first_expiry_ms)
        spill.blocks.appendleft(block)
        self._write(block)
        return True

    def written(self, block: SpilledBlock, reason: str) -> None:
        assert isinstance(block, LaneBlock), "a written block is one of a lane"
        block.is_writing = False
        self.reason = reason
        if reason:
            self._keep_unwritten(block)
        else:
            self._write_next()
            if block.is_dropped:
                self._space.free(block)
                return
            self.blocks.leave_memory(block)
        if block.lane.queue.has_selection() and not block.is_dropped:
            block.lane.queue.mark_dirty()  # a selection may have waited to search it

    def _keep_unwritten(self, block: LaneBlock) -> None:
        """Keep a block that the disk has refused in memory, and try again later, whether or not more comes."""
        now_ms = self._clock.monotonic_ms()
        self._refused_ms = now_ms
        self._unwritten = deque(one for one in (*self._unwritten, block) if not one.is_dropped)
        if not self._is_retry_armed:
            self._is_retry_armed = True
            self._timers.call_at(now_ms + RETRY_MS, WriteRetry(self), 0)

    def retry_write(self) -> None:
        """The pause after a refusal is over."""
        self._is_retry_armed = False
        self._write_next()

    def _write_next(self) -> None:
        """Write the next block that the disk has refused; its answer leads to the one behind it."""
        while self._unwritten:
            block = self._unwritten.popleft()
            if not block.is_dropped:
                self._write(block)
                return

    # From the disk.

    def fill(self, lane: Lane) -> int:
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
                block = self.blocks.end_gathering(spill)
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
        low_bytes = 1 if self.is_short() else max(1, min(LOW_BYTES, lane.memory_bytes))
        return lane.ready_bytes < low_bytes

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
        if spill.purpose == SEARCHING:
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
        self.blocks.free(block)
        self._give_back(lane, spill, positions, messages)

    def refused(self, block: SpilledBlock, reason: str, is_lost: bool) -> None:
        spill = self._answered(block)
        if spill is None:
            return
        assert isinstance(block, LaneBlock), "a refused block is one of a lane"
        lane = block.lane
        if is_lost:
            self.blocks.lose(lane, spill, block, reason)
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

    def search(self, lane: Lane, block: LaneBlock) -> None:
        spill = lane.spill
        assert spill is not None, "a block belongs to what a lane has spilled"
        if block.is_on_disk:
            self.read(spill, block, SEARCHING)
        else:
            lane.queue.show_spilled(lane, block, block.positions, block.messages)

    def bring_in(self, lane: Lane, block: LaneBlock, delivery: Delivery) -> None:
        message = delivery.message
        self.blocks.take_out(lane, block, message, delivery.position)
        insort(lane.returned, delivery, key=position_of)
        lane.ready_bytes += message.size
        lane.queue.mask |= lane.bit
        if message.expires_ms:
            lane.queue.has_expiring = True


@dataclass(slots=True, eq=False)
class ReadRetry(TimerTarget):
    """Ends the pause in which a disk that refused is not asked."""

    _spiller: Spiller

    def timer_fired(self, key: int) -> None:
        self._spiller.ask_again()


@dataclass(slots=True, eq=False)
class WriteRetry(TimerTarget):
    """Ends the pause after which blocks that the disk has refused are written again."""

    _spiller: Spiller

    def timer_fired(self, key: int) -> None:
        self._spiller.retry_write()


def _memory_of(message: Message) -> int:
    """Return roughly how much memory one holder of a message takes."""
    return max(message.size, HOLDER_BYTES) if message.holders <= 1 else HOLDER_BYTES


def may_spill(queue: LaneOwner) -> bool:
    """Say whether messages only in memory may be moved to temporary files."""
    return queue.settings.full.address_full_policy == "PAGE"
