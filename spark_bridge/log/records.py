"""Many records at once: a range of a consume queue, the octets of its records, fields as numpy columns.

Records and the integers in them are aligned to eight octets, so one buffer seen as 8-, 4-, 2- and 1-octet integers
gives any field of all records by indexing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from engine.store.format import layout
from engine.store.format.checksum import crc32c
from engine.store.format.sparse_runs import Runs
from engine.store.read.entry_files import EntryFile, entry_files
from engine.store.read.segment_files import SegmentFile, open_segment
from engine.store.read.store_files import StoreFile, open_file
from engine.values.errors import StoreCorrupt

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Octets = np.ndarray[Any, np.dtype[np.uint8]]
Entries = np.ndarray[Any, np.dtype[np.void]]

# format.ENTRY
ENTRY_DTYPE: Final = np.dtype(
    [
        ("offset", "<i8"),
        ("size", "<u4"),
        ("flags", "u1"),
        ("priority", "u1"),
        ("type", "u1"),
        ("check", "u1"),
        ("tag", "<u4"),
        ("group", "<u4"),
        ("expires", "<i8"),
        ("store_time", "<i8"),
    ]
)
assert ENTRY_DTYPE.itemsize == layout.ENTRY_BYTES

PAST_ALL: Final = 1 << 63
EMPTY_ENTRIES: Final = 4096
GAP_BYTES: Final = 16 * 1024  # unneeded octets up to this size are cheaper to read than to skip
BATCH_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of the log inside one segment.

    has_entries: its consume-queue entries are on the disk; otherwise the log is scanned, and ``start`` begins a record.
    """

    segment: SegmentFile
    start: int
    stop: int
    has_entries: bool


def cell_end(offset: int, partition_bytes: int) -> int:
    """Return where the part of the log ends that one task reads, of which ``offset`` is in.

    The borders do not move as the log grows, so a task that is repeated later has the same rows.
    """
    return (offset // partition_bytes + 1) * partition_bytes


class Block:
    """Records of one segment in memory, ascending: record i is at ``positions[i]`` of ``octets``."""

    __slots__ = ("octets", "positions", "sizes", "_words", "_halves", "_shorts")

    def __init__(self, octets: Octets, positions: Int64s, sizes: Int64s) -> None:
        self.octets = octets
        self.positions = positions
        self.sizes = sizes
        self._words = octets.view("<i8")
        self._halves = octets.view("<u4")
        self._shorts = octets.view("<u2")

    def i64(self, at: int) -> Int64s:
        """Return the 8-octet field at ``at`` of every record."""
        found: Int64s = self._words[(self.positions + at) >> 3]
        return found

    def u32(self, at: int) -> Int64s:
        """Return the 4-octet field at ``at`` of every record."""
        found: Int64s = self._halves[(self.positions + at) >> 2].astype(np.int64)
        return found

    def u16(self, at: int) -> Int64s:
        """Return the 2-octet field at ``at`` of every record."""
        found: Int64s = self._shorts[(self.positions + at) >> 1].astype(np.int64)
        return found

    def u8(self, at: int) -> Octets:
        """Return the octet at ``at`` of every record."""
        return self.octets[self.positions + at]


def lane_entries(directory: Path, destination_id: int, priority: int, start: int, stop: int) -> Entries:
    """Return the entries of one consume queue whose records lie from ``start`` to ``stop``, in order."""
    return placed_entries(directory, destination_id, priority, start, stop)[0]


def placed_entries(
    directory: Path,
    destination_id: int,
    priority: int,
    start: int,
    stop: int,
    from_ms: int = 0,
    to_ms: int = PAST_ALL,
) -> tuple[Entries, Int64s]:
    """Return the entries as ``lane_entries``, of a range of store times besides, and the queue offset of each."""
    found: list[Entries] = [np.empty(0, dtype=ENTRY_DTYPE)]
    places: list[Int64s] = [np.empty(0, dtype=np.int64)]
    for file in entry_files(directory, destination_id, priority):
        try:
            source = open_file(file.path)
        except FileNotFoundError:  # dropped by retention, like the records that it lists
            continue
        try:
            low, entries = _entries_between(source, file, (start, from_ms), (stop, to_ms))
        finally:
            source.close()
        named = np.flatnonzero(entries["offset"])
        found.append(entries if len(named) == len(entries) else entries[named])
        places.append(named + (file.first + low))
    # Without the first, an empty one, where one file has them all: copying entries takes longer than reading them.
    return found[-1] if len(found) == 2 else np.concatenate(found), np.concatenate(places)


def entries_at(files: list[EntryFile], first: int, end: int) -> Entries:
    """Return the entries ``first`` to ``end`` (excluded) of one consume queue; zeros for missing ones."""
    found: Entries = np.zeros(end - first, dtype=ENTRY_DTYPE)
    for file in files:
        low, high = max(first, file.first), min(end, file.first + file.count)
        if low >= high:
            continue
        try:
            source = open_file(file.path)
        except FileNotFoundError:  # dropped by retention
            continue
        octets = source.pread((high - low) * layout.ENTRY_BYTES, (low - file.first) * layout.ENTRY_BYTES)
        source.close()
        read = np.frombuffer(octets, dtype=ENTRY_DTYPE)
        found[low - first : low - first + len(read)] = read
    return found


def _entries_between(
    source: StoreFile, file: EntryFile, start: tuple[int, int], stop: tuple[int, int]
) -> tuple[int, Entries]:
    """start, stop: log offset and store time, neither of which decreases from entry to entry."""

    def is_begun(index: int) -> bool:
        offset, time_ms = place_at(source, index)
        return offset >= start[0] and time_ms >= start[1]

    def is_over(index: int) -> bool:
        offset, time_ms = place_at(source, index)
        return offset >= stop[0] or time_ms >= stop[1]

    low = bisect_left(range(file.count), True, key=is_begun)
    high = bisect_left(range(file.count), True, lo=low, key=is_over)
    octets = source.pread((high - low) * layout.ENTRY_BYTES, low * layout.ENTRY_BYTES)
    return low, np.frombuffer(octets, dtype=ENTRY_DTYPE)


def place_at(source: StoreFile, index: int) -> tuple[int, int]:
    """Return log offset and store time of the first entry from ``index`` on that names a message.

    Offset 0 is the first snapshot's: an entry with 0 marks a message that was lost to corruption.
    """
    entry = np.frombuffer(source.pread(layout.ENTRY_BYTES, index * layout.ENTRY_BYTES), dtype=ENTRY_DTYPE)
    if len(entry) and entry["offset"][0]:
        return int(entry["offset"][0]), int(entry["store_time"][0])
    while octets := source.pread(EMPTY_ENTRIES * layout.ENTRY_BYTES, index * layout.ENTRY_BYTES):
        entries = np.frombuffer(octets, dtype=ENTRY_DTYPE, count=len(octets) // layout.ENTRY_BYTES)
        named = np.flatnonzero(entries["offset"])
        if len(named):
            return int(entries["offset"][named[0]]), int(entries["store_time"][named[0]])
        index += EMPTY_ENTRIES
    return PAST_ALL, PAST_ALL


def batches(offsets: Int64s, sizes: Int64s, rows: int, most_bytes: int = BATCH_BYTES) -> Iterator[slice]:
    """Cut ascending records into batches of at most ``rows`` records and ``most_bytes``, unless one is larger."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(offsets):
        taken = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, taken + most_bytes, side="right"))
        last = max(first + 1, min(last, first + rows))
        yield slice(first, last)
        first = last


def read_block(
    segment: SegmentFile, offsets: Int64s, sizes: Int64s, may_end: bool = False, gap_bytes: int = GAP_BYTES
) -> tuple[Block, Int64s]:
    """Read records of ``segment``, near ones in one system call; return them and their offsets.

    Records that retention removed from a sparse segment are left out.
    may_end: the file may be too short; missing octets are zeros.  gap_bytes: how far apart near ones are.
    Raises: RangeGone if the file is gone, StoreCorrupt if it ends inside a record.
    """
    file = open_segment(segment)
    try:
        if file.runs is None:
            positions = offsets + (layout.SEGMENT_HEADER_BYTES - segment.base)
        else:
            is_there, positions = _positions(file.runs, offsets)
            offsets, positions, sizes = offsets[is_there], positions[is_there], sizes[is_there]
        return _read_at(file.file, segment, positions, sizes, may_end, gap_bytes), offsets
    finally:
        file.close()


def present(segment: SegmentFile, offsets: Int64s) -> Flags:
    """Return which records of ``segment`` retention has left.  Raises: RangeGone if the file is gone."""
    file = open_segment(segment)
    try:
        return np.ones(len(offsets), dtype=np.bool_) if file.runs is None else _positions(file.runs, offsets)[0]
    finally:
        file.close()


def _positions(runs: Runs, offsets: Int64s) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Int64s]:
    """Return the present offsets, and the position of each in the file."""
    firsts, starts, ends = (
        np.frombuffer(column, dtype=np.uint64).astype(np.int64) for column in (runs.offsets, runs.positions, runs.ends)
    )
    run = np.maximum(np.searchsorted(firsts, offsets, side="right") - 1, 0)
    is_there = (offsets >= firsts[run]) & (offsets < ends[run])
    return is_there, starts[run] + offsets - firsts[run]


def _read_at(
    source: StoreFile, segment: SegmentFile, positions: Int64s, sizes: Int64s, may_end: bool, gap_bytes: int
) -> Block:
    if not len(positions):
        return Block(np.empty(0, dtype=np.uint8), positions, sizes)
    ends = (positions + sizes + 7) & ~7
    breaks = np.flatnonzero(positions[1:] - ends[:-1] > max(gap_bytes, source.gap_bytes)) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(positions)]]) - 1
    read_starts, read_ends = positions[firsts], ends[lasts]
    places = np.concatenate([[0], np.cumsum(read_ends - read_starts)])
    octets = (np.zeros if may_end else np.empty)(int(places[-1]), dtype=np.uint8)
    view = memoryview(octets.data)
    for start, place, end in zip(read_starts.tolist(), places.tolist(), places[1:].tolist(), strict=False):
        _read_into(source, segment, view[place:end], start, may_end)
    reads = np.repeat(np.arange(len(firsts)), lasts - firsts + 1)
    return Block(octets, positions - read_starts[reads] + places[reads], sizes)


def _read_into(source: StoreFile, segment: SegmentFile, target: memoryview, position: int, may_end: bool) -> None:
    while len(target):
        count = source.pread_into(target, position)
        if count == 0:
            if may_end or len(target) < layout.ALIGNMENT:  # the padding of the last record may be missing
                return
            raise StoreCorrupt(f"{segment.path.name} ends at position {position}, inside a record")
        target = target[count:]
        position += count


def check_block(block: Block, segment: SegmentFile, offsets: Int64s, record_type: int | Int64s, verify: bool) -> None:
    """Raise StoreCorrupt unless every record matches its entry; with ``verify`` also its checksum."""
    wrong = misplaced(block, offsets, record_type)
    if np.any(wrong):
        raise StoreCorrupt(
            f"{segment.path.name}: no such record at log offset {offsets[int(np.flatnonzero(wrong)[0])]} "
            f"as its consume queue says"
        )
    failing = np.flatnonzero(failing_checksums(block)) if verify else np.empty(0, dtype=np.int64)
    if len(failing):
        raise StoreCorrupt(f"{segment.path.name}: record at log offset {offsets[int(failing[0])]} fails its checksum")


def misplaced(block: Block, offsets: Int64s, record_type: int | Int64s) -> Flags:
    """Return which records differ from their entries.  record_type: of all, or of each."""
    found: Flags = (block.i64(16) != offsets) | (block.u32(0) != block.sizes) | (block.u8(8) != record_type)
    return found


def failing_checksums(block: Block) -> Flags:
    """Return which records fail their checksum."""
    view = memoryview(block.octets.data)
    records = zip(block.positions.tolist(), block.sizes.tolist(), block.u32(4).tolist(), strict=True)
    return np.array([crc32c(view[at + 8 : at + size]) != crc for at, size, crc in records], dtype=np.bool_)


def chosen(block: Block, is_chosen: Flags) -> Block:
    """Return a block with some of the records."""
    return Block(block.octets, block.positions[is_chosen], block.sizes[is_chosen])


def without(block: Block, is_lost: Flags) -> Block:
    """Return a block with the other records."""
    return chosen(block, ~is_lost)


def block_of(records: list[bytes]) -> Block:
    """Return records that were read one by one as a block."""
    sizes = np.array([len(octets) for octets in records], dtype=np.int64)
    padded = [octets.ljust(layout.padded(len(octets)), b"\0") for octets in records]
    ends = np.cumsum([len(octets) for octets in padded], dtype=np.int64)
    positions = np.concatenate([[0], ends[:-1]]).astype(np.int64) if padded else ends
    return Block(np.frombuffer(b"".join(padded), dtype=np.uint8), positions, sizes)
