"""Expires messages in temporary files that no consumer reads.

It reads one block at a time, and skips lanes and blocks in which nothing can have expired.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.backlog.lane import Lane
from engine.backlog.spilled_blocks import EXPIRING, BlockSweep, LaneBlock
from engine.backlog.spiller import Spiller
from engine.consumers.turn_steps import Chore, Steps
from engine.dispatch.dispatcher import Dispatcher
from engine.ports.temp_store import SpilledBlock
from engine.sources.queue import Queue, queue_of
from engine.values.delivery import Delivery
from engine.values.message import Message
from engine.values.stored import NEVER_MS


@dataclass(slots=True, eq=False)
class SpillSweep(Chore):
    """waiting: lanes in whose files something may have expired.  lane: the current one.

    next_position: of that lane.  next_ms: the earliest expiry of the messages passed.
    reading: the block that is being read for it, None for none.  is_under_way: a chore of this turn or the next.
    """

    dispatcher: Dispatcher
    spiller: Spiller
    steps: Steps
    waiting: dict[Lane, None] = field(default_factory=dict)
    lane: Lane | None = None
    next_position: int = 0
    next_ms: int = NEVER_MS
    reading: LaneBlock | None = None
    is_under_way: bool = False

    def __post_init__(self) -> None:
        self.spiller.sweep = _BlocksRead(self)

    def add(self, queue: Queue) -> None:
        """Add a queue; its expired messages are handled in its turn."""
        for lane in queue.used_lanes:
            spill = lane.spill
            if spill is not None and spill.first_expiry_ms <= self.dispatcher.context.wall_ms:
                self.waiting[lane] = None
                self._begin()

    def go_on(self, steps: Steps) -> bool:
        least = steps.left_to_others()
        while self.reading is None and (self.lane is not None or self.waiting):
            if steps.left <= least:
                return False
            steps.left -= 1
            if self.lane is None:
                self._take_up(next(iter(self.waiting)))
            else:
                self._examine_block(self.lane, steps)
        self.is_under_way = False
        return True

    # -- the spiller's answers

    def answered(self, block: SpilledBlock) -> None:
        """A block was read, or could not be; ``block_read`` follows if it was read for this part."""
        if block is self.reading:
            self.reading = None
            self._begin()

    # -- the steps

    def _begin(self) -> None:
        if self.reading is None and not self.is_under_way:
            self.is_under_way = True
            self.steps.begin(self)

    def _take_up(self, lane: Lane) -> None:
        del self.waiting[lane]
        if lane.spill is not None:
            self.lane = lane
            self.next_position = lane.spill.first_position()
            self.next_ms = NEVER_MS
            lane.spill.first_expiry_ms = NEVER_MS  # a new message lowers it again

    def _examine_block(self, lane: Lane, steps: Steps) -> None:
        """Check the next block of a lane."""
        spill = lane.spill
        block = None if spill is None else spill.block_from(self.next_position)
        if spill is None or block is None or spill.reading is not None:
            # Another part is reading a block of it: the next sweep continues.
            self._end(lane, self.next_ms if block is None else 0)
            return
        self.next_position = block.last_position + 1
        if block.first_expiry_ms > self.dispatcher.context.wall_ms or block.is_writing:
            self.next_ms = min(self.next_ms, block.first_expiry_ms)
        elif block.is_on_disk:
            self.reading = block
            self.spiller.read(spill, block, EXPIRING)
        else:
            steps.left -= block.count
            self.expire(block, block.positions[:], block.messages[:])

    def _end(self, lane: Lane, next_ms: int) -> None:
        self.lane = None
        if lane.spill is not None:
            lane.spill.first_expiry_ms = min(lane.spill.first_expiry_ms, next_ms)

    def expire(self, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        """Expire messages of a block that was read, or is in memory."""
        lane = block.lane
        queue = queue_of(lane)
        wall_ms = self.dispatcher.context.wall_ms
        block.first_expiry_ms = NEVER_MS
        for position, message in zip(positions, messages, strict=True):
            if not message.expires_ms or not block.is_left(position):
                continue
            if message.expires_ms > wall_ms:
                block.first_expiry_ms = min(block.first_expiry_ms, message.expires_ms)
                continue
            self.spiller.blocks.take_out(lane, block, message, position)
            self.dispatcher.expire(Delivery(message, lane, position), queue)
        self.next_ms = min(self.next_ms, block.first_expiry_ms)


@dataclass(slots=True, eq=False)
class _BlocksRead(BlockSweep):
    """Passes the spiller's answers on."""

    _sweep: SpillSweep

    def block_read(self, block: LaneBlock, positions: list[int], messages: list[Message]) -> None:
        self._sweep.expire(block, positions, messages)

    def answered(self, block: SpilledBlock) -> None:
        self._sweep.answered(block)
