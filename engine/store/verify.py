"""Whether a stopped store is sound: every file, record, reference and entry is looked at, and nothing is changed.

It does not repeat recovery: recovery believes a snapshot and goes on from the last one, this goes through the whole log
and compares each snapshot, each consume-queue entry and each sum with what the records before it say.
"""

from __future__ import annotations

import json
import struct
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from crc32c import crc32c

from engine.errors import StoreCorrupt
from engine.keys import Keys
from engine.message import IN_TRANSACTION
from engine.ports import OUTCOME_NAMES, Range
from engine.store import format as layout
from engine.store.checkpoint import FILE_NAME as CHECKPOINT_FILE
from engine.store.consume_queue import ConsumeQueueFiles, file_name, lane_directory
from engine.store.files import File, Files, read_fully
from engine.store.headers import Checkpoint, unpack_checkpoint
from engine.store.runs import NOT_THERE, Runs
from engine.store.segment import SUFFIX, Segment, load_segment, read_runs, records_limit
from engine.store.snapshot import encode_snapshot, load_snapshot
from engine.store.state import EntryBlock, Lane, StoreState, compact_json
from engine.store.store_directory import LOG_DIRECTORY, QUEUE_DIRECTORY, read_store_id
from engine.store.verify_index import IndexCheck

READ_BYTES: Final = 4 << 20
GONE: Final = 0xFFFFFFFF  # the size of a message that was taken out
FINDINGS_MAX: Final = 100  # after so many the rest is not looked at
HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
METADATA: Final = (layout.DESTINATION, layout.SUBSCRIPTION, layout.CLOSE, layout.CONSUMER, layout.SNAPSHOT)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be.  position: in the file, in octets; -1 if it is about no single place."""

    path: str
    position: int
    text: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.text}" if self.position < 0 else f"{self.path}, position {self.position}: {self.text}"
        )


@dataclass(slots=True)
class Verification:
    """What was looked at.

    end_offset: just past the last record that counts.  is_torn: something that is none follows, where nothing was
    durable yet: no finding, the next start cuts it.
    """

    findings: list[Finding] = field(default_factory=list)
    segment_count: int = 0
    record_count: int = 0
    message_count: int = 0
    entry_count: int = 0
    index_entry_count: int = 0
    end_offset: int = 0
    is_torn: bool = False


class TooMany(Exception):
    """Internal: FINDINGS_MAX findings are enough."""


class Broken(Exception):
    """Internal: what stands at ``offset`` is no record that may stand there."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it was read; ``payload`` follows the header."""

    record_type: int
    encoding: int
    flags: int
    destination_id: int
    offset: int
    size: int
    sequence: int
    time_ms: int
    payload: bytes

    def end(self) -> int:
        return self.offset + layout.padded(self.size)


def verify(files: Files, directory: str, keys: Keys | None = None) -> Verification:
    """Look at everything in a store that nobody has open.

    keys: reads the keys of messages, for the key index; None: only its files are looked at.
    """
    return _Verifier(files, directory, keys).run()


class _Verifier:
    """One look at one store.

    _sizes: the messages of each lane: first entry that is known, and sizes from there on.
    _runs: of the segment that is looked at, if it is sparse.  _has_gaps: from there to the next snapshot, which has
    to be believed, records may name messages that were taken out.
    """

    def __init__(self, files: Files, directory: str, keys: Keys | None) -> None:
        self._files = files
        self._keys = keys
        self._index: IndexCheck | None = None
        self._directory = directory
        self._found = Verification()
        self._state = StoreState()
        self._sizes: dict[int, tuple[int, array[int]]] = {}
        self._pending: list[Record] = []
        self._sequence = 0  # of the next record, 0 before the first
        self._time_ms = 0
        self._checkpoint: Checkpoint | None = None
        self._durable = 0
        self._buffer = b""
        self._buffer_offset = 0
        self._runs: Runs | None = None
        self._has_gaps = False

    def run(self) -> Verification:
        try:
            store_id = read_store_id(self._files, self._directory)
            self._read_checkpoint()
            if self._checkpoint is not None:
                self._durable = self._checkpoint.durable_offset
            segments = self._load_segments(store_id)
            if segments:
                self._index = IndexCheck(self._files, self._directory, store_id, self._keys, self._note)
                self._index.first = segments[0].base
                self._walk_all(segments)
                self._index.ended(self._found.end_offset)
                self._found.index_entry_count = self._index.entry_count
                self._check_end(segments)
                self._check_queue_files()
                self._check_sums()
            elif self._durable:
                self._note(self._directory, -1, f"no segment is there, but the log was durable up to {self._durable}")
        except (StoreCorrupt, OSError) as error:
            self._found.findings.append(Finding(self._directory, -1, str(error)))
        except TooMany:
            pass
        return self._found

    def _note(self, path: str, position: int, text: str) -> None:
        self._found.findings.append(Finding(path, position, text))
        if len(self._found.findings) >= FINDINGS_MAX:
            raise TooMany

    # Heads of files.

    def _read_checkpoint(self) -> None:
        path = f"{self._directory}/{CHECKPOINT_FILE}"
        if not self._files.exists(path):
            self._note(path, -1, "the checkpoint is missing")
            return
        octets = self._read(path, 0, 2 * layout.CHECKPOINT_SLOT_BYTES)
        self._checkpoint = unpack_checkpoint(octets, path)
        if self._checkpoint is None:
            self._note(path, 0, "no slot of the checkpoint is whole")

    def _load_segments(self, store_id: str) -> list[Segment]:
        segments: list[Segment] = []
        directory = f"{self._directory}/{LOG_DIRECTORY}"
        for name in self._files.list_directory(directory):
            if not name.endswith(SUFFIX):
                continue
            try:
                segment, owner = load_segment(self._files, directory, name)
            except StoreCorrupt as error:
                self._note(f"{directory}/{name}", -1, str(error))
                continue
            if owner != store_id:
                self._note(segment.path(), 40, f"of store {owner}, this store is {store_id}")
            segments.append(segment)
        for before, after in pairwise(segments):
            if after.base != before.limit() and not (after.is_continuation and after.base < before.limit()):
                text = f"log offset {before.limit()} should follow, the next segment begins at {after.base}"
                self._note(before.path(), -1, text)
        checkpoint = self._checkpoint
        if checkpoint is not None and segments:
            path = f"{self._directory}/{CHECKPOINT_FILE}"
            # A power cut may leave a checkpoint that is older than the log, and so tell of segments that are gone.
            bases = [segment.base for segment in segments]
            first, complete = checkpoint.first_offset, checkpoint.consume_queue_offset
            if first > bases[0] and first not in bases:
                self._note(path, 56, f"first offset {first} is no segment's base")
            if complete > bases[0] and complete not in bases:
                self._note(path, 48, f"consume-queue offset {complete} is no segment's base")
        self._found.segment_count = len(segments)
        # Retention was interrupted: what the checkpoint has given up counts no more.
        first = checkpoint.first_offset if checkpoint is not None else 0
        kept = [segment for segment in segments if segment.base >= first]
        # So it was where a power cut took the checkpoint back: what a continuation continued is gone.
        while kept and kept[0].is_continuation:
            del kept[0]
        return kept

    # Records.

    def _walk_all(self, segments: list[Segment]) -> None:
        for place, segment in enumerate(segments):
            try:
                self._walk(segment, records_limit(segments, place))
            except Broken as broken:
                if self._checkpoint is not None and broken.offset >= self._durable and not segment.is_sparse:
                    self._found.is_torn = True
                    return
                self._note(segment.path(), self._position(segment, broken.offset), str(broken))
                raise TooMany from None  # without this record nothing that follows makes sense
            if place + 1 < len(segments):
                self._check_index_to(segments[place + 1].base)
            self._check_entries(segments[place + 1].base if place + 1 < len(segments) else None)

    def _walk(self, segment: Segment, upper: int) -> None:
        file = self._files.open_to_read(segment.path())
        self._buffer = b""
        self._runs = None
        try:
            if segment.is_sparse:
                self._runs = read_runs(file, segment.path())
            if self._index is not None:
                self._index.has_gaps = self._runs is not None
            if self._runs is not None:
                self._walk_runs(file, segment, self._runs, upper)
                return
            offset = segment.base
            while offset + 8 <= upper:
                record = self._record(file, segment, offset, upper)
                if record is None:
                    break
                if offset == segment.base and record.record_type != layout.SNAPSHOT and not segment.is_continuation:
                    raise Broken(offset, "the segment does not begin with a snapshot")
                self._take(record)
                offset = record.end()
                if not self._pending:
                    self._found.end_offset = offset
        finally:
            file.close()
        if self._pending:
            raise Broken(self._pending[0].offset, "a transaction lacks its commit record")

    def _walk_runs(self, file: File, segment: Segment, runs: Runs, upper: int) -> None:
        self._has_gaps = True
        before = self._found.message_count
        offset = runs.next_from(segment.base)
        if offset != segment.base and not segment.is_continuation:
            raise Broken(segment.base, "the segment does not begin with a snapshot")
        while NOT_THERE < offset < upper:
            end = runs.end_of(offset)
            self._sequence = 0
            while offset < end:
                record = self._record(file, segment, offset, min(end, upper))
                if record is None:
                    raise Broken(offset, "no record, where the segment's table says that one is")
                if offset == segment.base and record.record_type != layout.SNAPSHOT and not segment.is_continuation:
                    raise Broken(offset, "the segment does not begin with a snapshot")
                self._take(record)
                offset = record.end()
            offset = runs.next_from(end)
        if self._pending:
            raise Broken(self._pending[0].offset, "a transaction lacks its commit record")
        if self._found.message_count - before != runs.message_count:
            raise Broken(segment.base, f"its head says that it holds {runs.message_count} messages")
        self._found.end_offset = upper
        self._sequence = segment.next_sequence

    def _position(self, segment: Segment, offset: int) -> int:
        """Return where a log offset is in the file of the segment that is looked at."""
        return segment.position(offset) if self._runs is None else self._runs.position(offset)

    def _record(self, file: File, segment: Segment, offset: int, upper: int) -> Record | None:
        head = self._octets(file, segment, offset, RECORD_HEADER_BYTES)
        size = int.from_bytes(head[:4], "little")
        if size == 0:
            return None
        if size < RECORD_HEADER_BYTES or offset + size > upper:
            raise Broken(offset, f"a record of {size} octets, there is room for {upper - offset}")
        octets = self._octets(file, segment, offset, size)
        if len(octets) < size:
            raise Broken(offset, f"a record of {size} octets, the file ends after {len(octets)}")
        _, crc, kind, encoding, flags, destination_id, own, sequence, time_ms = layout.RECORD_HEADER.unpack_from(octets)
        if crc32c(memoryview(octets)[8:]) != crc:
            raise Broken(offset, "the checksum of a record does not match")
        if own != offset:
            raise Broken(offset, f"a record that says it stands at log offset {own}")
        if self._sequence and sequence != self._sequence:
            raise Broken(offset, f"a record with sequence {sequence}, {self._sequence} should follow")
        if time_ms < self._time_ms:
            raise Broken(offset, f"a record of store time {time_ms}, the one before it is of {self._time_ms}")
        self._sequence = sequence + 1
        self._time_ms = time_ms
        self._found.record_count += 1
        return Record(
            kind, encoding, flags, destination_id, offset, size, sequence, time_ms, octets[RECORD_HEADER_BYTES:]
        )

    def _octets(self, file: File, segment: Segment, offset: int, size: int) -> bytes:
        """Return what stands at a log offset, less where the file ends; large pieces are read at a time."""
        at = offset - self._buffer_offset
        if not 0 <= at <= len(self._buffer) - size:
            wanted = max(READ_BYTES, size)
            if self._runs is not None:
                wanted = min(wanted, self._runs.end_of(offset) - offset)
            self._buffer = read_fully(file, wanted, self._position(segment, offset))
            self._buffer_offset = offset
            at = 0
        return self._buffer[at : at + size]

    def _take(self, record: Record) -> None:
        """Apply a record, or keep it until its transaction is committed."""
        if record.flags & IN_TRANSACTION:
            self._pending.append(record)
            return
        pending, self._pending = self._pending, []
        if record.record_type == layout.COMMIT:
            first, count, _ = layout.COMMIT_FIXED.unpack(record.payload)
            if self._runs is None and (count != len(pending) or first != record.sequence - count):
                raise Broken(record.offset, f"a transaction of {len(pending)} records, its commit record says {count}")
        elif pending:
            raise Broken(pending[0].offset, "a transaction lacks its commit record")
        for each in (*pending, record):
            try:
                self._apply(each)
            except (KeyError, TypeError, ValueError, AssertionError, struct.error) as error:
                raise Broken(each.offset, f"a record of type {each.record_type} that cannot be: {error!r}") from None

    def _apply(self, record: Record) -> None:
        if record.record_type == layout.MESSAGE:
            self._apply_message(record)
            return
        if record.record_type in (layout.SETTLEMENT, layout.ATTEMPTS):
            self._apply_ranges(record)
        elif record.record_type in METADATA:
            self._apply_metadata(record, json.loads(record.payload))
        elif record.record_type != layout.COMMIT:
            raise ValueError("a type that is not known here")
        self._add_entry(self._state.system, record, 0, record.destination_id, 0, 0)

    def _apply_message(self, record: Record) -> None:
        fixed = layout.MESSAGE_FIXED.unpack_from(record.payload)
        annotations, headers, body, priority, _, _, tag, group, expires_ms, queue_offset = fixed
        size = annotations + headers + body
        if layout.MESSAGE_HEAD_BYTES + size != record.size:
            raise ValueError(f"parts of {size} octets in a record of {record.size}")
        if record.destination_id not in self._state.destinations:
            raise ValueError(f"destination {record.destination_id} is not known")
        lane = self._state.open_lane(record.destination_id, priority)
        if self._runs is not None and queue_offset > lane.tail:
            self._leave_out(lane, queue_offset)
        if queue_offset != lane.tail:
            raise ValueError(f"entry {queue_offset} of a lane of {lane.tail}")
        key = (record.destination_id << layout.LANE_SHIFT) | priority
        self._sizes.setdefault(key, (queue_offset, array("I")))[1].append(size)
        self._add_entry(lane, record, priority, tag, group, expires_ms)
        if self._index is not None:
            at = layout.MESSAGE_HEAD_BYTES - RECORD_HEADER_BYTES + annotations
            self._index.message(
                record.offset, record.time_ms, record.encoding, record.flags, record.payload[at : at + headers]
            )
        lane.live_bytes += size
        self._found.message_count += 1

    def _add_entry(self, lane: Lane, record: Record, priority: int, tag: int, group: int, expires_ms: int) -> None:
        lane.entries += layout.ENTRY.pack(
            record.offset,
            record.size,
            record.flags & 255,
            priority,
            record.record_type,
            0,
            tag,
            group,
            expires_ms,
            record.time_ms,
        )
        lane.tail += 1

    def _apply_ranges(self, record: Record) -> None:
        payload = record.payload
        _, consumer_id, outcome, cause, _, count, due_or_freed = layout.SETTLEMENT_FIXED.unpack_from(payload)
        ranges = [
            Range(priority, first, entries, attempts)
            for first, entries, priority, _, attempts in layout.RANGE.iter_unpack(
                payload[layout.SETTLEMENT_FIXED_BYTES :]
            )
        ]
        if len(ranges) != count:
            raise ValueError(f"{len(ranges)} ranges, it says {count}")
        number = record.destination_id
        subscription = self._state.subscriptions.get(number)
        owner = number if subscription is None else subscription.topic_id
        for each in ranges:
            lane = self._state.open_lane(owner, each.priority)
            progress = lane if subscription is None else subscription.lane(each.priority)
            if self._has_gaps:
                continue
            if not each.count or each.first + each.count > lane.tail:
                raise ValueError(f"entries {each.first} to {each.first + each.count} of a lane of {lane.tail}")
            if any(progress.settled.contains(entry) for entry in range(each.first, each.first + each.count)):
                raise ValueError(f"entries {each.first} to {each.first + each.count} were settled before")
        if record.record_type == layout.ATTEMPTS:
            self._state.fail_attempts(number, consumer_id, cause, due_or_freed, record.time_ms, ranges)
            return
        if outcome not in OUTCOME_NAMES:
            raise ValueError(f"outcome {outcome}")
        self._state.settle(number, ranges, due_or_freed)

    def _apply_metadata(self, record: Record, described: dict[str, Any]) -> None:
        state = self._state
        if record.record_type == layout.SNAPSHOT:
            self._check_snapshot(record, described)
            return
        number = int(described["id"])
        if record.record_type == layout.CONSUMER:
            state.add_consumer(number, compact_json(described))
        elif record.record_type == layout.CLOSE:
            state.close(number)
        elif number < state.next_destination:
            raise ValueError(f"number {number} was given before, {state.next_destination} is the next")
        elif record.record_type == layout.DESTINATION:
            state.add_destination(number, int(described["kind"]), str(described["name"]))
        else:
            starts = [(int(priority), int(first), int(tail)) for priority, first, tail in described["starts"]]
            for priority, first, tail in starts:
                is_tail = self._has_gaps or tail == state.open_lane(int(described["topic"]), priority).tail
                if not (first <= tail and is_tail):
                    raise ValueError(f"it begins at entry {first} of {tail}")
            name, description = str(described["name"]), dict(described["description"])
            state.add_subscription(number, int(described["topic"]), name, description, starts)

    def _check_snapshot(self, record: Record, described: dict[str, Any]) -> None:
        if int(described["sequence"]) != record.sequence:
            raise ValueError(f"it says sequence {described['sequence']}")
        told = load_snapshot(record.payload)
        if self._found.record_count == 1:
            self._state = told
            return
        if self._has_gaps:
            self._believe(told)
            return
        self._state.consumers = told.consumers  # which of them are still connected stands in no record
        if _comparable(told) != _comparable(self._state):
            raise ValueError("it does not say what the records before it come to")

    def _believe(self, told: StoreState) -> None:
        """Go on from a snapshot that follows a sparse segment."""
        for key, lane in told.lanes.items():
            known = self._state.lanes.get(key)
            if known is None:
                self._sizes.setdefault(key, (lane.tail, array("I")))
            elif known.tail > lane.tail:
                raise ValueError(f"lane {lane.destination_id}/{lane.priority} ends at {lane.tail}, not {known.tail}")
            else:
                self._leave_out(known, lane.tail)
        self._state = told
        self._has_gaps = self._runs is not None

    def _leave_out(self, lane: Lane, tail: int) -> None:
        """Go on at entry ``tail``: what stands before it was taken out."""
        key = (lane.destination_id << layout.LANE_SHIFT) | lane.priority
        first, sizes = self._sizes.setdefault(key, (lane.tail, array("I")))
        sizes.extend([GONE] * (tail - first - len(sizes)))
        lane.entries += bytes((tail - lane.tail) * layout.ENTRY_BYTES)
        lane.tail = tail

    # What is derived: key index and consume queues.

    def _check_index_to(self, base: int) -> None:
        """Go through the index up to the base of the next segment."""
        if self._index is not None:
            self._index.passed(base)

    def _check_entries(self, next_base: int | None) -> None:
        """Compare the entries of the last segment's records with the files, as far as these must be complete."""
        blocks = self._state.close_entries()
        for lane in self._state.all_lanes():
            lane.closing.clear()
        complete = self._checkpoint.consume_queue_offset if self._checkpoint is not None else 0
        if next_base is None or next_base > complete:
            return
        for block in blocks:
            # In a sparse segment some of the records are missing that the system queue lists.
            if self._runs is None or block.destination_id != layout.SYSTEM_QUEUE:
                self._check_block(block)

    def _check_block(self, block: EntryBlock) -> None:
        directory = lane_directory(f"{self._directory}/{QUEUE_DIRECTORY}", block.destination_id, block.priority)
        entry = block.first
        while entry < block.end():
            first = entry - entry % layout.ENTRIES_PER_FILE
            count = min(block.end(), first + layout.ENTRIES_PER_FILE) - entry
            at = (entry - block.first) * layout.ENTRY_BYTES
            expected = bytes(block.octets[at : at + count * layout.ENTRY_BYTES])
            path = f"{directory}/{file_name(first)}"
            position = (entry - first) * layout.ENTRY_BYTES
            found = self._read(path, position, len(expected)) if self._files.exists(path) else b""
            if self._runs is not None:
                # What was taken out has its entry still, or none where the queue was made again.
                found = _where_named(found, expected)
            if found != expected:
                wrong = next((n for n in range(0, len(expected), 40) if found[n : n + 40] != expected[n : n + 40]), 0)
                self._note(path, position + wrong, f"entry {entry + wrong // layout.ENTRY_BYTES} is not its record's")
            self._found.entry_count += count
            entry += count

    def _check_queue_files(self) -> None:
        """Look for files of consume queues that are out of place, and for queues that nobody has."""
        queues = ConsumeQueueFiles(self._files, f"{self._directory}/{QUEUE_DIRECTORY}")
        for destination_id, priority in queues.queues():
            try:
                _, end = queues.found(destination_id, priority)
            except StoreCorrupt as error:
                self._note(self._directory, -1, str(error))
                continue
            # A queue of a destination that was closed stays until retention has dropped its messages.
            if destination_id >= self._state.next_destination and end:
                path = lane_directory(queues.root, destination_id, priority)
                self._note(path, -1, f"no destination {destination_id} was ever made")

    # The end.

    def _check_end(self, segments: list[Segment]) -> None:
        checkpoint = self._checkpoint
        if checkpoint is None:
            return
        path = f"{self._directory}/{CHECKPOINT_FILE}"
        end = self._found.end_offset
        if end < checkpoint.durable_offset:
            self._note(path, 24, f"durable up to {checkpoint.durable_offset}, the records end at {end}")
        elif checkpoint.is_clean and (end > checkpoint.durable_offset or self._found.is_torn):
            self._note(path, 24, f"a clean stop at {checkpoint.durable_offset}, but records follow up to {end}")
        elif (
            end == checkpoint.durable_offset and not self._found.is_torn and self._sequence != checkpoint.next_sequence
        ):
            self._note(path, 40, f"next sequence {checkpoint.next_sequence}, the log goes on with {self._sequence}")

    def _check_sums(self) -> None:
        """Compare live bytes with the sizes of the messages that are pending."""
        for destination in self._state.destinations.values():
            total = 0
            members = destination.holders.members
            for lane in destination.lanes:
                key = (lane.destination_id << layout.LANE_SHIFT) | lane.priority
                known, sizes = self._sizes.get(key, (lane.tail, array("I")))
                needed = destination.first_needed(lane)
                if lane.is_topic:
                    # A subscription may begin where retention has been; it holds only what came after it.
                    needed = max(needed, min([each.lane(lane.priority).counted_from for each in members], default=0))
                if needed < known:
                    text = f"entry {needed} of {destination.name} is needed, the log begins with entry {known}"
                    self._note(self._directory, -1, text)
                for entry in range(max(needed, known), lane.tail):
                    if lane.is_topic:
                        is_live = any(member.lane(lane.priority).keeps(entry) for member in members)
                    else:
                        is_live = not lane.settled.contains(entry)
                    if is_live and sizes[entry - known] == GONE:
                        self._note(
                            self._directory, -1, f"entry {entry} of {destination.name} is needed, it was taken out"
                        )
                    elif is_live:
                        total += sizes[entry - known]
            if total != destination.live_bytes():
                text = f"{destination.name} has {destination.live_bytes()} live bytes, its messages come to {total}"
                self._note(self._directory, -1, text)

    def _read(self, path: str, position: int, size: int) -> bytes:
        file = self._files.open_to_read(path)
        try:
            return read_fully(file, size, position)
        finally:
            file.close()


def _where_named(found: bytes, expected: bytes) -> bytes:
    """Return the entries of ``found``, zeros where ``expected`` has zeros."""
    size = layout.ENTRY_BYTES
    parts = [
        found[at : at + size] if any(expected[at : at + size]) else bytes(size) for at in range(0, len(expected), size)
    ]
    return b"".join(parts)


def _comparable(state: StoreState) -> dict[str, Any]:
    """Return what a snapshot of the state says, without the lanes of subscriptions that say nothing."""
    described: dict[str, Any] = json.loads(encode_snapshot(state, 0))
    for subscription in described["subscriptions"]:
        subscription["lanes"] = [
            lane
            for lane in subscription["lanes"]
            if lane["cursor"] or lane["counted_from"] or lane["end"] > 0 or lane["settled"] or lane["attempts"]
        ]
    return described
