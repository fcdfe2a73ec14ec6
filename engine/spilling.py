"""Messages that only memory holds, past what memory is to hold of them: they go to temporary files, in blocks.

A lane of a queue whose address pages (``address-full-policy: PAGE``) keeps the first of them in memory.  Once it has
enough there, or memory as a whole runs short, what comes is gathered to blocks that a worker writes; they come back in
their order when the lane runs low.  Nothing of it is left after a restart.  A disk that refuses leaves the messages
where they are, in memory, whose gate then shuts as it would without all this.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from engine.delivery import Delivery
from engine.lane import PAGE_MESSAGES, SERIAL_BITS, Lane
from engine.memory import MemoryBudget
from engine.message import Message
from engine.ports import Clock, SpilledBlock, SpillListener, SpillSpace, Timers, TimerTarget

if TYPE_CHECKING:
    from engine.accounts import Accounts

BLOCK_BYTES: Final = 64 * 1024  # of one block, unless a message is larger
LOW_BYTES: Final = 256 * 1024  # ready in a lane below which it asks for the next block
SMALL_BLOCK_BYTES: Final = 2 * 1024  # the same while memory runs short: thousands of queues may be gathering
SPILL_PERCENT: Final = 60  # of the memory limit; from there on lanes spill that hold little themselves
SHORT_PERCENT: Final = 75  # the same; from there on blocks are small
RETRY_MS: Final = 1_000  # after the disk refused


class LaneBlock(SpilledBlock):
    """A block of one lane."""

    __slots__ = ("lane",)

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.lane = lane


class Spill:
    """What a lane has spilled: ``blocks`` in their order, then ``gathered``, which is to be the next one.

    memory_messages: the lane's own setting, which is 0 meanwhile: so what is logged and comes behind stays on disk.
    is_loading: a block is on its way back.
    """

    __slots__ = ("blocks", "gathered", "memory_messages", "is_loading")

    def __init__(self, lane: Lane) -> None:
        self.blocks: deque[LaneBlock] = deque()
        self.gathered = LaneBlock(lane)
        self.memory_messages = lane.memory_messages
        self.is_loading = False

    def first_position(self) -> int:
        """Return the position of the first message in it."""
        return self.blocks[0].first_position if self.blocks else self.gathered.first_position

    def is_empty(self) -> bool:
        """Say whether nothing is spilled any more."""
        return not self.blocks and not self.gathered.count


class Spiller(SpillListener):
    """reason: why the disk refused the last block, "" if it did not.  spilled_bytes: in temporary files now.

    block_bytes, small_block_bytes: BLOCK_BYTES and SMALL_BLOCK_BYTES; tests set less.
    _waiting: lanes whose block could not be read; they are asked for again after RETRY_MS.
    """

    __slots__ = (
        "reason",
        "spilled_bytes",
        "block_bytes",
        "small_block_bytes",
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
        self.block_bytes = BLOCK_BYTES
        self.small_block_bytes = SMALL_BLOCK_BYTES
        self._space = space
        self._memory = memory
        self._clock = clock
        self._timers = timers
        self._refused_ms = -RETRY_MS
        self._waiting: list[Lane] = []
        space.attach(self)

    # To the disk.

    def wants(self, lane: Lane) -> bool:
        """Say whether what comes to a lane goes to the disk from now on."""
        if lane.queue.is_choosy or self._is_refused():
            return False
        full = lane.queue.settings.full
        if 0 <= full.max_size_bytes <= lane.ready_bytes or 0 <= full.max_size_messages <= len(lane.ready):
            return True
        return self._is_used(SPILL_PERCENT)

    def _is_used(self, percent: int) -> bool:
        return self._memory.used_bytes * 100 >= self._memory.limit_bytes * percent

    def _is_refused(self) -> bool:
        return self._clock.monotonic_ms() - self._refused_ms < RETRY_MS

    def take(self, lane: Lane, message: Message, position: int) -> None:
        """Take a message that comes behind all that a lane has."""
        spill = lane.spill
        if spill is None:
            spill = lane.spill = Spill(lane)
            lane.memory_messages = 0
        block = spill.gathered
        block.add(message, position)
        if block.size_bytes >= (self.small_block_bytes if self._is_used(SHORT_PERCENT) else self.block_bytes):
            spill.blocks.append(block)
            spill.gathered = LaneBlock(lane)
            if not self._is_refused():
                block.is_writing = True
                self._space.write(block)

    def written(self, block: SpilledBlock, reason: str) -> None:
        block.is_writing = False
        self.reason = reason
        if reason:
            self._refused_ms = self._clock.monotonic_ms()
        elif block.is_dropped:
            self._space.free(block)
        else:
            for message in block.messages:
                self._memory.page_out(message)
            self.spilled_bytes += block.size_bytes
            block.messages = []
            block.is_on_disk = True

    # And back.

    def fill(self, lane: Lane) -> int:
        """Bring back what comes next if the lane runs low; return how many entries of the log come before it, if so."""
        while (spill := lane.spill) is not None and not spill.is_loading and self._is_low(lane):
            before = 0
            if lane.next_load < lane.tail:
                before = (spill.first_position() >> SERIAL_BITS) + 1 - lane.next_load
            if before > 0:
                return 0 if lane.is_loading else min(before, lane.tail - lane.next_load, PAGE_MESSAGES)
            if not spill.blocks:
                block = spill.gathered
                spill.gathered = LaneBlock(lane)
            else:
                block = spill.blocks[0]
                if block.is_on_disk:
                    spill.is_loading = True
                    self._space.read(block)
                    return 0
                spill.blocks.popleft()
            # On its way to the disk or not, it is in memory still.
            block.is_dropped = True
            messages = block.messages
            block.messages = []
            self._give_back(lane, spill, block, messages)
        return 0

    def _is_low(self, lane: Lane) -> bool:
        if lane.queue.selection is not None:
            # Who selects looks at all that is in memory.
            return self._memory.used_bytes < self._memory.limit_bytes
        return lane.ready_bytes < max(1, min(LOW_BYTES, lane.memory_bytes))

    def loaded(self, block: SpilledBlock, messages: list[Message], reason: str) -> None:
        assert isinstance(block, LaneBlock), "what comes back has gone out here"
        lane = block.lane
        spill = lane.spill
        if block.is_dropped or spill is None:
            return  # the queue has ended meanwhile
        self.reason = reason
        if reason:
            self._waiting.append(lane)
            self._timers.call_at(self._clock.monotonic_ms() + RETRY_MS, ReadRetry(self), 0)
            return
        spill.is_loading = False
        spill.blocks.popleft()
        self.spilled_bytes -= block.size_bytes
        for message in messages:
            self._memory.page_in(message)
        self._space.free(block)
        self._give_back(lane, spill, block, messages)

    def ask_again(self) -> None:
        """Let the lanes ask again whose block could not be read."""
        waiting, self._waiting = self._waiting, []
        for lane in waiting:
            if lane.spill is not None:
                lane.spill.is_loading = False
                lane.queue.mark_dirty()

    def _give_back(self, lane: Lane, spill: Spill, block: SpilledBlock, messages: list[Message]) -> None:
        if spill.is_empty():
            lane.end_spill()
        queue = lane.queue
        deliveries = [
            Delivery(message, lane, position) for position, message in zip(block.positions, messages, strict=True)
        ]
        if any(message.expires_ms for message in messages):
            queue.has_expiring = True
        lane.add_back(deliveries)
        queue.mark_dirty()
        if queue.selection is not None:
            queue.selection.offer(deliveries)

    # The end.

    def drop(self, lane: Lane, accounts: Accounts) -> None:
        """Let go of all that a lane has spilled: its queue ends."""
        spill = lane.spill
        if spill is None:
            return
        lane.end_spill()
        for block in (*spill.blocks, spill.gathered):
            block.is_dropped = True
            for message in block.messages:
                self._memory.release(message)
            block.messages = []
            if block.is_on_disk:
                self.spilled_bytes -= block.size_bytes
                account = accounts.by_id.get(lane.queue.destination_id)
                if account is not None:
                    account.restore(-block.size_bytes, -block.count)
                self._space.free(block)


class ReadRetry(TimerTarget):
    """The time is over for which nobody asks a disk that refused."""

    __slots__ = ("_spiller",)

    def __init__(self, spiller: Spiller) -> None:
        self._spiller = spiller

    def timer_fired(self, key: int) -> None:
        self._spiller.ask_again()
