"""Opening after a stop: verify, replay the tail, cut what is torn, rebuild what is lost.

Recovery starts at the segment in which the consume-queue offset lies: its snapshot tells of everything before.  The
records after it are replayed.  Whatever is not whole at or above the offset that was published as durable was never
confirmed: the log is cut there.  Below it, it is corruption, and that is an error unless skipping was asked for.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.destination import QUEUE
from engine.errors import StoreCorrupt
from engine.message import IN_TRANSACTION
from engine.ports import Range
from engine.store import format as layout
from engine.store.checkpoint import Checkpoint
from engine.store.commit_log import Closing
from engine.store.consume_queue import ConsumeQueueFiles
from engine.store.files import File, Files, read_fully, write_fully
from engine.store.segment import (
    NEW_SUFFIX,
    NOT_SEALED,
    PREPARED_SUFFIX,
    SUFFIX,
    Segment,
    load_segment,
    seal,
    segment_name,
)
from engine.store.state import PRIORITY_SHIFT, Lane, StoreState, load_snapshot

READ_BYTES: Final = 4 << 20
ENTRIES_IN_MEMORY_BYTES: Final = 16 << 20  # a rebuild brings entries beyond these to the disk on its way

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
MESSAGE: Final = layout.MESSAGE
PACK_ENTRY: Final = layout.ENTRY.pack
UNPACK_SIZE_AND_CRC: Final = layout.SIZE_AND_CRC.unpack_from
UNPACK_REST: Final = layout.RECORD_REST.unpack_from
UNPACK_FIXED: Final = layout.MESSAGE_FIXED.unpack_from


@dataclass(frozen=True, slots=True)
class LogRange:
    """A place in the log: from ``offset`` to ``end``, at ``position`` of the file ``path``, and what is wrong there."""

    offset: int
    end: int
    path: str
    position: int
    reason: str


@dataclass(slots=True)
class RecoveryReport:
    """What opening a store found.

    is_clean: the store was closed properly.  replayed_from, replayed_to: the tail, as log offsets.
    rebuilt: why the consume queues were built anew from the first segment, "" if they were not.
    cut: the torn end that was cut off, None if the log ended with a whole record.
    skipped: ranges that were lost to corruption and left out as asked for.
    """

    is_clean: bool = False
    is_new: bool = False
    replayed_from: int = 0
    replayed_to: int = 0
    replayed_records: int = 0
    rebuilt: str = ""
    cut: LogRange | None = None
    skipped: list[LogRange] = field(default_factory=list)


@dataclass(slots=True)
class RecoveredLog:
    """What a store goes on from.  ``closings``: consume-queue entries that are not in the files yet."""

    report: RecoveryReport
    state: StoreState
    segments: list[Segment]
    end: int
    sequence: int
    store_time_ms: int
    consume_queue_offset: int
    closings: list[Closing]


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


class Recovery:
    """One opening of a store; ``run`` does it."""

    __slots__ = (
        "_files",
        "_directory",
        "_queues",
        "_store_id",
        "_checkpoint",
        "_durable",
        "_is_skipping",
        "_report",
        "_segments",
        "_state",
        "_sequence",
        "_time_ms",
        "_end",
        "_pending",
        "_has_skipped",
        "_is_sequence_open",
        "_last_place",
        "_closings",
        "_closing_bytes",
        "_consume_queue_offset",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        queues: ConsumeQueueFiles,
        store_id: str,
        checkpoint: Checkpoint | None,
        is_skipping: bool,
    ) -> None:
        self._files = files
        self._directory = directory
        self._queues = queues
        self._store_id = store_id
        self._checkpoint = checkpoint
        self._durable = checkpoint.durable_offset if checkpoint is not None else 0
        self._is_skipping = is_skipping
        self._report = RecoveryReport()
        self._segments: list[Segment] = []
        self._state = StoreState()
        self._sequence = 1
        self._time_ms = 0
        self._end = 0
        self._pending: list[Pending] = []
        self._has_skipped = False  # queue offsets may jump, records may name what is lost
        self._is_sequence_open = False  # the next record may have any higher sequence
        self._last_place = 0  # of the segment in which the log ends
        self._closings: list[Closing] = []
        self._closing_bytes = 0
        self._consume_queue_offset = 0

    def run(self) -> RecoveredLog:
        """Bring the directory into a state from which appending can go on.

        Raises: StoreCorrupt with file and position; OSError.
        """
        self._load_segments()
        if not self._segments:
            return self._new()
        self._report.is_clean = self._is_clean()
        start = self._choose_start()
        self._replay(start)
        self._report.replayed_to = self._end
        if self._report.is_clean and self._end == self._durable:
            self._remove_prepared()
            self._check_entries()
        else:
            self._report.is_clean = False
            self._close_log()
        return RecoveredLog(
            self._report,
            self._state,
            self._segments,
            self._end,
            self._sequence,
            self._time_ms,
            self._consume_queue_offset,
            self._closings,
        )

    def _new(self) -> RecoveredLog:
        if self._durable:
            raise StoreCorrupt(
                f"{self._directory}: no segment is left, but the log was durable up to log offset {self._durable}"
            )
        for destination_id, priority in self._queues.queues():
            self._queues.truncate(destination_id, priority, 0)
        self._remove_prepared()
        self._report.is_new = True
        # As if a segment of no length stood before the first: opening then rolls as after every unclean stop.
        nothing = Segment(self._directory, 0, 0, False)
        return RecoveredLog(self._report, self._state, [nothing], 0, 1, 0, 0, [])

    # The segments.

    def _load_segments(self) -> None:
        names = self._files.list_directory(self._directory)
        first = self._checkpoint.first_offset if self._checkpoint is not None else 0
        is_first_there = segment_name(first) + SUFFIX in names
        for name in names:
            if name.endswith(NEW_SUFFIX):
                self._files.unlink(f"{self._directory}/{name}")  # nothing was ever written to it
            elif name.endswith(SUFFIX):
                segment, store_id = load_segment(self._files, self._directory, name)
                if store_id != self._store_id:
                    raise StoreCorrupt(f"{segment.path()}: of store {store_id}, this store is {self._store_id}")
                if segment.base < first and is_first_there:
                    self._files.unlink(segment.path())  # retention was interrupted
                else:
                    self._segments.append(segment)
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            if after.base != before.limit() and not (after.is_continuation and after.base < before.limit()):
                reason = f"the segment that should follow it at log offset {before.limit()} is missing"
                if not self._is_skipping:
                    raise StoreCorrupt(f"{before.path()}: {reason}, the next one begins at {after.base}")
                self._skip(before, before.limit(), after.base, reason)

    def _upper(self, place: int) -> int:
        """Return the log offset at which the segment's records end at the latest."""
        segment = self._segments[place]
        upper = segment.limit()
        if segment.sealed_end != NOT_SEALED:
            upper = min(upper, segment.sealed_end)
        if place + 1 < len(self._segments):
            upper = min(upper, self._segments[place + 1].base)
        return upper

    def _opens_with_snapshot(self, segment: Segment) -> bool:
        return not segment.is_continuation and segment.sealed_end != segment.base

    def _is_clean(self) -> bool:
        """Return whether the log can go on where the checkpoint says: then nothing was written after it."""
        last = self._segments[-1]
        if self._checkpoint is None or not self._checkpoint.is_clean or last.sealed_end != NOT_SEALED:
            return False
        end = self._checkpoint.durable_offset
        if not last.base < end <= last.limit():
            return False
        file = self._files.open_to_read(last.path())
        try:
            return not any(read_fully(file, min(8, last.limit() - end), HEADER_BYTES + end - last.base))
        finally:
            file.close()

    # Where to start.

    def _choose_start(self) -> int:
        first = next((n for n, segment in enumerate(self._segments) if self._opens_with_snapshot(segment)), 0)
        if self._checkpoint is None:
            if len(self._segments) > 1 or self._segments[0].base or self._queues.queues():
                self._report.rebuilt = "no slot of the checkpoint is whole"
            return self._start_at(first, True)
        start = first
        for place, segment in enumerate(self._segments):
            # After a clean stop at the very end of a segment the next one's base is the consume-queue offset too,
            # though its snapshot may never have become durable.
            is_durable = segment.base < self._durable
            if is_durable and self._opens_with_snapshot(segment):
                if segment.base <= self._checkpoint.consume_queue_offset:
                    start = place
        start = self._start_at(start, False)
        self._consume_queue_offset = self._segments[start].base
        reason = self._find_lost_entries()
        if not reason:
            if self._report.is_clean:
                self._consume_queue_offset = self._checkpoint.consume_queue_offset
            else:
                self._truncate_queues()
            self._find_first_entries()
            return start
        self._report.rebuilt = reason
        self._report.skipped.clear()
        return self._start_at(first, True)

    def _start_at(self, place: int, is_rebuild: bool) -> int:
        """Take the state from a segment's snapshot."""
        segment = self._segments[place]
        state, sequence = self._load_snapshot(segment)
        self._state = state
        self._sequence = sequence
        self._report.replayed_from = segment.base
        self._consume_queue_offset = segment.base
        if is_rebuild:
            for destination_id, priority in self._queues.queues():
                lane = self._lane(destination_id, priority)
                is_usable = lane is not None and not self._missing(lane)
                self._queues.truncate(destination_id, priority, lane.tail if lane is not None and is_usable else 0)
            self._find_first_entries()
        return place

    def _load_snapshot(self, segment: Segment) -> tuple[StoreState, int]:
        file = self._files.open_to_read(segment.path())
        try:
            head = read_fully(file, RECORD_HEADER_BYTES, HEADER_BYTES)
            reason = "no snapshot"
            if len(head) == RECORD_HEADER_BYTES:
                size, crc, record_type, _, _, _, offset, sequence, _ = layout.RECORD_HEADER.unpack(head)
                if record_type == layout.SNAPSHOT and offset == segment.base and size <= segment.capacity:
                    octets = read_fully(file, size, HEADER_BYTES)
                    if len(octets) == size and crc32c(octets[8:]) == crc:
                        return load_snapshot(octets[RECORD_HEADER_BYTES:]), sequence
                    reason = "a damaged snapshot"
        except (KeyError, TypeError, ValueError) as error:
            reason = f"a snapshot that cannot be read: {error!r}"
        finally:
            file.close()
        if segment.base >= self._durable and len(self._segments) == 1:
            return StoreState(), 1  # torn before anything became durable; the replay cuts it
        raise StoreCorrupt(f"{segment.path()}, position {HEADER_BYTES}: the segment begins with {reason}")

    def _lane(self, destination_id: int, priority: int) -> Lane | None:
        if destination_id == layout.SYSTEM_QUEUE:
            return self._state.system
        return self._state.lanes.get((destination_id << PRIORITY_SHIFT) | priority)

    def _missing(self, lane: Lane) -> str:
        """Return what the files of a queue lack, "" if they hold all that may still be asked for."""
        try:
            first, end = self._queues.found(lane.destination_id, lane.priority)
        except StoreCorrupt as error:
            return str(error)
        if end < lane.tail or first > min(lane.settled.cursor, lane.tail):
            return (
                f"{self._queues.root}/{lane.destination_id}/{lane.priority}: entries {first} to {end} are there, "
                f"{lane.settled.cursor} to {lane.tail} should be"
            )
        return ""

    def _find_lost_entries(self) -> str:
        for lane in self._state.all_lanes():
            if lane.tail and (reason := self._missing(lane)):
                return reason
        return ""

    def _check_entries(self) -> None:
        """After a clean stop all entries are in the files; if they are not, readers are to look in the log."""
        for lane in self._state.all_lanes():
            if lane.tail and self._queues.found(lane.destination_id, lane.priority)[1] != lane.tail:
                self._consume_queue_offset = min(self._consume_queue_offset, self._report.replayed_from)

    def _truncate_queues(self) -> None:
        for destination_id, priority in self._queues.queues():
            lane = self._lane(destination_id, priority)
            self._queues.truncate(destination_id, priority, lane.tail if lane is not None else 0)

    def _find_first_entries(self) -> None:
        """Note in each lane which entries went with the segments that retention has dropped."""
        for lane in self._state.all_lanes():
            first, end = self._queues.found(lane.destination_id, lane.priority)
            lane.kept_first = first if end else lane.tail - lane.tail % layout.ENTRIES_PER_FILE

    # The replay.

    def _replay(self, start: int) -> None:
        last = len(self._segments) - 1
        for place in range(start, len(self._segments)):
            segment = self._segments[place]
            self._last_place = place
            file = self._files.open_to_read(segment.path())
            try:
                invalid = self._replay_segment(file, place, place == start, place == last)
            finally:
                file.close()
            if invalid is not None:
                self._end = invalid.offset
                self._report.cut = LogRange(
                    invalid.offset,
                    self._segments[last].limit(),
                    segment.path(),
                    HEADER_BYTES + invalid.offset - segment.base,
                    invalid.reason,
                )
                return
        if self._end < self._durable:
            segment = self._segments[last]
            reason = f"the log ends here, but was durable up to log offset {self._durable}"
            if not self._is_skipping:
                raise _corrupt(segment, InvalidRecord(self._end, reason))
            self._skip(segment, self._end, self._durable, reason)

    def _replay_segment(self, file: File, place: int, is_first: bool, is_last: bool) -> InvalidRecord | None:
        """Replay one segment; return where the log has to be cut, None if it goes on."""
        segment = self._segments[place]
        upper = self._upper(place)
        offset = self._end = segment.base
        while True:
            try:
                self._walk(file, segment, offset, upper, is_first)
                if self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record")
                if self._end < self._durable <= upper:
                    raise InvalidRecord(self._end, f"no record, but the log was durable up to {self._durable}")
                if is_last and self._checkpoint is None and self._find_record(file, segment, self._end, upper) < upper:
                    raise InvalidRecord(self._end, "there is no record here, though whole ones follow")
                return None
            except InvalidRecord as invalid:
                if self._pending:
                    # What is not committed goes with what should have followed it.
                    invalid.offset = self._pending[0].offset
                    self._sequence -= len(self._pending)
                    self._pending.clear()
                if not invalid.is_whole and self._may_cut(file, place, upper, invalid.offset):
                    return invalid
                if not self._is_skipping:
                    raise _corrupt(segment, invalid) from None
                self._end = invalid.offset
                offset = self._find_record(file, segment, invalid.offset + layout.ALIGNMENT, upper)
                self._skip(segment, invalid.offset, offset, invalid.reason)
                if offset == upper:
                    return invalid if is_last else None

    def _may_cut(self, file: File, place: int, upper: int, offset: int) -> bool:
        """Return whether nothing that was ever confirmed stands at ``offset`` or above."""
        if self._checkpoint is not None:
            return offset >= self._durable
        # Nobody knows what was durable: only what is followed by nothing whole is taken for a torn tail.
        if self._find_record(file, self._segments[place], offset + layout.ALIGNMENT, upper) < upper:
            return False
        return not any(self._opens_with_snapshot(segment) for segment in self._segments[place + 1 :])

    def _skip(self, segment: Segment, offset: int, end: int, reason: str) -> None:
        position = HEADER_BYTES + offset - segment.base
        self._report.skipped.append(LogRange(offset, end, segment.path(), position, reason))
        self._has_skipped = True
        self._is_sequence_open = True

    def _find_record(self, file: File, segment: Segment, offset: int, upper: int) -> int:
        """Return the offset of the first whole record from ``offset`` on, ``upper`` if there is none."""
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
        position = HEADER_BYTES + offset - segment.base
        head = read_fully(file, RECORD_HEADER_BYTES, position)
        if len(head) < RECORD_HEADER_BYTES:
            return False
        size, crc = UNPACK_SIZE_AND_CRC(head)
        if not RECORD_HEADER_BYTES <= size <= upper - offset:
            return False
        octets = read_fully(file, size, position)
        return len(octets) == size and bool(crc32c(octets[8:]) == crc)

    def _walk(self, file: File, segment: Segment, offset: int, upper: int, is_first: bool) -> None:
        """Replay records from ``offset`` on until there is room or the segment's end; ``_end`` follows."""
        buffer = b""
        view = memoryview(buffer)
        at = 0
        length = 0
        lanes = self._state.lanes
        count = 0
        while offset < upper:
            if at + RECORD_HEADER_BYTES > length:
                buffer = read_fully(file, min(READ_BYTES, upper - offset), HEADER_BYTES + offset - segment.base)
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
                buffer = read_fully(file, wanted, HEADER_BYTES + offset - segment.base)
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
            if sequence != self._sequence and not (self._is_sequence_open and sequence > self._sequence):
                raise InvalidRecord(offset, f"a record with sequence {sequence}, {self._sequence} should follow")
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
                lane = lanes.get((destination_id << PRIORITY_SHIFT) | priority)
                if lane is None or lane.tail != queue_offset:
                    lane = self._lane_at(offset, destination_id, priority, queue_offset)
                lane.entries += PACK_ENTRY(
                    offset, size, flags & 255, priority, MESSAGE, 0, tag_hash, group_hash, expires_ms, time_ms
                )
                lane.tail = queue_offset + 1
            else:
                payload = buffer[at + RECORD_HEADER_BYTES : at + size]
                if record_type == layout.COMMIT:
                    self._apply_transaction(offset, sequence, payload)
                elif self._pending:
                    raise InvalidRecord(self._pending[0].offset, "a transaction lacks its commit record", True)
                elif record_type == layout.SNAPSHOT and not is_first:
                    self._close_entries(offset)
                self._apply(record_type, destination_id, offset, size, flags, time_ms, payload)
                lanes = self._state.lanes
            self._is_sequence_open = False
            self._sequence = sequence + 1
            self._time_ms = time_ms
            room = (size + 7) & ~7
            at += room
            offset += room
            count += 1
            self._end = offset
        self._report.replayed_records += count

    def _lane_at(self, offset: int, destination_id: int, priority: int, queue_offset: int) -> Lane:
        """Return the lane that a message's entry is to be the next of."""
        if destination_id not in self._state.destinations:
            if not self._has_skipped:
                raise InvalidRecord(offset, f"destination {destination_id} is not known", True)
            self._state.add_destination(destination_id, QUEUE, f"recovered.{destination_id}")
        lane = self._state.open_lane(destination_id, priority)
        if lane.tail != queue_offset:
            if not self._has_skipped or queue_offset < lane.tail:
                reason = f"entry {queue_offset} of queue {destination_id}/{priority}, {lane.tail} should follow"
                raise InvalidRecord(offset, reason, True)
            _leave_out(lane, queue_offset)
        return lane

    def _apply_transaction(self, offset: int, sequence: int, payload: bytes) -> None:
        pending = self._pending
        self._pending = []
        if len(payload) != layout.COMMIT_FIXED.size:
            raise InvalidRecord(offset, f"a commit record with {len(payload)} octets", True)
        first, count, _ = layout.COMMIT_FIXED.unpack(payload)
        if count != len(pending) or first != sequence - count:
            if self._has_skipped:
                return  # its beginning is lost, so all of it is
            start = pending[0].offset if pending else offset
            raise InvalidRecord(start, f"a transaction of {len(pending)} records, its commit record says {count}", True)
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
        state = self._state
        try:
            if record_type == layout.SETTLEMENT or record_type == layout.ATTEMPTS:
                _, _, _, _, _, count, due_ms = layout.SETTLEMENT_FIXED.unpack_from(payload)
                if len(payload) != layout.SETTLEMENT_FIXED_BYTES + count * layout.RANGE_BYTES:
                    raise ValueError(f"{count} ranges in {len(payload)} octets")
                ranges = [
                    Range(priority, first, entries, delivery_count)
                    for first, entries, priority, _, delivery_count in layout.RANGE.iter_unpack(
                        payload[layout.SETTLEMENT_FIXED_BYTES :]
                    )
                ]
                if record_type == layout.SETTLEMENT:
                    state.settle(destination_id, ranges)
                else:
                    state.fail_attempts(destination_id, due_ms, ranges)
            elif record_type == layout.DESTINATION:
                described = json.loads(payload)
                state.add_destination(int(described["id"]), int(described["kind"]), str(described["name"]))
            elif record_type == layout.CONSUMER:
                state.next_consumer = max(state.next_consumer, int(json.loads(payload)["id"]) + 1)
            elif record_type == layout.SNAPSHOT:
                if self._has_skipped:
                    self._take_over(load_snapshot(payload))
            elif record_type != layout.COMMIT:
                raise InvalidRecord(offset, f"a record of type {record_type}, which is not known here", True)
        except (KeyError, TypeError, ValueError, struct.error) as error:
            if not self._has_skipped:
                reason = f"a record of type {record_type} that cannot be read: {error!r}"
                raise InvalidRecord(offset, reason, True) from None
        system = state.system
        system.entries += PACK_ENTRY(offset, size, flags & 255, 0, record_type, 0, destination_id, 0, 0, time_ms)
        system.tail += 1

    def _take_over(self, snapshot: StoreState) -> None:
        """After a loss, believe the next snapshot, which knows everything that happened before it."""
        state = self._state
        state.next_consumer = max(state.next_consumer, snapshot.next_consumer)
        for number, destination in snapshot.destinations.items():
            state.add_destination(number, destination.kind, destination.name)
            for known in destination.lanes:
                lane = state.open_lane(number, known.priority)
                if lane.tail < known.tail:
                    _leave_out(lane, known.tail)
                lane.settled = known.settled
                lane.attempts = known.attempts
        if state.system.tail < snapshot.system.tail:
            _leave_out(state.system, snapshot.system.tail)

    def _close_entries(self, base: int) -> None:
        """Collect the entries of the segments below ``base``; bring them to the disk if they are many."""
        blocks = [block for lane in self._state.all_lanes() if (block := lane.close_entries()) is not None]
        self._closings.append(Closing(base, blocks))
        self._closing_bytes += sum(len(block.octets) for block in blocks)
        if self._closing_bytes > ENTRIES_IN_MEMORY_BYTES:
            for closing in self._closings:
                self._queues.store(closing.blocks)
            for lane in self._state.all_lanes():
                lane.closing.clear()
            self._closings.clear()
            self._closing_bytes = 0
            self._consume_queue_offset = base

    # The end of the log.

    def _close_log(self) -> None:
        """After an unclean stop: end the last segment, so that no offset ever names two records."""
        last = self._last_place
        for place, segment in enumerate(self._segments[: last + 1]):
            # Seals count as well: another start may have been stopped between writing and syncing them.
            if self._checkpoint is None or segment.limit() > self._durable:
                self._sync_tail(segment, min(self._upper(place), self._end))
        for segment in self._segments[last + 1 :]:
            self._end_segment(segment, segment.base)
        if self._end < self._segments[last].limit():
            self._end_segment(self._segments[last], self._end)
        self._adopt_prepared()
        self._files.sync_directory(self._directory)

    def _sync_tail(self, segment: Segment, end: int) -> None:
        """Make the records durable that the process before us may have written but not synced.

        They are written again first: if a sync had failed, the system may believe them to be on the disk.
        """
        file = self._files.open(segment.path())
        try:
            if self._checkpoint is not None:
                offset = max(segment.base, self._durable)
                while offset < end:
                    position = HEADER_BYTES + offset - segment.base
                    octets = read_fully(file, min(READ_BYTES, end - offset), position)
                    if not octets:
                        break
                    write_fully(file, octets, position)
                    offset += len(octets)
            file.fsync()
        finally:
            file.close()

    def _end_segment(self, segment: Segment, end: int) -> None:
        """Seal a segment at ``end`` and give back the room after it."""
        position = HEADER_BYTES + end - segment.base
        file = self._files.open(segment.path())
        try:
            if self._report.cut is None and _has_octets(file, position):
                self._report.cut = LogRange(
                    end, segment.limit(), segment.path(), position, "octets after the last whole record"
                )
            seal(file, end, self._sequence)
            file.truncate(position)
            file.fsync()
        finally:
            file.close()
        segment.sealed_end = end

    def _adopt_prepared(self) -> None:
        """End a segment that was made ahead as if it had been used.

        It may have been: its last rename need not have survived, and what was written to it may have been delivered.
        """
        for name in self._files.list_directory(self._directory):
            if not name.endswith(PREPARED_SUFFIX):
                continue
            path = f"{self._directory}/{name}"
            try:
                segment, _ = load_segment(self._files, self._directory, name)
            except StoreCorrupt:
                segment = None  # the stop came while it was being made
            if segment is None or segment.base != self._segments[-1].limit():
                self._files.unlink(path)
            else:
                self._files.rename(path, segment.path())
                self._segments.append(segment)
                self._end_segment(segment, segment.base)

    def _remove_prepared(self) -> None:
        for name in self._files.list_directory(self._directory):
            if name.endswith(PREPARED_SUFFIX):
                self._files.unlink(f"{self._directory}/{name}")


def _corrupt(segment: Segment, invalid: InvalidRecord) -> StoreCorrupt:
    position = HEADER_BYTES + invalid.offset - segment.base
    return StoreCorrupt(f"{segment.path()}, position {position}, log offset {invalid.offset}: {invalid.reason}")


def _has_octets(file: File, position: int) -> bool:
    while octets := read_fully(file, READ_BYTES, position):
        if octets != bytes(len(octets)):
            return True
        position += len(octets)
    return False


def _leave_out(lane: Lane, tail: int) -> None:
    """Go on at entry ``tail`` although the records before it are lost: their entries are empty, and settled."""
    lane.entries += bytes((tail - lane.tail) * layout.ENTRY_BYTES)
    lane.settle(lane.tail, tail - lane.tail)
    lane.tail = tail
