"""Full segments made anew, as one sparse segment, with what is still needed of them: a worker's part of compaction.

What goes are messages that nobody needs, settlements and failed attempts that name only such, and the commits of
transactions of which nothing is left.  Everything else stays at its log offset: the first snapshot, for the log from
any segment on must be enough; destinations, subscriptions, consumers and what else is no message, for readers.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.sparse_runs import Runs
from engine.store.log.segment import (
    SPARSE_SUFFIX,
    SUFFIX,
    Segment,
    pack_header,
    pack_seal,
    read_runs,
    segment_name,
)
from engine.values.errors import StoreCorrupt
from engine.values.message import IN_TRANSACTION

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES
RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
UNPACK_HEAD: Final = Struct("<IIBxHIQQ").unpack_from  # size, crc, type, flags, destination, offset, sequence
UNPACK_PLACE: Final = Struct("<B19xQ").unpack_from  # of a message: priority, queue offset
PLACE_AT: Final = 52
RANGES_AT: Final = RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES


class Kept:
    """The entries ``first`` to ``end`` (excluded) of one consume queue; bit n of ``bits`` says that first + n stays."""

    __slots__ = ("first", "end", "bits")

    def __init__(self, first: int, end: int, bits: int) -> None:
        self.first = first
        self.end = end
        self.bits = bits


class Choice:
    """What is to stay of one segment.

    lanes: by lane, those that have entries in it.  kept_from: by lane, its first entry that is anywhere in the log.
    topics: of each durable subscription, its topic.
    """

    __slots__ = ("lanes", "kept_from", "topics")

    def __init__(self, kept_from: dict[int, int], topics: dict[int, int]) -> None:
        self.lanes: dict[int, Kept] = {}
        self.kept_from = kept_from
        self.topics = topics

    def keeps_message(self, destination_id: int, priority: int, entry: int) -> bool:
        """Return whether a message stays."""
        lane = self.lanes.get((destination_id << layout.LANE_SHIFT) | priority)
        return lane is None or not lane.first <= entry < lane.end or bool(lane.bits >> (entry - lane.first) & 1)

    def keeps_ranges(self, number: int, ranges: bytes) -> bool:
        """Return whether a settlement stays, or failed attempts: while any message that they name is there."""
        owner = self.topics.get(number, number)
        for first, count, priority, _, _ in layout.RANGE.iter_unpack(ranges):
            key = (owner << layout.LANE_SHIFT) | priority
            first, end = max(first, self.kept_from.get(key, 0)), first + count
            lane = self.lanes.get(key)
            if first >= end:
                continue
            if lane is None or first < lane.first or end > lane.end:
                return True
            if lane.bits >> (first - lane.first) & ((1 << (end - first)) - 1):
                return True
        return False


class Thinning:
    """Segments on their way to one sparse form, in ``step``s; nobody sees the new file before ``put_in_place``.

    It takes the name of the first of them; files of the others are left over then.  The first one opens with a
    snapshot; the others continue it after a failed sync, or were never used, or are empty and sparse like itself.
    limits: where the records of each end at the latest.  next_sequence: of the record after them.
    limit_bytes: the new file is not worth it if it gets larger.
    kept_bytes, message_count: of the new file so far.  removed: numbers of destinations of which something goes.
    """

    __slots__ = (
        "segments",
        "kept_bytes",
        "message_count",
        "removed",
        "is_read",
        "is_worth_it",
        "_files",
        "_choice",
        "_limits",
        "_limit_bytes",
        "_path",
        "_place",
        "_source",
        "_source_runs",
        "_run",
        "_offset",
        "_target",
        "_runs",
        "_next_sequence",
        "_sequence",
        "_is_gapless",
        "_keeps_commit",
    )

    def __init__(
        self,
        files: Files,
        segments: list[Segment],
        limits: list[int],
        choice: Choice,
        limit_bytes: int,
        next_sequence: int,
    ) -> None:
        self.segments = segments
        self.kept_bytes = 0
        self.message_count = 0
        self.removed: set[int] = set()
        self.is_read = False
        self.is_worth_it = True
        self._files = files
        self._choice = choice
        self._limits = limits
        self._limit_bytes = limit_bytes
        self._path = f"{segments[0].directory}/{segment_name(segments[0].base)}"
        self._place = -1  # of the segment that is read
        self._source: File | None = None
        self._source_runs = Runs()
        self._run = 0
        self._offset = segments[0].base
        self._target: File | None = None
        self._runs = Runs()
        self._next_sequence = next_sequence
        self._sequence = 0
        self._is_gapless = not any(segment.is_sparse for segment in segments)
        self._keeps_commit = False

    @property
    def segment(self) -> Segment:
        """The one that the others become a part of."""
        return self.segments[0]

    def step(self, count: int) -> int:
        """Go through about ``count`` octets more; return how many were read.

        Raises: OSError, StoreCorrupt.
        """
        if self._target is None:
            self._target = self._files.create(self._path + SPARSE_SUFFIX)
        while self._run == len(self._source_runs.offsets):
            if self._place + 1 == len(self.segments):
                self._check_end()
                self.is_read = True
                return 0
            self._open_next()
        source, runs = self._source, self._source_runs
        assert source is not None
        segment = self.segments[self._place]
        end = runs.ends[self._run]
        position = runs.positions[self._run] + self._offset - runs.offsets[self._run]
        octets = read_fully(source, min(count, end - self._offset), position)
        size = layout.padded(int.from_bytes(octets[:4], "little"))
        if size > len(octets):
            octets = read_fully(source, min(size, end - self._offset), position)
        taken = self._take(octets)
        if not taken and segment.is_sparse:
            raise StoreCorrupt(f"{segment.path()}: no record at log offset {self._offset}, where its table says so")
        self._offset += taken
        if not taken or self._offset >= end:
            self._run += 1
            if self._run < len(runs.offsets):
                self._offset = runs.offsets[self._run]
        if self.kept_bytes > self._limit_bytes:
            self.is_worth_it = False
        return len(octets)

    def _check_end(self) -> None:
        # Zeros in the middle look like the end.
        if self._is_gapless and self._sequence != self._next_sequence:
            raise StoreCorrupt(
                f"{self._path}{SUFFIX}: the records end with sequence {self._sequence - 1}, the next segment "
                f"begins with {self._next_sequence}"
            )

    def _open_next(self) -> None:
        if self._source is not None:
            self._source.close()
        self._place += 1
        segment, limit = self.segments[self._place], self._limits[self._place]
        source = self._source = self._files.open_to_read(segment.path())
        runs = read_runs(source, segment.path())
        if runs is None:
            runs = Runs()
            if limit > segment.base:
                runs.add(segment.base, HEADER_BYTES, limit - segment.base)
        else:
            runs.cut(limit)
        self._source_runs = runs
        self._run = 0
        if runs.offsets:
            self._offset = runs.offsets[0]

    def _take(self, octets: bytes) -> int:
        """Copy what stays of whole records; return how many octets these are, 0 where the segment ends."""
        start = self._offset
        at = 0
        length = len(octets)
        kept: list[bytes] = []
        choice = self._choice
        view = memoryview(octets)
        while at + RECORD_HEADER_BYTES <= length:
            size, crc, record_type, flags, number, offset, sequence = UNPACK_HEAD(octets, at)
            if size == 0:
                break
            end = at + ((size + 7) & ~7)
            if offset != start + at or size < RECORD_HEADER_BYTES:
                raise StoreCorrupt(f"{self._source_path()}: no record at log offset {start + at}")
            if end > length:
                break
            # Also of what goes: damage may make a record look like one that nobody needs.
            if crc32c(view[at + 8 : at + size]) != crc:
                raise StoreCorrupt(f"{self._source_path()}: the record at log offset {offset} fails its checksum")
            if self._is_gapless and self._sequence and sequence != self._sequence:
                raise StoreCorrupt(
                    f"{self._source_path()}: the record at log offset {offset} has sequence {sequence}, "
                    f"{self._sequence} should follow"
                )
            if record_type == layout.MESSAGE:
                priority, entry = UNPACK_PLACE(octets, at + PLACE_AT)
                stays = choice.keeps_message(number, priority, entry)
                self.message_count += stays
                if not stays:
                    self.removed.add(number)
            elif record_type == layout.SETTLEMENT or record_type == layout.ATTEMPTS:
                stays = choice.keeps_ranges(number, octets[at + RANGES_AT : at + size])
            elif record_type == layout.COMMIT:
                stays = self._keeps_commit
                self._keeps_commit = False
            else:
                stays = record_type != layout.SNAPSHOT or offset == self.segment.base
            if stays:
                if flags & IN_TRANSACTION:
                    self._keeps_commit = True
                position = HEADER_BYTES + self.kept_bytes
                kept.append(octets[at:end])
                self._runs.add(offset, position, end - at)
                self.kept_bytes += end - at
            self._sequence = sequence + 1
            at = end
        if kept:
            target = self._target
            assert target is not None
            written = b"".join(kept)
            write_fully(target, written, HEADER_BYTES + self.kept_bytes - len(written))
        return at

    def _source_path(self) -> str:
        return self.segments[self._place].path()

    def finish(self, created_ms: int, store_id: str) -> None:
        """Write the table and the heads, and sync all of it.

        Raises: OSError.
        """
        target, segment, last = self._target, self.segments[0], self.segments[-1]
        assert target is not None and self.is_read
        table = self._runs.pack()
        table_position = HEADER_BYTES + self.kept_bytes
        write_fully(target, table, table_position)
        head = layout.SPARSE_HEAD.pack(table_position, len(self._runs.offsets), self.message_count, crc32c(table))
        heads = pack_header(layout.SPARSE, segment.base, last.limit() - segment.base, created_ms, store_id)
        heads = heads.ljust(layout.SEAL_POSITION, b"\0") + pack_seal(self._limits[-1], self._next_sequence)
        heads = heads.ljust(layout.SPARSE_HEAD_POSITION, b"\0") + head + layout.CRC.pack(crc32c(head))
        write_fully(target, heads.ljust(HEADER_BYTES, b"\0"), 0)
        target.fsync()
        self.close()

    def put_in_place(self) -> None:
        """Let the new file take the name.  Either file will do after a power cut, so that the order of names is enough.

        Raises: OSError; the segment may then be either.
        """
        self._files.rename(self._path + SPARSE_SUFFIX, self._path + SUFFIX)
        self._files.sync_directory(self.segment.directory)

    def take_over(self) -> None:
        """Say of the first segment what its file is now; on the thread that owns it."""
        segment = self.segment
        segment.is_sparse = True
        segment.capacity = self.segments[-1].limit() - segment.base
        segment.sealed_end = self._limits[-1]
        segment.next_sequence = self._next_sequence
        segment.message_count = self.message_count
        segment.kept_bytes = self.kept_bytes
        segment.edition += 1

    def close(self) -> None:
        """Let go of the files."""
        for file in (self._source, self._target):
            if file is not None:
                file.close()
        self._source = self._target = None

    def give_up(self) -> None:
        """Remove what there is of the new file; what cannot be removed now the next start removes."""
        self.close()
        try:
            self._files.unlink(self._path + SPARSE_SUFFIX)
        except OSError:
            pass
