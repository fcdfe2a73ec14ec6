"""The records of the log once more, after a stop: state and consume-queue entries come out as they were.

Whatever is not whole at or above the offset that was published as durable was never confirmed: the log ends there.
Below it, it is corruption, and that is an error unless skipping was asked for.
"""

from __future__ import annotations

import struct
from typing import Final

from engine.store.disk.files import Files
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint
from engine.store.format.record import Record
from engine.store.format.record_cursor import RecordCursor, find_whole, record_at
from engine.store.log.recovery_report import LogRange, RecoveryReport
from engine.store.log.segment import Segment, records_limit
from engine.store.log.segment_octets import SegmentOctets, open_octets
from engine.store.queues.consume_queue import ConsumeQueueFiles
from engine.store.state.closed_segment import Closing
from engine.store.state.lane import RECOVERED, Lane
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import load_snapshot
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.message import IN_TRANSACTION
from engine.values.stored import Range

ENTRIES_IN_MEMORY_BYTES: Final = 16 << 20  # a rebuild brings entries beyond these to the disk on its way

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
MESSAGE: Final = layout.MESSAGE
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
LANE_SHIFT: Final = layout.LANE_SHIFT
METADATA: Final = (layout.DESTINATION, layout.CONSUMER, layout.SUBSCRIPTION, layout.CLOSE)
UNPACK_FIXED: Final = layout.MESSAGE_FIXED.unpack_from


class InvalidRecord(Exception):
    """Internal: what stands at ``offset`` is no record that may stand there.

    is_whole: its checksum matches, so no torn write explains it, and it is never cut off.
    """

    def __init__(self, offset: int, reason: str, is_whole: bool = False) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason
        self.is_whole = is_whole


class Replay:
    """From a snapshot to the last whole record.

    state, sequence, time_ms, end: the log as it is just past what was replayed; ``last_place`` is of the segment in
    which it ends.  closings: consume-queue entries that are not in the files yet.
    """

    __slots__ = (
        "state",
        "sequence",
        "time_ms",
        "end",
        "last_place",
        "closings",
        "consume_queue_offset",
        "_files",
        "_queues",
        "_segments",
        "_durable",
        "_is_durable_known",
        "_is_skipping",
        "_report",
        "_pending",
        "_has_skipped",
        "_has_gaps",
        "_octets",
        "_is_sequence_open",
        "_closing_bytes",
        "_split",
    )

    def __init__(
        self,
        files: Files,
        queues: ConsumeQueueFiles,
        segments: list[Segment],
        checkpoint: Checkpoint | None,
        is_skipping: bool,
        report: RecoveryReport,
        state: StoreState,
        sequence: int,
        consume_queue_offset: int,
    ) -> None:
        self.state = state
        self.sequence = sequence
        self.time_ms = 0
        self.end = 0
        self.last_place = 0
        self.closings: list[Closing] = []
        self.consume_queue_offset = consume_queue_offset
        self._files = files
        self._queues = queues
        self._segments = segments
        self._durable = checkpoint.durable_offset if checkpoint is not None else 0
        self._is_durable_known = checkpoint is not None
        self._is_skipping = is_skipping
        self._report = report
        self._pending: list[Record] = []  # of a transaction whose commit record has not come yet
        # A segment may be missing already.
        self._has_skipped = bool(report.skipped)  # queue offsets may jump, records may name what is lost
        self._has_gaps = False  # the same in a sparse segment, and until the next snapshot
        self._octets: SegmentOctets | None = None  # of the segment that is replayed
        self._is_sequence_open = self._has_skipped  # the next record may have any higher sequence
        self._closing_bytes = 0
        self._split: tuple[int, int] | None = None  # what the commit record says that is in the next segment

    def run(self, start: int) -> None:
        """Replay everything from the segment at ``start`` on, which opens with the snapshot that the state is from."""
        last = len(self._segments) - 1
        for place in range(start, len(self._segments)):
            segment = self._segments[place]
            self.last_place = place
            octets = self._octets = open_octets(self._files, segment)
            try:
                invalid = self._replay_segment(octets, place, place == start, place == last)
            finally:
                octets.file.close()
            if invalid is not None:
                self.end = invalid.offset
                self._report.cut = LogRange(
                    invalid.offset,
                    self._segments[last].limit(),
                    segment.path(),
                    HEADER_BYTES + invalid.offset - segment.base,
                    invalid.reason,
                )
                return
        if self.end < self._durable:
            segment = self._segments[last]
            reason = f"the log ends here, but was durable up to log offset {self._durable}"
            if not self._is_skipping:
                raise self._corrupt(segment, InvalidRecord(self.end, reason))
            self._skip(segment, self.end, self._durable, reason)

    def _replay_segment(self, octets: SegmentOctets, place: int, is_first: bool, is_last: bool) -> InvalidRecord | None:
        """Replay one segment; return where the log has to be cut, None if it goes on."""
        segment = self._segments[place]
        upper = records_limit(self._segments, place)
        offset = self.end = segment.base
        while True:
            try:
                self._walk(octets, segment, offset, upper, is_first)
                is_sparse = octets.runs is not None
                if self._pending and self._is_skipping and not (is_last or is_sparse) and self._is_split(place + 1):
                    pending, self._pending = self._pending, []
                    self._apply_records(pending)
                if self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", is_sparse)
                if is_sparse:
                    self._is_sequence_open = False
                    self.sequence = segment.next_sequence
                    self.end = upper
                    return None
                if self.end < self._durable <= upper:
                    raise InvalidRecord(self.end, f"no record, but the log was durable up to {self._durable}")
                if is_last and not self._is_durable_known and find_whole(octets, self.end, upper, upper) < upper:
                    raise InvalidRecord(self.end, "there is no record here, though whole ones follow")
                return None
            except InvalidRecord as invalid:
                if self._pending:
                    # What is not committed goes with what should have followed it.
                    invalid.offset = self._pending[0].offset
                    self.sequence -= len(self._pending)
                    self._pending.clear()
                if not invalid.is_whole and self._may_cut(octets, place, upper, invalid.offset):
                    return invalid
                if not self._is_skipping:
                    raise self._corrupt(segment, invalid) from None
                self.end = invalid.offset
                offset = find_whole(octets, invalid.offset + layout.ALIGNMENT, upper, upper)
                self._skip(segment, invalid.offset, offset, invalid.reason)
                if offset == upper:
                    return invalid if is_last else None

    def _is_split(self, place: int) -> bool:
        """Say whether the segment at ``place`` begins with the commit record of what is pending.

        Versions before this one reserved too little for some transactions: the new segment's snapshot then came
        between a transaction and its commit record, and knows of both.
        """
        segment = self._segments[place]
        upper = records_limit(self._segments, place)
        octets = open_octets(self._files, segment)
        try:
            if octets.runs is not None:
                return False
            snapshot = record_at(octets, segment.base, upper)
            record = None if snapshot is None else record_at(octets, snapshot.end(), upper)
        finally:
            octets.file.close()
        if record is None or record.type != layout.COMMIT:
            return False
        first, count = record.commit()
        if (first, count) != (self.sequence - len(self._pending), len(self._pending)):
            return False
        self._split = (first, count)
        return True

    def _may_cut(self, octets: SegmentOctets, place: int, upper: int, offset: int) -> bool:
        """Return whether nothing that was ever confirmed stands at ``offset`` or above."""
        if self._segments[place].is_sparse:
            return False  # it was whole on the disk before it got its name
        if self._is_durable_known:
            return offset >= self._durable
        # Nobody knows what was durable: only what is followed by nothing whole is taken for a torn tail.
        if find_whole(octets, offset + layout.ALIGNMENT, upper, upper) < upper:
            return False
        return not any(segment.opens_with_snapshot() for segment in self._segments[place + 1 :])

    def _skip(self, segment: Segment, offset: int, end: int, reason: str) -> None:
        self._report.skipped.append(LogRange(offset, end, segment.path(), self._position(segment, offset), reason))
        self._has_skipped = True
        self._is_sequence_open = True

    def _position(self, segment: Segment, offset: int) -> int:
        """Return where a log offset is in the file that is replayed."""
        return segment.position(offset) if self._octets is None else self._octets.position(offset)

    def _corrupt(self, segment: Segment, invalid: InvalidRecord) -> StoreCorrupt:
        position = self._position(segment, invalid.offset)
        return StoreCorrupt(f"{segment.path()}, position {position}, log offset {invalid.offset}: {invalid.reason}")

    def _walk(self, octets: SegmentOctets, segment: Segment, offset: int, upper: int, is_first: bool) -> None:
        """Replay records from ``offset`` on until there is room or the segment's end; ``end`` follows.

        Records of a sparse segment, and those behind it, may name messages that are gone; the next snapshot then says
        how things stand.
        """
        is_sparse = octets.runs is not None
        self._has_gaps |= is_sparse
        cursor = RecordCursor(octets, offset, upper, upper)
        cursor.expected = self.sequence
        cursor.is_open = self._is_sequence_open
        lanes = self.state.lanes
        count = 0
        while cursor.advance():
            record_type = cursor.type
            offset = cursor.offset
            if offset == segment.base and record_type != layout.SNAPSHOT and not segment.is_continuation:
                raise InvalidRecord(offset, "the segment does not begin with a snapshot", True)
            if cursor.flags & IN_TRANSACTION:
                self._pending.append(cursor.head())
            elif record_type == MESSAGE and not self._pending:
                _, _, _, priority, _, _, tag_hash, group_hash, expires_ms, queue_offset = UNPACK_FIXED(
                    cursor.octets, cursor.at + layout.RECORD_HEADER_BYTES
                )
                lane = lanes.get((cursor.destination_id << LANE_SHIFT) | priority)
                if lane is None or lane.tail != queue_offset:
                    lane = self._lane_at(offset, cursor.destination_id, priority, queue_offset)
                size = cursor.size
                lane.add(offset, size, cursor.flags, MESSAGE, tag_hash, group_hash, expires_ms, cursor.time_ms)
                lane.live_bytes += size - MESSAGE_HEAD_BYTES
            else:
                record = cursor.record()
                if record_type == layout.COMMIT:
                    self._apply_transaction(segment, record)
                elif self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", True)
                elif record_type == layout.SNAPSHOT:
                    self._meet_snapshot(record, is_first)
                self._apply(record)
                lanes = self.state.lanes
            self._is_sequence_open = False
            self.sequence = cursor.sequence + 1
            self.time_ms = cursor.time_ms
            self.end = cursor.end
            count += 1
        self._report.replayed_records += count
        if cursor.flaw:
            raise InvalidRecord(cursor.offset, cursor.flaw, cursor.is_flaw_whole)

    def _is_lenient(self) -> bool:
        """Return whether records may name what is not there."""
        return self._has_skipped or self._has_gaps

    def _lane_at(self, offset: int, destination_id: int, priority: int, queue_offset: int) -> Lane:
        """Return the lane that a message's entry is to be the next of."""
        if destination_id not in self.state.destinations:
            if not self._is_lenient():
                raise InvalidRecord(offset, f"destination {destination_id} is not known", True)
            self.state.add_destination(destination_id, QUEUE, f"recovered.{destination_id}")
        lane = self.state.open_lane(destination_id, priority)
        if lane.tail != queue_offset:
            if not self._is_lenient() or queue_offset < lane.tail:
                reason = f"entry {queue_offset} of queue {destination_id}/{priority}, {lane.tail} should follow"
                raise InvalidRecord(offset, reason, True)
            self._leave_out(lane, queue_offset)
        return lane

    def _apply_transaction(self, segment: Segment, record: Record) -> None:
        pending = self._pending
        self._pending = []
        offset = record.offset
        try:
            first, count = record.commit()
        except ValueError as error:
            raise InvalidRecord(offset, str(error), True) from None
        if self._split is not None and self._split == (first, count) and not pending:
            self._split = None
            reason = f"the commit record of the {count} records at the end of the segment before; they are taken"
            lost = LogRange(offset, record.end(), segment.path(), segment.position(offset), reason)
            self._report.skipped.append(lost)
            return
        if record.is_followed and (count != len(pending) or first != record.sequence - count):
            if self._has_skipped:
                return  # its beginning is lost, so all of it is
            start = pending[0].offset if pending else offset
            raise InvalidRecord(start, f"a transaction of {len(pending)} records, its commit record says {count}", True)
        self._apply_records(pending)

    def _apply_records(self, pending: list[Record]) -> None:
        for record in pending:
            if record.type != MESSAGE:
                self._apply(record)
                continue
            message = record.message()
            lane = self._lane_at(record.offset, record.destination_id, message.priority, message.queue_offset)
            lane.add(
                record.offset,
                record.size,
                record.flags,
                MESSAGE,
                message.tag_hash,
                message.group_hash,
                message.expires_ms,
                record.store_time_ms,
            )
            lane.live_bytes += record.size - MESSAGE_HEAD_BYTES

    def _apply(self, record: Record) -> None:
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
                reason = f"a record of type {record_type}, which is not known here"
                raise InvalidRecord(record.offset, reason, True)
        except (KeyError, TypeError, ValueError, struct.error) as error:
            if not self._is_lenient():
                reason = f"a record of type {record_type} that cannot be read: {error!r}"
                raise InvalidRecord(record.offset, reason, True) from None
        state.system.add(
            record.offset,
            record.size,
            record.flags,
            record_type,
            record.destination_id,
            0,
            0,
            record.store_time_ms,
        )

    def _meet_snapshot(self, record: Record, is_first: bool) -> None:
        """Begin a segment; ``is_first``: the state is from this very snapshot."""
        if self._is_lenient() and not is_first:
            try:
                self._take_over(load_snapshot(record.payload()))
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidRecord(record.offset, f"a snapshot that cannot be read: {error!r}", True) from None
            self._has_gaps = not record.is_followed
        if not is_first:
            self._close_entries(record.offset)

    def _take_over(self, snapshot: StoreState) -> None:
        """After a loss, believe the next snapshot, which knows everything that happened before it."""
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

    def _leave_out(self, lane: Lane, tail: int) -> None:
        """Go on at entry ``tail`` although the records before it are lost: their entries are empty, and settled."""
        first, count = lane.tail, tail - lane.tail
        lane.entries += bytes(count * layout.ENTRY_BYTES)
        lane.settle(first, count)
        if lane.is_topic and lane is not self.state.system:
            for member in self.state.destinations[lane.destination_id].holders.members:
                member.lane(lane.priority).settle(first, count)
        lane.tail = tail

    def _close_entries(self, base: int) -> None:
        """Collect the entries of the segments below ``base``; bring them to the disk if they are many."""
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
