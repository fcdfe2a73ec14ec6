"""The state of a store rebuilt from its records, with the consume-queue entries that result from them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.state.consume_queue import RECOVERED, Closing, ConsumeQueue
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import load_snapshot
from engine.values.destination import QUEUE
from engine.values.stored import Range

ENTRIES_IN_MEMORY_BYTES: Final = 16 << 20  # beyond this, a rebuild writes entries to the disk as it proceeds

MESSAGE: Final = layout.MESSAGE
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
METADATA: Final = (layout.DESTINATION, layout.CONSUMER, layout.SUBSCRIPTION, layout.CLOSE)


class InvalidRecord(Exception):
    """Internal: there is no valid record at ``offset``.

    is_whole: its checksum matches, so a torn write does not explain it, and it is never cut off.
    """

    def __init__(self, offset: int, reason: str, is_whole: bool = False) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason
        self.is_whole = is_whole


@dataclass(slots=True, eq=False)
class RebuiltState:
    """closings: consume-queue entries that are not in the files yet; below ``consume_queue_offset`` all are.

    has_skipped: records were lost, so queue offsets may jump, and records may name what does not exist.
    has_gaps: the same in a sparse segment, and until the next snapshot.
    """

    _queues: ConsumeQueueFiles
    state: StoreState
    consume_queue_offset: int
    has_skipped: bool
    closings: list[Closing] = field(default_factory=list)
    has_gaps: bool = False
    _closing_bytes: int = 0

    def is_lenient(self) -> bool:
        """Return whether records may name what does not exist."""
        return self.has_skipped or self.has_gaps

    def lane_at(self, offset: int, destination_id: int, priority: int, queue_offset: int) -> ConsumeQueue:
        """Return the lane of which a message's entry is the next."""
        if destination_id not in self.state.destinations:
            if not self.is_lenient():
                raise InvalidRecord(offset, f"destination {destination_id} is not known", True)
            self.state.add_destination(destination_id, QUEUE, f"recovered.{destination_id}")
        lane = self.state.open_lane(destination_id, priority)
        if lane.tail != queue_offset:
            if not self.is_lenient() or queue_offset < lane.tail:
                reason = f"entry {queue_offset} of queue {destination_id}/{priority}, {lane.tail} should follow"
                raise InvalidRecord(offset, reason, True)
            self._leave_out(lane, queue_offset)
        return lane

    def apply_transaction(self, pending: list[Record]) -> None:
        for record in pending:
            if record.type != MESSAGE:
                self.apply(record)
                continue
            message = record.message()
            lane = self.lane_at(record.offset, record.destination_id, message.priority, message.queue_offset)
            lane.add_record(record, message.tag_hash, message.group_hash, message.expires_ms)
            lane.live_bytes += record.size - MESSAGE_HEAD_BYTES

    def apply(self, record: Record) -> None:
        """Apply a record that is not a message."""
        state = self.state
        record_type = record.type
        try:
            if record_type == layout.SETTLEMENT or record_type == layout.ATTEMPTS:
                said = record.settlement()
                ranges = [Range(*each) for each in said.ranges]
                if record_type == layout.SETTLEMENT:
                    state.settle(record.destination_id, ranges, said.due_or_freed)
                else:
                    due_ms, time_ms = said.due_or_freed, record.store_time_ms
                    state.fail_attempts(record.destination_id, said.consumer_id, said.cause, due_ms, time_ms, ranges)
            elif record_type in METADATA:
                state.take(record_type, record.described())
            elif record_type not in (layout.COMMIT, layout.SNAPSHOT):
                reason = f"a record of unknown type {record_type}"
                raise InvalidRecord(record.offset, reason, True)
        except (KeyError, TypeError, ValueError, struct.error) as error:
            if not self.is_lenient():
                reason = f"a record of type {record_type} that cannot be read: {error!r}"
                raise InvalidRecord(record.offset, reason, True) from None
        state.system.list_record(record)

    def meet_snapshot(self, record: Record, is_first: bool) -> None:
        """Begin a segment; ``is_first``: the state is from this very snapshot."""
        if self.is_lenient() and not is_first:
            try:
                self._take_over(load_snapshot(record.payload()))
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidRecord(record.offset, f"a snapshot that cannot be read: {error!r}", True) from None
            self.has_gaps = not record.is_followed
        if not is_first:
            self._close_entries(record.offset)

    def _take_over(self, snapshot: StoreState) -> None:
        """After a loss, trust the next snapshot, which covers everything before it."""
        state = self.state
        snapshot.consumers.next_number = max(state.consumers.next_number, snapshot.consumers.next_number)
        state.consumers = snapshot.consumers
        state.next_destination = max(state.next_destination, snapshot.next_destination)
        for number in [number for number in state.destinations if number not in snapshot.destinations]:
            state.close(number)
        state.subscriptions = snapshot.subscriptions
        for number, destination in snapshot.destinations.items():
            state.add_destination(number, destination.kind, destination.name)
            for known in destination.lanes:
                lane = state.open_lane(number, known.priority)
                if lane.tail < known.tail:
                    self._leave_out(lane, known.tail)
                lane.settled = known.settled
                lane.failed = known.failed
                lane.live_bytes = known.live_bytes
            state.destinations[number].holders = destination.holders
        state.find_failing()
        if state.system.tail < snapshot.system.tail:
            self._leave_out(state.system, snapshot.system.tail)

    def _leave_out(self, lane: ConsumeQueue, tail: int) -> None:
        """Continue at entry ``tail`` although the records before it are lost; their entries are empty and settled."""
        first, count = lane.tail, tail - lane.tail
        lane.entries += bytes(count * layout.ENTRY_BYTES)
        lane.settle(first, count)
        if lane.is_topic and lane is not self.state.system:
            for member in self.state.destinations[lane.destination_id].holders.members:
                member.lane(lane.priority).settle(first, count)
        lane.tail = tail

    def _close_entries(self, base: int) -> None:
        """Collect the entries of the segments below ``base``; write them to the disk if they are many."""
        blocks = self.state.close_entries()
        size_bytes = sum(len(block.octets) for block in blocks)
        self.closings.append(Closing(base, blocks, RECOVERED, [], size_bytes))
        self._closing_bytes += size_bytes
        if self._closing_bytes > ENTRIES_IN_MEMORY_BYTES:
            for closing in self.closings:
                self._queues.store(closing.blocks)
            for lane in self.state.all_lanes():
                lane.closing.clear()
            self.closings.clear()
            self._closing_bytes = 0
            self.consume_queue_offset = base
