"""The commit log's writing end: records are given their offsets here and collected into batches.

Nothing here waits for the disk or reads it.  A record's offset is final the moment it is appended; that its octets
reach the disk is the affair of group_commit.py.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from engine.ports.clock import Clock
from engine.ports.workers import FILE_LANE, Job, Workers
from engine.store.disk.files import File, Files
from engine.store.format import layout
from engine.store.log.segment import NEW_SUFFIX, PREPARED_SUFFIX, SUFFIX, Segment, make_segment_file, segment_name
from engine.store.state.closed_segment import Closing
from engine.store.state.log_state import Lane, StoreState
from engine.store.state.snapshot_draft import SnapshotDraft
from engine.values.message import IN_TRANSACTION, Message

MESSAGE: Final = layout.MESSAGE
MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
PACK_HEAD: Final = layout.MESSAGE_HEAD.pack
PACK_ENTRY: Final = layout.ENTRY.pack
PACK_SIZE_AND_CRC: Final = layout.SIZE_AND_CRC.pack
SETTLEMENT: Final = layout.SETTLEMENT
SETTLEMENT_BYTES: Final = layout.ONE_RANGE_SETTLEMENT_BYTES
PACK_SETTLEMENT: Final = layout.ONE_RANGE_SETTLEMENT.pack
PADDING: Final = [bytes(-size & 7) for size in range(8)]
# The next snapshot is drafted in the last quarter of a segment, what has changed meanwhile in the last quarter of that,
DRAFT_PART: Final = 4  # and so on; a roll tells only what has changed within the last few records.
DRAFT_LAST_BYTES: Final = 16 << 10  # left of a segment when the last of these passes begins
GROWN_SNAPSHOTS: Final = 3  # the next segment is made for so many of the last snapshot: two, grown by half
BATCH_PART: Final = 8  # a transaction begins a new segment for at most this part of it


class Chunk:
    """The octets of a batch, or of the part of it that fell into one segment, until they are known to be durable.

    end, next_sequence, store_time_ms: the log as it is just past the chunk.
    """

    __slots__ = ("segment", "offset", "octets", "end", "next_sequence", "store_time_ms")

    def __init__(
        self, segment: Segment, offset: int, octets: bytes, end: int, next_sequence: int, store_time_ms: int
    ) -> None:
        self.segment = segment
        self.offset = offset
        self.octets = octets
        self.end = end
        self.next_sequence = next_sequence
        self.store_time_ms = store_time_ms


class CommitLog:
    """Segments in order, the last of them open for records.

    end: offset of the next record; limit: of the end of the current segment's room.
    edition: grows whenever ``segments`` changes.
    closings: filled by each roll, taken by the consume queues.
    noted: log offsets of messages with any of ``noted_flags``, taken by the key index.
    """

    __slots__ = (
        "segments",
        "edition",
        "current",
        "end",
        "limit",
        "sequence",
        "store_time_ms",
        "closings",
        "state",
        "_draft",
        "_draft_end",
        "_pass_at",
        "_is_past_begin",
        "_entries_before",
        "_first_sequence",
        "_files",
        "_directory",
        "_segment_bytes",
        "_store_id",
        "_clock",
        "_workers",
        "_parts",
        "_parts_offset",
        "_chunks",
        "_transaction_flag",
        "_transaction_sequence",
        "_transaction_start",
        "_transaction_parts",
        "_own",
        "_largest",
        "_largest_before",
        "_own_bytes",
        "_snapshot_bytes",
        "_prepared",
        "_attempted_base",
        "_is_closed",
        "noted_flags",
        "noted",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        segment_bytes: int,
        store_id: str,
        clock: Clock,
        workers: Workers,
        state: StoreState,
        segments: list[Segment],
        end: int,
        sequence: int,
        store_time_ms: int,
    ) -> None:
        self._files = files
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._store_id = store_id
        self._clock = clock
        self._workers = workers
        self.state = state
        state.open_generation()
        self._draft = SnapshotDraft(state)
        self._draft_end = end  # of the log when it was last worked at
        self._pass_at = segments[-1].capacity // DRAFT_PART  # octets left when the next pass of the draft begins
        self._is_past_begin = False  # a transaction would not begin in this segment any more
        self._entries_before = sum(len(lane.entries) for lane in state.all_lanes())  # octets, of recovered records
        self._first_sequence = sequence  # of the segment, or of what was appended to it here
        self.segments = segments
        self.edition = 0
        self.current = segments[-1]
        self.end = end
        self.limit = self.current.limit()
        self.sequence = sequence
        self.store_time_ms = store_time_ms
        self.closings: list[Closing] = []
        self._parts: list[bytes] = []
        self._parts_offset = end
        self._chunks: list[Chunk] = []
        self._transaction_flag = 0
        self._transaction_sequence = 0
        self._transaction_start = 0
        self._transaction_parts = 0  # that were collected before it
        self._own: Segment | None = None  # what the open transaction was given, see _give_own_segment
        self._largest = 0  # octets of the largest transaction in this segment
        self._largest_before = 0  # and in the one before
        self._own_bytes = 0  # of the largest transaction since the last roll that got a segment of its own
        self._snapshot_bytes = 0  # that the last roll took
        self._prepared: Segment | None = None
        self._attempted_base = -1
        self._is_closed = False
        self.noted_flags = 0
        self.noted: list[int] = []

    def append(self, message: Message, lane: Lane) -> None:
        """Add a message to the batch and to its consume queue."""
        annotations = message.annotations
        headers = message.headers
        body = message.body
        size = MESSAGE_HEAD_BYTES + message.size
        offset = self.end
        end = offset + ((size + 7) & ~7)
        if end > self.limit:
            self._make_room(end - offset)
            offset = self.end
            end = offset + ((size + 7) & ~7)
        sequence = self.sequence
        time_ms = self.store_time_ms
        flags = message.flags | self._transaction_flag
        queue_offset = lane.tail
        head = PACK_HEAD(
            MESSAGE,
            message.encoding,
            flags,
            message.destination_id,
            offset,
            sequence,
            time_ms,
            len(annotations),
            len(headers),
            len(body),
            message.priority,
            0,
            0,
            message.tag_hash,
            message.group_hash,
            message.expires_ms,
            queue_offset,
        )
        if not lane.is_touched:
            self.state.touch(lane)
        crc = crc32c(head)
        if annotations:
            crc = crc32c(annotations, crc)
        crc = crc32c(body, crc32c(headers, crc))
        self._parts += (PACK_SIZE_AND_CRC(size, crc), head, annotations, headers, body, PADDING[size & 7])
        # What ``Lane.add`` does: a call more for each message is more than one part of a hundred.
        lane.entries += PACK_ENTRY(
            offset,
            size,
            flags & 255,
            message.priority,
            MESSAGE,
            0,
            message.tag_hash,
            message.group_hash,
            message.expires_ms,
            time_ms,
        )
        lane.tail = queue_offset + 1
        lane.live_bytes += message.size
        if flags & self.noted_flags:
            self.noted.append(offset)
        self.sequence = sequence + 1
        self.end = end
        message.log_offset = offset
        message.queue_offset = queue_offset
        message.store_time_ms = time_ms

    def append_record(self, record_type: int, destination_id: int, payload: bytes) -> None:
        """Add a record that is not a message; the system queue lists it."""
        self._append_record(record_type, self._transaction_flag, destination_id, payload)

    def _append_record(self, record_type: int, flags: int, destination_id: int, payload: bytes) -> None:
        size = layout.RECORD_HEADER_BYTES + len(payload)
        room = layout.padded(size)
        if self.end + room > self.limit:
            self._make_room(room)
        offset = self.end
        record = layout.pack_record(
            record_type, flags, destination_id, offset, self.sequence, self.store_time_ms, payload
        )
        self._parts += (record, PADDING[size & 7])
        self.state.system.add(offset, size, flags, record_type, destination_id, 0, 0, self.store_time_ms)
        self.sequence += 1
        self.end = offset + room

    def append_settlement(
        self,
        destination_id: int,
        consumer_id: int,
        outcome: int,
        cause: int,
        priority: int,
        first: int,
        count: int,
        freed_bytes: int,
    ) -> None:
        """Add a settlement of one range: what ``append_record`` does, in half the time."""
        if self.end + SETTLEMENT_BYTES > self.limit:
            self._make_room(SETTLEMENT_BYTES)
        offset = self.end
        flags = self._transaction_flag
        time_ms = self.store_time_ms
        rest = PACK_SETTLEMENT(
            SETTLEMENT,
            0,
            flags,
            destination_id,
            offset,
            self.sequence,
            time_ms,
            0,
            consumer_id,
            outcome,
            cause,
            0,
            1,
            freed_bytes,
            first,
            count,
            priority,
            0,
            0,
        )
        self._parts += (PACK_SIZE_AND_CRC(SETTLEMENT_BYTES, crc32c(rest)), rest)
        system = self.state.system  # as ``Lane.add`` does
        system.entries += PACK_ENTRY(
            offset, SETTLEMENT_BYTES, flags & 255, 0, SETTLEMENT, 0, destination_id, 0, 0, time_ms
        )
        system.tail += 1
        self.sequence += 1
        self.end = offset + SETTLEMENT_BYTES

    def begin(self) -> None:
        """Start a transaction: what is appended until ``commit`` stays in one segment, however much it is.

        Where the largest of the last transactions would not fit any more, a new segment begins: then few of them need
        one of their own.
        """
        assert not self._transaction_flag, "transactions do not nest"
        room = max(self._largest, self._largest_before)
        # One of its own is not followed by another one for long: only a roll brings the snapshot that starts begin at.
        if self.end + max(room, self._own_bytes) > self.limit:
            self.roll(room)
        self._open_transaction()

    def _open_transaction(self) -> None:
        self._transaction_flag = IN_TRANSACTION
        self._transaction_sequence = self.sequence
        self._transaction_start = self.end
        self._transaction_parts = len(self._parts)

    def commit(self) -> None:
        """Close the transaction; an empty one leaves no trace."""
        assert self._transaction_flag, "no transaction is open"
        first = self._transaction_sequence
        count = self.sequence - first
        if count:
            self._append_record(layout.COMMIT, 0, 0, layout.COMMIT_FIXED.pack(first, count, 0))
            if self._own is not None:
                self._leave_room(self._own)
            size_bytes = self.end - self._transaction_start
            if size_bytes > self._largest:
                self._largest = min(size_bytes, self._segment_bytes // BATCH_PART)
        self._transaction_flag = 0
        self._own = None

    def _make_room(self, room: int) -> None:
        """Go on where ``room`` octets fit: in a new segment, or in one of the transaction's own."""
        if not self._transaction_flag:
            self.roll(room)
        elif self.sequence == self._transaction_sequence:
            self._transaction_flag = 0
            self.roll(room)
            self._open_transaction()
        else:
            self._give_own_segment(room)

    def _give_own_segment(self, room: int) -> None:
        """Let the open transaction have ``room`` octets more.

        Nothing of it has been written, and its log offsets are given out.  So the current segment ends where the
        transaction began, and a continuation holds the transaction: it grows with it.
        """
        segment = self._own
        if segment is None:
            start = self._transaction_start
            self._cut_chunk(self._transaction_parts, start, self._transaction_sequence)
            self.current.sealed_end = start
            segment = self._own = Segment(self._directory, start, 0, True)
            self.segments.append(segment)
            self.edition += 1
            self.current = segment
            if self._prepared is not None:  # for where the segment before would have ended
                self._discard(self._prepared)
                self._prepared = None
        segment.capacity = self.end + room - segment.base
        self.limit = segment.limit()

    def _leave_room(self, segment: Segment) -> None:
        """Let the log go on behind a transaction in its own segment: the snapshot and the file of the next one take
        their time.
        """
        self._own_bytes = max(self._own_bytes, self.end - self._transaction_start)
        segment.capacity = layout.padded(self.end + self._segment_bytes // DRAFT_PART - segment.base)
        self.limit = segment.limit()
        self._pass_at = self.limit - self.end
        self._is_past_begin = False

    def roll(self, room: int) -> None:
        """Go on in a new segment that holds a snapshot and then at least ``room`` octets more."""
        assert not self._transaction_flag, "a transaction stays in one segment"
        self._cut_chunk(len(self._parts), self.end, self.sequence)
        self._largest_before = self._largest
        self._largest = self._own_bytes = 0
        base = self.limit
        self.closings.append(self._close_segment(base))
        snapshot = self._draft.finish(self.sequence)
        # At least as much room for what follows as the snapshot takes: it would be most of what is written otherwise.
        snapshot_bytes = self._snapshot_bytes = layout.padded(layout.RECORD_HEADER_BYTES + len(snapshot))
        capacity = snapshot_bytes + max(room, snapshot_bytes)
        segment = self._prepared
        self._prepared = None
        if segment is not None and (segment.base != base or segment.capacity < capacity):
            self._discard(segment)
            segment = None
        if segment is None:
            segment = Segment(self._directory, base, max(capacity, self._segment_bytes), False)
        self.segments.append(segment)
        self.edition += 1
        self.current = segment
        self.end = base
        self.limit = segment.limit()
        self._pass_at = segment.capacity // DRAFT_PART
        self._is_past_begin = False
        self._parts_offset = base
        self.append_record(layout.SNAPSHOT, 0, snapshot)

    def _close_segment(self, base: int) -> Closing:
        """Begin a new segment at ``base``, as far as the consume queues are concerned."""
        state = self.state
        generation = state.generation
        entry_bytes = self._entries_before + (self.sequence - self._first_sequence) * layout.ENTRY_BYTES
        self._entries_before = 0
        self._first_sequence = self.sequence
        blocks = [state.system.close_entries()] if state.system.entries else []
        return Closing(base, blocks, generation, state.next_generation(), entry_bytes)

    def begin_anew(self) -> None:
        """Go on in a new segment after an unclean stop, so that no offset ever names two records."""
        self.roll(0)
        if self.segments[0].capacity == 0:
            self.drop_segments(1)  # the one of no length that stands for a store without any
            self.closings.clear()

    def _cut_chunk(self, part_count: int, end: int, next_sequence: int) -> None:
        """Make a chunk of the first parts that were collected: those below ``end``."""
        if part_count:
            octets = b"".join(self._parts[:part_count])
            self._chunks.append(Chunk(self.current, self._parts_offset, octets, end, next_sequence, self.store_time_ms))
            self._parts = self._parts[part_count:]
            self._parts_offset = end

    def take_closings(self) -> list[Closing]:
        """Return what rolls have closed since the last call."""
        closings = self.closings
        self.closings = []
        return closings

    def take_chunks(self) -> list[Chunk]:
        """Return what was appended since the last call."""
        assert not self._transaction_flag, "a batch ends inside a transaction"
        self._cut_chunk(len(self._parts), self.end, self.sequence)
        chunks = self._chunks
        if chunks:
            self._chunks = []
        return chunks

    def put_on_disk(self, segment: Segment) -> None:
        """Make sure that ``segment`` has its file, open."""
        if segment.is_on_disk:
            if segment.file is None:
                segment.file = self._files.open(segment.path())
            return
        path = f"{self._directory}/{segment_name(segment.base)}"
        if segment.file is not None:
            # Not synced here, on the engine's thread: the first sync does it, and until then recovery makes sure that
            # no offset in it is used again, whichever name survives.
            self._files.rename(path + PREPARED_SUFFIX, path + SUFFIX)
        else:
            created_ms = self._clock.wall_ms()
            file = make_segment_file(self._files, path + NEW_SUFFIX, segment, created_ms, self._store_id)
            try:
                self._files.rename(path + NEW_SUFFIX, path + SUFFIX)
                self._files.sync_directory(self._directory)
            except OSError:
                file.close()
                raise
            segment.file = file
            segment.is_name_durable = True
        segment.is_on_disk = True

    def prepare_ahead(self) -> None:
        """Prepare what the next segment will need, as the current one fills up; call it when something was appended."""
        self._draft_ahead()
        self._make_next_file()

    def _draft_ahead(self) -> None:
        end = self.end
        filled = end - self._draft_end
        self._draft_end = end
        left = self.limit - max(self._largest, self._largest_before) - end  # then ``begin`` rolls
        if left < 0:  # no transaction has come, and other records still fit
            left = self.limit - end
            if not self._is_past_begin:
                self._is_past_begin = True
                self._pass_at = left + 1
        if self._pass_at and left < self._pass_at:
            while self._pass_at and left < self._pass_at:
                is_last = self._pass_at <= DRAFT_LAST_BYTES
                self._pass_at = 0 if is_last else max(self._pass_at // DRAFT_PART, DRAFT_LAST_BYTES)
            self._draft.begin_pass()
            filled = 0  # of the pass; what has just come may be a transaction of many times its length
        rest = left - self._pass_at  # of this pass
        if rest > 0 and (untold := self._draft.untold_count()):
            # Twice as large a part of it as this is of the rest: it is to be done before the next pass begins.
            self._draft.tell(2 * untold * filled // (rest + filled) + 1)

    def _make_next_file(self) -> None:
        """Have a worker make the file of the next segment once half of the current one is used; tried once."""
        if self._attempted_base != self.limit and self.end > self.limit - self.current.capacity // 2:
            self._attempted_base = self.limit
            capacity = max(self._segment_bytes, GROWN_SNAPSHOTS * self._snapshot_bytes)
            segment = Segment(self._directory, self.limit, capacity, False)
            self._workers.submit(
                PrepareJob(self, self._files, segment, self._clock.wall_ms(), self._store_id), FILE_LANE
            )

    def segment_prepared(self, segment: Segment, file: File | None) -> None:
        """Take the next segment; if it was not made, the one who needs it tries again and tells of the error."""
        if file is None:
            return
        segment.file = file
        if self._is_closed:
            segment.close()  # the directory may be another process's by now; the next start removes the file
        elif segment.base != self.limit:
            self._discard(segment)
        else:
            self._prepared = segment

    def _discard(self, segment: Segment) -> None:
        segment.close()
        try:
            self._files.unlink(f"{self._directory}/{segment_name(segment.base)}{PREPARED_SUFFIX}")
        except OSError:
            pass  # the next start of the store removes it

    def replace(self, old: Segment, new: Segment) -> None:
        """Put ``new``, made after a failed sync, in the place of ``old`` or of its end."""
        place = self.segments.index(old)
        if new.base > old.base:
            old.sealed_end = new.base
            self.segments.insert(place + 1, new)
        else:
            self.segments[place] = new
        if self.current is old:
            self.current = new
        for chunk in self._chunks:
            if chunk.segment is old:
                chunk.segment = new
        self.edition += 1
        old.close()

    def drop_segments(self, count: int) -> None:
        """Forget the oldest ``count`` segments."""
        del self.segments[:count]
        self.edition += 1

    def close(self) -> None:
        """Let go of all files."""
        self._is_closed = True
        if self._prepared is not None:
            self._discard(self._prepared)
            self._prepared = None
        for segment in self.segments:
            segment.close()


class PrepareJob(Job):
    """Makes the file of the next segment, whose room takes the disk a while."""

    __slots__ = ("_log", "_files", "_segment", "_created_ms", "_store_id", "_file")

    def __init__(self, log: CommitLog, files: Files, segment: Segment, created_ms: int, store_id: str) -> None:
        self._log = log
        self._files = files
        self._segment = segment
        self._created_ms = created_ms
        self._store_id = store_id
        self._file: File | None = None

    def run(self) -> None:
        directory = self._segment.directory
        path = f"{directory}/{segment_name(self._segment.base)}{PREPARED_SUFFIX}"
        try:
            self._file = make_segment_file(self._files, path, self._segment, self._created_ms, self._store_id)
            self._files.sync_directory(directory)
        except OSError:
            # Not fatal: the segment is made again when it is needed, and an error then counts.
            if self._file is not None:
                self._file.close()
                self._file = None

    def finish(self) -> None:
        self._log.segment_prepared(self._segment, self._file)
