"""One consume queue in memory: its length, and its entries that are not in files yet, segment by segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.store.format.layout import ENTRY, ENTRY_BYTES, listing_check
from engine.store.format.record import Record
from engine.store.state.progress import Progress

PACK_ENTRY: Final = ENTRY.pack
RECOVERED: Final = 0  # the generation of records that were in the log before it was opened


class EntryBlock:
    """Consecutive entries of one consume queue, as octets.  generation: of the segment that they belong to."""

    __slots__ = ("destination_id", "priority", "first", "octets", "generation")

    def __init__(
        self, destination_id: int, priority: int, first: int, octets: bytearray, generation: int = RECOVERED
    ) -> None:
        self.destination_id = destination_id
        self.priority = priority
        self.first = first
        self.octets = octets
        self.generation = generation

    def end(self) -> int:
        """Return the index just past the last entry."""
        return self.first + len(self.octets) // ENTRY_BYTES


class ConsumeQueue(Progress):
    """One consume queue: a destination and a priority, with the queue's progress.

    tail: entries ever appended.  entries: those of the segment ``generation``, from ``entries_first`` on; earlier ones
    are in ``closing``, on their way to the disk, or in the consume queue's files.
    is_touched: it has changed since it was last written into a snapshot.
    kept_first: entries below were dropped with their records.
    live_bytes: appended less freed octets.  Only the sum over a destination's lanes is meaningful, because a settlement
    that covers several lanes is booked on one.
    """

    __slots__ = (
        "destination_id",
        "priority",
        "is_topic",
        "tail",
        "live_bytes",
        "entries",
        "entries_first",
        "closing",
        "kept_first",
        "generation",
        "is_touched",
    )

    def __init__(self, destination_id: int, priority: int, is_topic: bool, tail: int) -> None:
        super().__init__(0)
        self.destination_id = destination_id
        self.priority = priority
        self.is_topic = is_topic
        self.tail = tail
        self.live_bytes = 0
        self.entries = bytearray()
        self.entries_first = tail
        self.closing: list[EntryBlock] = []
        self.kept_first = 0
        self.generation = RECOVERED
        self.is_touched = False

    def add(
        self,
        offset: int,
        size: int,
        flags: int,
        record_type: int,
        tag_hash: int,
        group_hash: int,
        expires_ms: int,
        time_ms: int,
    ) -> None:
        """Append the entry of a message."""
        check = ~flags & 255
        self.entries += PACK_ENTRY(
            offset, size, flags & 255, self.priority, record_type, check, tag_hash, group_hash, expires_ms, time_ms
        )
        self.tail += 1

    def add_listed(
        self, offset: int, size: int, flags: int, record_type: int, destination_id: int, time_ms: int
    ) -> None:
        """Append, to the system queue, the entry of a record that is no message."""
        check = listing_check(record_type, destination_id)
        self.add(offset, size, flags, record_type, destination_id, check, 0, time_ms)

    def add_record(self, record: Record, tag_hash: int, group_hash: int, expires_ms: int) -> None:
        """Append the entry of a parsed message."""
        offset, size, flags, time_ms = record.offset, record.size, record.flags, record.store_time_ms
        self.add(offset, size, flags, record.type, tag_hash, group_hash, expires_ms, time_ms)

    def list_record(self, record: Record) -> None:
        """Append, to the system queue, the entry of a parsed record that is no message."""
        offset, size, flags, time_ms = record.offset, record.size, record.flags, record.store_time_ms
        self.add_listed(offset, size, flags, record.type, record.destination_id, time_ms)

    def close_entries(self) -> EntryBlock:
        """Hand the entries collected so far over to the disk."""
        block = EntryBlock(self.destination_id, self.priority, self.entries_first, self.entries, self.generation)
        self.closing.append(block)
        self.entries = bytearray()
        self.entries_first = self.tail
        return block

    def block_of(self, generation: int) -> EntryBlock | None:
        """Return the entries of a segment that has ended, None if there are none; the last segment's stay open."""
        if self.generation == generation:
            return self.close_entries() if self.entries else None
        for block in self.closing:
            if block.generation == generation:
                return block
        return None

    def file_end(self) -> int:
        """Return the first entry that is not in the consume queue's files yet."""
        return self.closing[0].first if self.closing else self.entries_first


@dataclass(slots=True, eq=False)
class Closing:
    """The consume-queue entries of all records below ``end``, a segment's base, that are not in the files yet.

    blocks: those gathered so far; the others are still in ``_lanes``.
    """

    end: int
    blocks: list[EntryBlock]
    _generation: int
    _lanes: list[ConsumeQueue]
    entry_bytes: int

    def block_count(self) -> int:
        """Return an upper bound for the number of blocks."""
        return len(self.blocks) + len(self._lanes)

    def gather(self, count: int) -> int:
        """Take the entries of at most ``count`` lanes; return how many lanes were examined."""
        looked = 0
        while self._lanes and looked < count:
            block = self._lanes.pop().block_of(self._generation)
            looked += 1
            if block is not None:
                self.blocks.append(block)
        return looked

    def is_gathered(self) -> bool:
        """Return whether ``blocks`` is complete."""
        return not self._lanes
