"""One cursor over the records of a segment, for all parts that traverse the log.

It checks each record in one order: is there room for it, is all of it there, does its checksum match, is it
at its own log offset, does its sequence follow.  The caller decides what to do about a flaw:

    strict          raises an error with ``flaw``
    tail-tolerant   takes a flaw for the end of the records: nothing behind it was confirmed
    lenient         continues at the next whole record, ``find_whole``

Only pages of a backlog and the columns of an export parse records themselves, many in one call; a property test holds
them equal to this.  Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from engine.store.format import layout
from engine.store.format.checksum import crc32c
from engine.store.format.record import Record
from engine.store.format.sparse_runs import NOT_THERE, Runs

PIECE_BYTES: Final = 4 << 20  # of the log read at a time, unless a record is larger
ONE_RECORD_BYTES: Final = 4096  # of a single record, before its size is known
ANY_SEQUENCE: Final = -1
NO_CHECKSUMS: Final = 1 << 62  # above every log offset

RECORD_HEADER_BYTES: Final = layout.RECORD_HEADER_BYTES
UNPACK_HEADER: Final = layout.RECORD_HEADER.unpack_from
OWN_OFFSET_WORD: Final = 2  # of a record's header, in words of eight octets


class LogOctets(ABC):
    """The octets of one segment, by their log offsets.  runs: where they are if the segment is sparse."""

    __slots__ = ("runs",)

    def __init__(self, runs: Runs | None) -> None:
        self.runs = runs

    @abstractmethod
    def pread(self, size: int, offset: int) -> bytes:
        """Return ``size`` octets of the log from ``offset`` on; fewer at the end of the file or of a run."""


class Piece:
    """Octets of the log that were read together.  base: log offset of the first."""

    __slots__ = ("octets", "view", "base", "length")

    def __init__(self, octets: bytes, base: int) -> None:
        self.octets = octets
        self.view = memoryview(octets)
        self.base = base
        self.length = len(octets)


@dataclass(slots=True)
class Bounds:
    """Records begin below ``stop``, and none reaches past ``limit``."""

    stop: int
    limit: int


class RecordCursor:
    """Traverses the records that begin at ``start`` or later and below ``stop``; none of them reaches past ``limit``.

    The fields are those of the current record; ``piece.octets[at : at + size]`` is all of it.
    flaw: what is wrong at ``offset``, "" for nothing.  is_flaw_whole: its checksum matches, so a torn write does not
    explain it.  expected: sequence of the next record, ANY_SEQUENCE for any; is_open: it may be higher.
    """

    __slots__ = (
        "offset",
        "size",
        "type",
        "encoding",
        "flags",
        "destination_id",
        "sequence",
        "time_ms",
        "piece",
        "at",
        "end",
        "flaw",
        "is_flaw_whole",
        "expected",
        "is_open",
        "_source",
        "_bounds",
        "_run",
        "_piece_bytes",
        "_verify_from",
    )

    def __init__(
        self, source: LogOctets, start: int, stop: int, limit: int, piece_bytes: int = PIECE_BYTES, verify_from: int = 0
    ) -> None:
        self.offset = start
        self.size = 0
        self.type = 0
        self.encoding = 0
        self.flags = 0
        self.destination_id = 0
        self.sequence = 0
        self.time_ms = 0
        self.piece = Piece(b"", start)
        self.at = 0
        self.end = start  # of the record, with its padding
        self.flaw = ""
        self.is_flaw_whole = False
        self.expected = ANY_SEQUENCE
        self.is_open = False
        self._source = source
        self._bounds = Bounds(stop, limit)
        self._run = self._bounds if source.runs is None else Bounds(start, start)  # records that follow each other
        self._piece_bytes = piece_bytes
        self._verify_from = verify_from

    def advance(self) -> bool:
        """Move to the next record; return False at the end, or at a ``flaw``."""
        offset = self.end
        run = self._run
        if offset >= run.stop:
            if not self._begin_run(offset):
                return False
            offset = self.end
            run = self._run
        self.offset = offset
        piece = self.piece
        at = offset - piece.base
        if at + RECORD_HEADER_BYTES > piece.length:
            at = 0
            piece = self._read(offset, self._piece_bytes)
            if piece.length < RECORD_HEADER_BYTES:
                return self._end_short()
        size, crc, self.type, self.encoding, self.flags, self.destination_id, own, sequence, self.time_ms = (
            UNPACK_HEADER(piece.octets, at)
        )
        if size < RECORD_HEADER_BYTES or offset + size > run.limit:
            if size == 0:
                return self._end_zero()
            return self._refuse(f"a record of {size} octets, there is room for {run.limit - offset}")
        if at + size > piece.length:
            at = 0
            piece = self._read(offset, max(self._piece_bytes, size))
            if size > piece.length:
                return self._refuse(f"a record of {size} octets, the file ends after {piece.length}")
        if offset >= self._verify_from and crc32c(piece.view[at + 8 : at + size]) != crc:
            return self._refuse("the checksum of a record does not match")
        if own != offset:
            return self._refuse(f"a record whose header says log offset {own}", True)
        expected = self.expected
        if expected != ANY_SEQUENCE:
            if sequence != expected and not (self.is_open and sequence > expected):
                return self._refuse(f"a record with sequence {sequence}, {expected} should follow")
            self.expected = sequence + 1
            self.is_open = False
        self.sequence = sequence
        self.size = size
        self.at = at
        self.end = offset + ((size + 7) & ~7)
        return True

    def is_run_over(self) -> bool:
        """Return whether records were taken out behind this one, or it is the last one up to ``stop``."""
        return self.end >= self._run.stop

    def record(self) -> Record:
        """Return the current record; it keeps the piece of the log that was read with it in memory."""
        data = self.piece.view[self.at : self.at + self.size]
        return self._record(data)

    def head(self) -> Record:
        """Return the same without a message's parts, for callers that keep many."""
        size = min(self.size, layout.MESSAGE_HEAD_BYTES) if self.type == layout.MESSAGE else self.size
        return self._record(memoryview(self.piece.octets[self.at : self.at + size]))

    def _record(self, data: memoryview) -> Record:
        return Record(
            self.offset,
            self.size,
            self.type,
            self.encoding,
            self.flags,
            self.destination_id,
            self.sequence,
            self.time_ms,
            data,
            self._source.runs is None,
        )

    def _begin_run(self, offset: int) -> bool:
        """Continue where the next run of a sparse segment begins."""
        runs = self._source.runs
        if runs is None:
            return False
        start = runs.next_from(offset)
        if start == NOT_THERE or start >= self._bounds.stop:
            return False
        end = runs.end_of(start)
        self._run = Bounds(min(end, self._bounds.stop), min(end, self._bounds.limit))
        self.is_open = True
        self.end = start
        return True

    def _read(self, offset: int, size: int) -> Piece:
        self.piece = Piece(self._source.pread(min(size, self._run.limit - offset), offset), offset)
        return self.piece

    def _end_short(self) -> bool:
        """End where too few octets for a header are left: they are not a record, and should be zeros."""
        piece = self.piece
        size = int.from_bytes(piece.octets[:4], "little") if piece.length >= layout.ALIGNMENT else 0
        if size == 0:
            return self._end_zero()
        room = self._run.limit - self.offset
        if size < RECORD_HEADER_BYTES or size > room:
            return self._refuse(f"a record of {size} octets, there is room for {room}")
        return self._refuse(f"a record of {size} octets, the file ends after {piece.length}")

    def _end_zero(self) -> bool:
        if self._source.runs is not None:
            return self._refuse("no record at a place listed in the segment's table")
        return False

    def _refuse(self, flaw: str, is_whole: bool = False) -> bool:
        self.flaw = flaw
        self.is_flaw_whole = is_whole
        return False


def record_at(source: LogOctets, offset: int, limit: int) -> Record | None:
    """Return the whole record that begins at ``offset``, None if none does."""
    cursor = RecordCursor(source, offset, offset + 1, limit, ONE_RECORD_BYTES)
    return cursor.record() if cursor.advance() and cursor.offset == offset else None


def find_whole(source: LogOctets, start: int, stop: int, limit: int) -> int:
    """Return where the first whole record at ``start`` or later begins, ``stop`` if there is none below it.

    Each record names its own log offset and has a checksum, so it is found behind damage.
    """
    runs = source.runs
    if runs is not None:
        offset = runs.next_from(start)
        while NOT_THERE < offset < stop and record_at(source, offset, limit) is None:
            offset = runs.next_from(offset + layout.ALIGNMENT)
        return offset if NOT_THERE < offset < stop else stop
    offset = start
    while offset < stop:
        octets = source.pread(min(PIECE_BYTES, limit - offset), offset)
        octets = octets[: len(octets) & ~7]
        if len(octets) < RECORD_HEADER_BYTES:
            return stop
        if octets != bytes(len(octets)):
            expected = offset
            for word in memoryview(octets).cast("Q")[OWN_OFFSET_WORD:]:
                if word == expected:
                    if expected >= stop:
                        return stop
                    if record_at(source, expected, limit) is not None:
                        return expected
                expected += layout.ALIGNMENT
        offset += len(octets) - OWN_OFFSET_WORD * layout.ALIGNMENT
    return stop
