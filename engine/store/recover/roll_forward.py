"""The records of the log once more, after a stop: state and consume-queue entries come out as they were.

Whatever is not whole at or above the offset that was published as durable was never confirmed: the log ends there.
Below it, it is corruption, and that is an error unless skipping was asked for.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, read_fully
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint
from engine.store.format.sparse_runs import NOT_THERE, Runs
from engine.store.log.recovery_report import LogRange, RecoveryReport
from engine.store.log.segment import Segment, read_runs, records_limit
from engine.store.queues.consume_queue import ConsumeQueueFiles
from engine.store.state.closed_segment import Closing
from engine.store.state.log_state import RECOVERED, Lane, StoreState, compact_json
from engine.store.state.snapshot import load_snapshot
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.message import IN_TRANSACTION
from engine.values.stored import Range

READ_BYTES: Final = 4 << 20
ENTRIES_IN_MEMORY_BYTES: Final = 16 << 20  # a rebuild brings entries beyond these to the disk on its way

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
MESSAGE: Final = layout.MESSAGE
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
LANE_SHIFT: Final = layout.LANE_SHIFT
PACK_ENTRY: Final = layout.ENTRY.pack
UNPACK_SIZE_AND_CRC: Final = layout.SIZE_AND_CRC.unpack_from
UNPACK_REST: Final = layout.RECORD_REST.unpack_from
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


class Pending:
    """A record of a transaction whose commit record has not been read yet."""

    __slots__ = ("record_type", "destination_id", "offset", "size", "flags", "time_ms", "payload")

    def __init__(
        self, record_type: int, destination_id: int, offset: int, size: int, flags: int, time_ms: int, payload: bytes
    ) -> None:
        self.record_type = record_type
        self.destination_id = destination_id
        self.offset = offset
        self.size = size
        self.flags = flags
        self.time_ms = time_ms
        self.payload = payload  # of a message only its fixed part


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
        "_runs",
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
        self._pending: list[Pending] = []
        # A segment may be missing already.
        self._has_skipped = bool(report.skipped)  # queue offsets may jump, records may name what is lost
        self._has_gaps = False  # the same in a sparse segment, and until the next snapshot
        self._runs: Runs | None = None  # of the segment that is replayed, if it is sparse
        self._is_sequence_open = self._has_skipped  # the next record may have any higher sequence
        self._closing_bytes = 0
        self._split: tuple[int, int] | None = None  # what the commit record says that is in the next segment

    def run(self, start: int) -> None:
        """Replay everything from the segment at ``start`` on, which opens with the snapshot that the state is from."""
        last = len(self._segments) - 1
        for place in range(start, len(self._segments)):
            segment = self._segments[place]
            self.last_place = place
            file = self._files.open_to_read(segment.path())
            try:
                invalid = self._replay_segment(file, place, place == start, place == last)
            finally:
                file.close()
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

    def _replay_segment(self, file: File, place: int, is_first: bool, is_last: bool) -> InvalidRecord | None:
        """Replay one segment; return where the log has to be cut, None if it goes on."""
        segment = self._segments[place]
        upper = records_limit(self._segments, place)
        offset = self.end = segment.base
        self._runs = read_runs(file, segment.path()) if segment.is_sparse else None
        while True:
            try:
                if self._runs is not None:
                    self._walk_runs(file, segment, self._runs, offset, upper, is_first)
                    return None
                self._walk(file, segment, offset, upper, is_first)
                if self._pending and self._is_skipping and not is_last and self._is_split(place + 1):
                    pending, self._pending = self._pending, []
                    self._apply_records(pending)
                if self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record")
                if self.end < self._durable <= upper:
                    raise InvalidRecord(self.end, f"no record, but the log was durable up to {self._durable}")
                if is_last and not self._is_durable_known and self._find_record(file, segment, self.end, upper) < upper:
                    raise InvalidRecord(self.end, "there is no record here, though whole ones follow")
                return None
            except InvalidRecord as invalid:
                if self._pending:
                    # What is not committed goes with what should have followed it.
                    invalid.offset = self._pending[0].offset
                    self.sequence -= len(self._pending)
                    self._pending.clear()
                if not invalid.is_whole and self._may_cut(file, place, upper, invalid.offset):
                    return invalid
                if not self._is_skipping:
                    raise self._corrupt(segment, invalid) from None
                self.end = invalid.offset
                offset = self._find_record(file, segment, invalid.offset + layout.ALIGNMENT, upper)
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
        file = self._files.open_to_read(segment.path())
        try:
            size, _ = UNPACK_SIZE_AND_CRC(read_fully(file, RECORD_HEADER_BYTES, HEADER_BYTES).ljust(8, b"\0"))
            offset = segment.base + layout.padded(size)
            if segment.is_sparse or not size or not self._is_record(file, segment, offset, upper):
                return False
            octets = read_fully(file, RECORD_HEADER_BYTES + layout.COMMIT_FIXED.size, segment.position(offset))
        finally:
            file.close()
        if octets[8] != layout.COMMIT or len(octets) < RECORD_HEADER_BYTES + layout.COMMIT_FIXED.size:
            return False
        first, count, _ = layout.COMMIT_FIXED.unpack_from(octets, RECORD_HEADER_BYTES)
        if (first, count) != (self.sequence - len(self._pending), len(self._pending)):
            return False
        self._split = (first, count)
        return True

    def _may_cut(self, file: File, place: int, upper: int, offset: int) -> bool:
        """Return whether nothing that was ever confirmed stands at ``offset`` or above."""
        if self._segments[place].is_sparse:
            return False  # it was whole on the disk before it got its name
        if self._is_durable_known:
            return offset >= self._durable
        # Nobody knows what was durable: only what is followed by nothing whole is taken for a torn tail.
        if self._find_record(file, self._segments[place], offset + layout.ALIGNMENT, upper) < upper:
            return False
        return not any(segment.opens_with_snapshot() for segment in self._segments[place + 1 :])

    def _skip(self, segment: Segment, offset: int, end: int, reason: str) -> None:
        self._report.skipped.append(LogRange(offset, end, segment.path(), self._position(segment, offset), reason))
        self._has_skipped = True
        self._is_sequence_open = True

    def _find_record(self, file: File, segment: Segment, offset: int, upper: int) -> int:
        """Return the offset of the first whole record from ``offset`` on, ``upper`` if there is none."""
        if self._runs is not None:
            offset = self._runs.next_from(offset)
            while NOT_THERE < offset < upper and not self._is_record(file, segment, offset, self._runs.end_of(offset)):
                offset = self._runs.next_from(offset + layout.ALIGNMENT)
            return upper if offset == NOT_THERE else offset
        while offset + RECORD_HEADER_BYTES <= upper:
            octets = read_fully(file, min(READ_BYTES, upper - offset), HEADER_BYTES + offset - segment.base)
            octets = octets[: len(octets) & ~7]
            if len(octets) < RECORD_HEADER_BYTES:
                return upper
            if octets != bytes(len(octets)):
                words = memoryview(octets).cast("Q")
                expected = offset
                for word in words[2:]:  # a record's own offset stands in its third word
                    if word == expected and self._is_record(file, segment, expected, upper):
                        return expected
                    expected += 8
            offset += len(octets) - 16
        return upper

    def _is_record(self, file: File, segment: Segment, offset: int, upper: int) -> bool:
        position = self._position(segment, offset)
        head = read_fully(file, RECORD_HEADER_BYTES, position)
        if len(head) < RECORD_HEADER_BYTES:
            return False
        size, crc = UNPACK_SIZE_AND_CRC(head)
        if not RECORD_HEADER_BYTES <= size <= upper - offset:
            return False
        octets = read_fully(file, size, position)
        return len(octets) == size and bool(crc32c(octets[8:]) == crc)

    def _position(self, segment: Segment, offset: int) -> int:
        """Return where a log offset is in the file that is replayed."""
        return segment.position(offset) if self._runs is None else self._runs.position(offset)

    def _corrupt(self, segment: Segment, invalid: InvalidRecord) -> StoreCorrupt:
        position = self._position(segment, invalid.offset)
        return StoreCorrupt(f"{segment.path()}, position {position}, log offset {invalid.offset}: {invalid.reason}")

    def _walk_runs(self, file: File, segment: Segment, runs: Runs, offset: int, upper: int, is_first: bool) -> None:
        """Replay what is left of a sparse segment from ``offset`` on.

        Its records and those behind it may name messages that are gone; the next snapshot then says how things stand.
        """
        self._has_gaps = True
        while NOT_THERE < (offset := runs.next_from(offset)) < upper:
            end = runs.end_of(offset)
            self._is_sequence_open = True
            self._walk(file, segment, offset, end, is_first)
            if self.end < end:
                raise InvalidRecord(self.end, "no record, where the segment's table says that one is")
            offset = end
        if self._pending:
            raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", True)
        self._is_sequence_open = False
        self.sequence = segment.next_sequence
        self.end = upper

    def _walk(self, file: File, segment: Segment, offset: int, upper: int, is_first: bool) -> None:
        """Replay records from ``offset`` on until there is room or the segment's end; ``_end`` follows."""
        buffer = b""
        view = memoryview(buffer)
        at = 0
        length = 0
        lanes = self.state.lanes
        count = 0
        to_position = self._position(segment, offset) - offset
        while offset < upper:
            if at + RECORD_HEADER_BYTES > length:
                buffer = read_fully(file, min(READ_BYTES, upper - offset), to_position + offset)
                view = memoryview(buffer)
                at = 0
                length = len(buffer)
                if length < 8:
                    break  # a file that was cut: what lacks counts as zeros
            size, crc = UNPACK_SIZE_AND_CRC(buffer, at)
            if size == 0:
                break
            if size < RECORD_HEADER_BYTES or offset + size > upper:
                raise InvalidRecord(offset, f"a record of {size} octets, there is room for {upper - offset}")
            if at + size > length:
                wanted = min(max(READ_BYTES, size), upper - offset)
                buffer = read_fully(file, wanted, to_position + offset)
                view = memoryview(buffer)
                at = 0
                length = len(buffer)
                if size > length:
                    raise InvalidRecord(offset, f"a record of {size} octets, the file ends after {length}")
            if crc32c(view[at + 8 : at + size]) != crc:
                raise InvalidRecord(offset, "the checksum of a record does not match")
            record_type, _, flags, destination_id, record_offset, sequence, time_ms = UNPACK_REST(buffer, at + 8)
            if record_offset != offset:
                raise InvalidRecord(offset, f"a record that says it stands at log offset {record_offset}", True)
            if sequence != self.sequence and not (self._is_sequence_open and sequence > self.sequence):
                raise InvalidRecord(offset, f"a record with sequence {sequence}, {self.sequence} should follow")
            if offset == segment.base and record_type != layout.SNAPSHOT and not segment.is_continuation:
                raise InvalidRecord(offset, "the segment does not begin with a snapshot", True)
            if flags & IN_TRANSACTION:
                start = at + RECORD_HEADER_BYTES
                stop = start + layout.MESSAGE_FIXED_BYTES if record_type == MESSAGE else at + size
                self._pending.append(
                    Pending(record_type, destination_id, offset, size, flags, time_ms, buffer[start:stop])
                )
            elif record_type == MESSAGE and not self._pending:
                _, _, _, priority, _, _, tag_hash, group_hash, expires_ms, queue_offset = UNPACK_FIXED(buffer, at + 40)
                lane = lanes.get((destination_id << LANE_SHIFT) | priority)
                if lane is None or lane.tail != queue_offset:
                    lane = self._lane_at(offset, destination_id, priority, queue_offset)
                lane.entries += PACK_ENTRY(
                    offset, size, flags & 255, priority, MESSAGE, 0, tag_hash, group_hash, expires_ms, time_ms
                )
                lane.tail = queue_offset + 1
                lane.live_bytes += size - MESSAGE_HEAD_BYTES
            else:
                payload = buffer[at + RECORD_HEADER_BYTES : at + size]
                if record_type == layout.COMMIT:
                    self._apply_transaction(segment, offset, sequence, payload)
                elif self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", True)
                elif record_type == layout.SNAPSHOT:
                    self._meet_snapshot(offset, payload, is_first)
                self._apply(record_type, destination_id, offset, size, flags, time_ms, payload)
                lanes = self.state.lanes
            self._is_sequence_open = False
            self.sequence = sequence + 1
            self.time_ms = time_ms
            room = (size + 7) & ~7
            at += room
            offset += room
            count += 1
            self.end = offset
        self._report.replayed_records += count

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

    def _apply_transaction(self, segment: Segment, offset: int, sequence: int, payload: bytes) -> None:
        pending = self._pending
        self._pending = []
        if len(payload) != layout.COMMIT_FIXED.size:
            raise InvalidRecord(offset, f"a commit record with {len(payload)} octets", True)
        first, count, _ = layout.COMMIT_FIXED.unpack(payload)
        if self._split is not None and self._split == (first, count) and not pending:
            self._split = None
            end = offset + layout.padded(RECORD_HEADER_BYTES + len(payload))
            reason = f"the commit record of the {count} records at the end of the segment before; they are taken"
            self._report.skipped.append(LogRange(offset, end, segment.path(), segment.position(offset), reason))
            return
        if self._runs is None and (count != len(pending) or first != sequence - count):
            if self._has_skipped:
                return  # its beginning is lost, so all of it is
            start = pending[0].offset if pending else offset
            raise InvalidRecord(start, f"a transaction of {len(pending)} records, its commit record says {count}", True)
        self._apply_records(pending)

    def _apply_records(self, pending: list[Pending]) -> None:
        for record in pending:
            if record.record_type == MESSAGE:
                fixed = layout.MESSAGE_FIXED.unpack(record.payload)
                lane = self._lane_at(record.offset, record.destination_id, fixed[3], fixed[9])
                lane.entries += PACK_ENTRY(
                    record.offset,
                    record.size,
                    record.flags & 255,
                    fixed[3],
                    MESSAGE,
                    0,
                    fixed[6],
                    fixed[7],
                    fixed[8],
                    record.time_ms,
                )
                lane.tail += 1
                lane.live_bytes += record.size - MESSAGE_HEAD_BYTES
            else:
                self._apply(
                    record.record_type,
                    record.destination_id,
                    record.offset,
                    record.size,
                    record.flags,
                    record.time_ms,
                    record.payload,
                )

    def _apply(
        self, record_type: int, destination_id: int, offset: int, size: int, flags: int, time_ms: int, payload: bytes
    ) -> None:
        """Apply a record that is not a message."""
        state = self.state
        try:
            if record_type == layout.SETTLEMENT or record_type == layout.ATTEMPTS:
                _, consumer_id, _, cause, _, count, due_or_freed = layout.SETTLEMENT_FIXED.unpack_from(payload)
                if len(payload) != layout.SETTLEMENT_FIXED_BYTES + count * layout.RANGE_BYTES:
                    raise ValueError(f"{count} ranges in {len(payload)} octets")
                ranges = [
                    Range(priority, first, entries, delivery_count)
                    for first, entries, priority, _, delivery_count in layout.RANGE.iter_unpack(
                        payload[layout.SETTLEMENT_FIXED_BYTES :]
                    )
                ]
                if record_type == layout.SETTLEMENT:
                    state.settle(destination_id, ranges, due_or_freed)
                else:
                    state.fail_attempts(destination_id, consumer_id, cause, due_or_freed, time_ms, ranges)
            elif record_type == layout.DESTINATION:
                described = json.loads(payload)
                state.add_destination(int(described["id"]), int(described["kind"]), str(described["name"]))
            elif record_type == layout.CONSUMER:
                described = json.loads(payload)
                state.add_consumer(int(described["id"]), compact_json(described))
            elif record_type == layout.SUBSCRIPTION:
                described = json.loads(payload)
                starts = [(int(priority), int(first), int(tail)) for priority, first, tail in described["starts"]]
                name, description = str(described["name"]), dict(described["description"])
                state.add_subscription(int(described["id"]), int(described["topic"]), name, description, starts)
            elif record_type == layout.CLOSE:
                state.close(int(json.loads(payload)["id"]))
            elif record_type not in (layout.COMMIT, layout.SNAPSHOT):
                raise InvalidRecord(offset, f"a record of type {record_type}, which is not known here", True)
        except (KeyError, TypeError, ValueError, struct.error) as error:
            if not self._is_lenient():
                reason = f"a record of type {record_type} that cannot be read: {error!r}"
                raise InvalidRecord(offset, reason, True) from None
        system = state.system
        system.entries += PACK_ENTRY(offset, size, flags & 255, 0, record_type, 0, destination_id, 0, 0, time_ms)
        system.tail += 1

    def _meet_snapshot(self, offset: int, payload: bytes, is_first: bool) -> None:
        """Begin a segment; ``is_first``: the state is from this very snapshot."""
        if self._is_lenient() and not is_first:
            try:
                self._take_over(load_snapshot(payload))
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidRecord(offset, f"a snapshot that cannot be read: {error!r}", True) from None
            self._has_gaps = self._runs is not None
        if not is_first:
            self._close_entries(offset)

    def _take_over(self, snapshot: StoreState) -> None:
        """After a loss, believe the next snapshot, which knows everything that happened before it."""
        state = self.state
        state.consumers = snapshot.consumers
        state.next_consumer = max(state.next_consumer, snapshot.next_consumer)
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
                lane.attempts = known.attempts
                lane.live_bytes = known.live_bytes
            state.destinations[number].holders = destination.holders
        state.failing |= snapshot.failing
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
