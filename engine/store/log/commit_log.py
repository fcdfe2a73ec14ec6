"""The writing end of the commit log: assigns offsets to records and collects them into batches.

Nothing here waits for the disk or reads it.  A record's offset is final once it is appended; group_commit.py brings its
octets to the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.store.format import layout
from engine.store.format.message_record import PADDING, append_message
from engine.store.format.record_encoder import pack_record
from engine.store.log.log_files import LogFiles
from engine.store.log.segment import Chunk, Segment
from engine.store.log.transaction_room import TransactionRoom
from engine.store.state.consume_queue import Closing, ConsumeQueue
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import DRAFT_PART, SnapshotDraft
from engine.values.message import IN_TRANSACTION, Message
from engine.values.pieces import PIECE_BYTES
from engine.values.stored import DELIVERY_COUNT_MAX, Range

MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
APPEND_MESSAGE: Final = append_message
PACK_SIZE_AND_CRC: Final = layout.SIZE_AND_CRC.pack
SETTLEMENT: Final = layout.SETTLEMENT
SETTLEMENT_BYTES: Final = layout.ONE_RANGE_SETTLEMENT_BYTES
PACK_SETTLEMENT_ENTRY: Final = layout.SETTLEMENT_ENTRY.pack
SETTLEMENT_CHECK: Final = layout.listing_check(SETTLEMENT, 0)
PACK_SETTLEMENT: Final = layout.ONE_RANGE_SETTLEMENT.pack
DIVIDED_BYTES: Final = 4 * PIECE_BYTES  # a larger transaction is written over several turns
BATCH_PART: Final = 8  # a transaction begins a new segment for at most this part of it


@dataclass(slots=True, eq=False)
class CommitLog:
    """Appended records until the medium takes them.  They belong to the last segment of ``files``.

    end: offset of the next record; limit: end of the current segment's room.
    closings: filled by each roll, taken by the consume queues.
    noted: log offsets of messages with any of ``noted_flags``, taken by the key index.
    """

    files: LogFiles
    state: StoreState
    end: int
    sequence: int
    store_time_ms: int
    _draft: SnapshotDraft = field(init=False)
    _entries_before: int = field(init=False)
    limit: int = field(init=False)
    _first_sequence: int = field(init=False)  # of the segment, or of what this process appended to it
    closings: list[Closing] = field(default_factory=list)
    _parts: list[bytes] = field(default_factory=list)
    _parts_offset: int = field(init=False)
    _chunks: list[Chunk] = field(default_factory=list)
    _transaction_flag: int = 0
    _room: TransactionRoom = field(default_factory=TransactionRoom)
    _snapshot_bytes: int = 0  # size of the last snapshot
    noted_flags: int = 0
    noted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state.open_generation()
        current = self.files.segments[-1]
        self._draft = SnapshotDraft(self.state, self.end)
        self._draft.expect_end(current.capacity // DRAFT_PART)
        self._entries_before = sum(len(lane.entries) for lane in self.state.all_lanes())  # octets, of recovered records
        self.limit = current.limit()
        self._first_sequence = self.sequence
        self._parts_offset = self.end

    def append(self, message: Message, lane: ConsumeQueue) -> None:
        """Add a message to the batch and to its consume queue."""
        size = MESSAGE_HEAD_BYTES + message.size
        offset = self.end
        end = offset + ((size + 7) & ~7)
        if end > self.limit:
            self._make_room(end - offset)
            offset = self.end
            end = offset + ((size + 7) & ~7)
        time_ms = self.store_time_ms
        flags = message.flags | self._transaction_flag
        queue_offset = lane.tail
        if not lane.is_touched:
            self.state.touch(lane)
        APPEND_MESSAGE(
            self._parts,
            lane.entries,
            message.encoding,
            flags,
            message.destination_id,
            offset,
            self.sequence,
            time_ms,
            message.annotations,
            message.headers,
            message.body,
            message.priority,
            message.tag_hash,
            message.group_hash,
            message.expires_ms,
            queue_offset,
        )
        lane.tail = queue_offset + 1
        lane.live_bytes += message.size
        if flags & self.noted_flags:
            self.noted.append(offset)
        self.sequence += 1
        self.end = end
        message.log_offset = offset
        message.queue_offset = queue_offset
        message.store_time_ms = time_ms

    def append_record(self, record_type: int, destination_id: int, payload: bytes) -> None:
        """Add a record that is not a message; it is listed in the system queue."""
        self._append_record(record_type, self._transaction_flag, destination_id, payload)

    def _append_record(self, record_type: int, flags: int, destination_id: int, payload: bytes) -> None:
        size = layout.RECORD_HEADER_BYTES + len(payload)
        room = layout.padded(size)
        if self.end + room > self.limit:
            self._make_room(room)
        offset = self.end
        record = pack_record(record_type, flags, destination_id, offset, self.sequence, self.store_time_ms, payload)
        self._parts += (record, PADDING[size & 7])
        self.state.system.add_listed(offset, size, flags, record_type, destination_id, self.store_time_ms)
        self.sequence += 1
        self.end = offset + room

    def append_ranges(
        self,
        record_type: int,
        destination_id: int,
        consumer_id: int,
        outcome: int,
        cause: int,
        due_or_freed: int,
        ranges: list[Range],
    ) -> None:
        """Add a settlement, or failed attempts."""
        parts = [layout.SETTLEMENT_FIXED.pack(0, consumer_id, outcome, cause, 0, len(ranges), due_or_freed)]
        for entries in ranges:
            delivery_count = min(entries.delivery_count, DELIVERY_COUNT_MAX)
            parts.append(layout.RANGE.pack(entries.first, entries.count, entries.priority, 0, delivery_count))
        self.append_record(record_type, destination_id, b"".join(parts))

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
        """Add a settlement of one range: like ``append_record``, in half the time."""
        if self.end + SETTLEMENT_BYTES > self.limit:
            self._make_room(SETTLEMENT_BYTES)
        offset = self.end
        flags = self._transaction_flag
        time_ms = self.store_time_ms
        rest = PACK_SETTLEMENT(
            SETTLEMENT,
            flags,
            destination_id,
            offset,
            self.sequence,
            time_ms,
            consumer_id,
            outcome,
            cause,
            1,
            freed_bytes,
            first,
            count,
            priority,
        )
        self._parts += (PACK_SIZE_AND_CRC(SETTLEMENT_BYTES, crc32c(rest)), rest)
        system = self.state.system  # the same as ``ConsumeQueue.add_listed``
        system.entries += PACK_SETTLEMENT_ENTRY(
            offset,
            SETTLEMENT_BYTES,
            flags & 255,
            SETTLEMENT,
            ~flags & 255,
            destination_id,
            destination_id ^ SETTLEMENT_CHECK,
            time_ms,
        )
        system.tail += 1
        self.sequence += 1
        self.end = offset + SETTLEMENT_BYTES

    def begin(self) -> None:
        """Start a transaction: everything appended until ``commit`` stays in one segment, whatever its size.

        If the largest of the last transactions would no longer fit, a new segment begins, so few transactions need one
        of their own.
        """
        assert not self._transaction_flag, "transactions do not nest"
        reserved = self._room.reserved
        # Own segments must not follow each other for long: only a roll writes a snapshot, where starts can begin.
        if self.end + max(reserved, self._room.own_bytes) > self.limit:
            self.roll(reserved)
        self._open_transaction()

    def _open_transaction(self) -> None:
        self._transaction_flag = IN_TRANSACTION
        self._room.began(self.sequence, self.end, len(self._parts))

    def commit(self) -> None:
        """Close the transaction; an empty one leaves no trace."""
        assert self._transaction_flag, "no transaction is open"
        room = self._room
        count = self.sequence - room.sequence
        if count:
            self._append_record(layout.COMMIT, 0, 0, layout.COMMIT_FIXED.pack(room.sequence, count, 0))
            if room.own is not None:
                # Leave room behind it, as the next segment's snapshot and file take time.
                self._set_limit(layout.padded(self.end + self.files.segment_bytes // DRAFT_PART))
                self._draft.expect_end(self.limit - self.end)
            size_bytes = self.end - room.start
            if size_bytes > DIVIDED_BYTES:
                self._cut_transaction()
            room.ended(size_bytes, self.files.segment_bytes // BATCH_PART)
        self._transaction_flag = 0

    def _make_room(self, octets: int) -> None:
        """Make room for ``octets``: in a new segment, or in the transaction's own one."""
        if not self._transaction_flag:
            self.roll(octets)
        elif self.sequence == self._room.sequence:
            self._transaction_flag = 0
            self.roll(octets)
            self._open_transaction()
        else:
            self._give_own_segment(octets)

    def _give_own_segment(self, octets: int) -> None:
        """Give the open transaction ``octets`` more.

        Nothing of it has been written, but its log offsets are assigned.  So the current segment ends where the
        transaction began, and a continuation segment holds the transaction and grows with it.
        """
        room = self._room
        if room.own is None:
            self._cut_chunk(room.part_count, room.start, room.sequence)
            room.own = self.files.begin_continuation(room.start)
        self._set_limit(self.end + octets)

    def _set_limit(self, limit: int) -> None:
        self.limit = limit
        self.files.end_at(limit)

    def roll(self, room: int) -> None:
        """Continue in a new segment, which holds a snapshot and then at least ``room`` octets more."""
        assert not self._transaction_flag, "a transaction stays in one segment"
        self._cut_chunk(len(self._parts), self.end, self.sequence)
        self._room.segment_began()
        base = self.limit
        self.closings.append(self._close_segment(base))
        snapshot = self._draft.finish(self.sequence)
        # Leave at least as much room as the snapshot takes; otherwise most of what is written would be snapshots.
        snapshot_bytes = self._snapshot_bytes = layout.padded(layout.RECORD_HEADER_BYTES + len(snapshot))
        segment = self.files.begin(base, snapshot_bytes + max(room, snapshot_bytes))
        self.end = base
        self.limit = segment.limit()
        self._draft.expect_end(segment.capacity // DRAFT_PART)
        self._parts_offset = base
        self.append_record(layout.SNAPSHOT, 0, snapshot)

    def _close_segment(self, base: int) -> Closing:
        """End the segment at ``base`` for the consume queues."""
        state = self.state
        generation = state.generation
        entry_bytes = self._entries_before + (self.sequence - self._first_sequence) * layout.ENTRY_BYTES
        self._entries_before = 0
        self._first_sequence = self.sequence
        blocks = [state.system.close_entries()] if state.system.entries else []
        return Closing(base, blocks, generation, state.next_generation(), entry_bytes)

    def begin_anew(self) -> None:
        """Continue in a new segment after an unclean stop, so that no offset ever names two records."""
        self.roll(0)
        if self.files.segments[0].capacity == 0:
            self.files.drop(1)  # the empty placeholder of a new store
            self.closings.clear()

    def shrink(self) -> bool:
        """Halve the room of the current segment, which has no file yet; return False if it can be no smaller."""
        if not self.files.shrink(2 * self._snapshot_bytes):
            return False
        self.limit = self.files.segments[-1].limit()
        self._draft.expect_end(self.files.segments[-1].capacity // DRAFT_PART)
        return True

    def _cut_transaction(self) -> None:
        """Make a chunk of its own of the transaction that ends, to be written in pieces."""
        room = self._room
        if room.own is None:  # otherwise what came before it was cut off already
            self._cut_chunk(room.part_count, room.start, room.sequence)
        self._cut_chunk(len(self._parts), self.end, self.sequence, is_divided=True)

    def _cut_chunk(self, part_count: int, end: int, next_sequence: int, is_divided: bool = False) -> None:
        """Make a chunk of the first parts collected: those below ``end``."""
        if part_count:
            parts = self._parts[:part_count]
            if not is_divided and (end - self._parts_offset <= PIECE_BYTES or max(map(len, parts)) <= PIECE_BYTES):
                parts = [b"".join(parts)]
            self._chunks.append(
                Chunk(self.files.segments[-1], self._parts_offset, parts, end, next_sequence, self.store_time_ms)
            )
            self._parts = self._parts[part_count:]
            self._parts_offset = end

    def take_closings(self) -> list[Closing]:
        """Return the segments closed by rolls since the last call."""
        closings = self.closings
        self.closings = []
        return closings

    def take_chunks(self) -> list[Chunk]:
        """Return the chunks appended since the last call."""
        assert not self._transaction_flag, "a batch ends inside a transaction"
        self._cut_chunk(len(self._parts), self.end, self.sequence)
        chunks = self._chunks
        if chunks:
            self._chunks = []
        return chunks

    def prepare_ahead(self) -> None:
        """Prepare for the next segment as the current one fills up; call it after appending."""
        self._draft.log_grown(self.end, self.limit, self._room.reserved)
        if self.end > self.files.prepare_at:
            self.files.prepare_next(self._snapshot_bytes)

    def segment_replaced(self, old: Segment, new: Segment) -> None:
        """Note a segment that was made after a failed sync; ``files`` has it already."""
        for chunk in self._chunks:
            if chunk.segment is old:
                chunk.move(new)
