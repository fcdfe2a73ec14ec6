"""One preallocated file of the commit log, and the map of all of them.  Layout: format/layout.py.

A segment is made under another name and renamed once its header is on the disk, so a file with a segment's name always
has a whole header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, read_file, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.file_heads import HEADS_BYTES, unpack_seal, unpack_segment_header, unpack_sparse_head
from engine.store.format.sparse_runs import Runs, unpack_runs
from engine.values.errors import StoreCorrupt
from engine.values.pieces import Pieces

SUFFIX: Final = ".log"
# Made in advance.  A power cut may undo its rename, so recovery treats it as a segment that was in use.
PREPARED_SUFFIX: Final = ".log.prepared"
# Made when it is needed, and renamed and synced before anything is written to it.
NEW_SUFFIX: Final = ".log.new"
# The remaining records of a segment; renamed over it once it is whole and synced.
SPARSE_SUFFIX: Final = ".log.sparse"

NOT_SEALED: Final = -1

# The first write to preallocated blocks makes a sync commit to the journal of the file system, too, which takes as long
# again (docs/decisions/0094).  So one small write in many zeros the blocks behind it.
SMALL_WRITE_BYTES: Final = 32 * 1024
ZEROS: Final = memoryview(bytes(256 * 1024))


def segment_name(base: int) -> str:
    """Return a segment's file name without its suffix."""
    return f"{base:020d}"


@dataclass(slots=True, eq=False)
class Segment:
    """One segment of the log.  ``file`` is None while nothing has to be written to it.

    is_on_disk: the file has its final name; is_name_durable: that survives a power cut.
    sealed_end: its records end here; usually NOT_SEALED: they end with its room.
    next_sequence: with a seal: sequence of the record that follows in the log.
    is_sparse: records were removed; the file's table locates the others, so ``position`` does not apply.
    message_count, kept_bytes: of a sparse one: remaining messages, and octets of all records.
    edition: increases when another file takes the same name, so that a reader opens the new one.
    filled: position in the file below which blocks were written since it was opened; behind it nothing but zeros is.
    """

    directory: str
    base: int
    capacity: int
    is_continuation: bool
    file: File | None = None
    is_on_disk: bool = False
    is_name_durable: bool = False
    sealed_end: int = NOT_SEALED
    next_sequence: int = 0
    is_sparse: bool = False
    message_count: int = 0
    kept_bytes: int = 0
    edition: int = 0
    filled: int = 0

    def path(self) -> str:
        """Return the path of the segment's file."""
        return f"{self.directory}/{segment_name(self.base)}{SUFFIX}"

    def position(self, offset: int) -> int:
        """Return where in the file log offset ``offset`` is."""
        return layout.SEGMENT_HEADER_BYTES + offset - self.base

    def opens_with_snapshot(self) -> bool:
        """Return whether the first record is a snapshot: not in a continuation or an unused segment."""
        return not self.is_continuation and self.sealed_end != self.base

    def limit(self) -> int:
        """Return the log offset just past the room that the segment has."""
        return self.base + self.capacity

    def disk_bytes(self) -> int:
        """Return the size of the file, without the table of a sparse one; 0 if there is none yet."""
        if not self.is_on_disk:
            return 0
        return layout.SEGMENT_HEADER_BYTES + (self.kept_bytes if self.is_sparse else self.capacity)

    def write(self, octets: bytes | memoryview, offset: int) -> None:
        """Write ``octets`` at log offset ``offset``."""
        file = self.file
        assert file is not None
        position = layout.SEGMENT_HEADER_BYTES + offset - self.base
        write_fully(file, octets, position)
        end = position + len(octets)
        if end > self.filled:
            self.filled = end
            size = layout.SEGMENT_HEADER_BYTES + self.capacity - end
            if len(octets) <= SMALL_WRITE_BYTES and size > 0:
                zeros = ZEROS[:size]
                write_fully(file, zeros, end)
                self.filled = end + len(zeros)

    def data_descriptor(self) -> int:
        """Return the number of the open file if an fdatasync is all that ``sync`` does now; else -1."""
        file = self.file
        return file.descriptor() if file is not None and self.is_name_durable else -1

    def sync(self, files: Files) -> None:
        """Return once what was written survives a power cut."""
        file = self.file
        if file is None:
            return  # closed meanwhile, as everything in it is durable
        file.fdatasync()
        if not self.is_name_durable:
            files.sync_directory(self.directory)
            self.is_name_durable = True

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def records_limit(segments: list[Segment], place: int) -> int:
    """Return an upper bound for the end of the records of the segment at ``place``, as a log offset."""
    segment = segments[place]
    limit = segment.limit()
    if segment.sealed_end != NOT_SEALED:
        limit = min(limit, segment.sealed_end)
    if place + 1 < len(segments):
        limit = min(limit, segments[place + 1].base)
    return limit


def is_left_over(before: Segment, segment: Segment) -> bool:
    """Return whether all of ``segment`` is in the sparse one before it, into which both were merged."""
    return before.is_sparse and segment.base < before.limit()


def make_segment_file(files: Files, path: str, segment: Segment, created_ms: int, store_id: str) -> File:
    """Make the file of ``segment`` under ``path`` with its header and its room; the file is synced, its name is not.

    On an error of the disk nothing is left behind.
    """
    file = files.create(path)
    try:
        file.preallocate(layout.SEGMENT_HEADER_BYTES + segment.capacity)
        flags = layout.CONTINUATION if segment.is_continuation else 0
        write_fully(file, pack_header(flags, segment.base, segment.capacity, created_ms, store_id), 0)
        file.fsync()
    except OSError:
        file.close()
        try:
            files.unlink(path)
        except OSError:
            pass  # the first error counts; the next attempt uses the same name
        raise
    return file


def pack_header(flags: int, base: int, capacity: int, created_ms: int, store_id: str) -> bytes:
    """Return the first octets of a segment file."""
    version = layout.SPARSE_VERSION if flags & layout.SPARSE else layout.FORMAT_VERSION
    octets = layout.SEGMENT_HEADER.pack(
        layout.SEGMENT_MAGIC, version, flags, base, capacity, created_ms, store_id.encode("ascii")
    )
    return octets + layout.CRC.pack(crc32c(octets))


def pack_seal(end: int, next_sequence: int) -> bytes:
    """Return the octets at SEAL_POSITION for a segment whose records end at ``end``."""
    octets = layout.SEAL.pack(end, next_sequence)
    return octets + layout.CRC.pack(crc32c(octets))


def seal(file: File, end: int, next_sequence: int) -> None:
    """Write a seal into a segment's header: its records end at ``end``; not synced."""
    write_fully(file, pack_seal(end, next_sequence), layout.SEAL_POSITION)


def read_runs(file: File, path: str) -> Runs | None:
    """Return the runs of a segment's file; None if it is not sparse.

    The open file counts: another one may take its name at any time.
    Raises: StoreCorrupt, OSError.
    """
    octets = read_fully(file, HEADS_BYTES, 0)
    unpack_segment_header(octets, path)
    head = unpack_sparse_head(octets, path)
    if head is None:
        return None
    return unpack_runs(read_fully(file, head.table_bytes, head.table_position), head, path)


def load_segment(files: Files, directory: str, name: str) -> tuple[Segment, str]:
    """Read the header of the segment file ``name``; return the segment, its file still closed, and the store's id.

    Raises: StoreCorrupt if the file is not a segment, or is damaged or of another version.
    """
    path = f"{directory}/{name}"
    octets = read_file(files, path, layout.SEGMENT_HEADER_BYTES)
    header = unpack_segment_header(octets, path)
    if len(octets) < layout.SEGMENT_HEADER_BYTES:
        raise StoreCorrupt(f"{path}, position {len(octets)}: the file ends inside its header")
    if not name.startswith(segment_name(header.base)):
        raise StoreCorrupt(f"{path}, position 16: the header says base {header.base}, the name of the file another one")
    segment = Segment(directory, header.base, header.capacity, header.is_continuation)
    segment.is_on_disk = segment.is_name_durable = True
    sparse = unpack_sparse_head(octets, path)
    if sparse is not None:
        segment.is_sparse = True
        segment.message_count = sparse.message_count
        segment.kept_bytes = sparse.table_position - layout.SEGMENT_HEADER_BYTES
    found = unpack_seal(octets, path)
    if found is not None:
        segment.sealed_end, segment.next_sequence = found.end, found.next_sequence
    elif header.is_sparse:
        raise StoreCorrupt(f"{path}, position {layout.SEAL_POSITION}: a sparse segment has a seal, this one has none")
    return segment, header.store_id


class Chunk:
    """The octets of a batch, or of its part in one segment, kept until they are durable.

    parts: one, unless it is a large transaction or has messages of more than PIECE_BYTES; their octets are not copied.
    end, next_sequence, store_time_ms: the log as it is just past the chunk.
    """

    __slots__ = ("segment", "offset", "parts", "end", "next_sequence", "store_time_ms", "_pieces", "_written")

    def __init__(
        self, segment: Segment, offset: int, parts: list[bytes], end: int, next_sequence: int, store_time_ms: int
    ) -> None:
        self.segment = segment
        self.offset = offset
        self.parts = parts
        self.end = end
        self.next_sequence = next_sequence
        self.store_time_ms = store_time_ms
        self._pieces: Pieces | None = None  # the first that is not written, once one is
        self._written = 0

    def write(self) -> None:
        """Write all of it.  Raises: OSError."""
        if len(self.parts) == 1:
            self.segment.write(self.parts[0], self.offset)
        else:
            while self.write_piece() < self.end:
                pass

    def write_piece(self) -> int:
        """Write the next piece of several parts; return the log offset up to which the chunk is written.

        Raises: OSError; the piece may be tried again.
        """
        parts = self.parts
        if self._pieces is None:
            self._pieces = Pieces()
        pieces = self._pieces
        place, within = pieces.place, pieces.within
        piece = pieces.take(parts)
        try:
            self.segment.write(piece, self.offset + self._written)
        except OSError:
            pieces.place, pieces.within = place, within
            raise
        self._written += len(piece)
        return self.end if pieces.place == len(parts) else self.offset + self._written

    def move(self, segment: Segment) -> None:
        """Write it from its beginning to another file."""
        self.segment = segment
        self._pieces = None
        self._written = 0


class LogMap:
    """The segments at one moment; ``limits``: upper bounds for the end of each one's records."""

    __slots__ = ("bases", "limits", "paths", "editions", "end")

    def __init__(self, segments: list[Segment]) -> None:
        self.bases = [segment.base for segment in segments]
        self.end = segments[-1].limit()
        self.limits = [records_limit(segments, place) for place in range(len(segments))]
        self.paths = [segment.path() for segment in segments]
        self.editions = [segment.edition for segment in segments]

    def next_base(self, place: int) -> int:
        """Return where the segment after ``place`` begins."""
        return self.bases[place + 1] if place + 1 < len(self.bases) else self.end
