"""Finds messages in the log by the id that their sender gave them, newest first, without reading all of it.

No index has these ids.  So windows of the log are searched for the octets of the id; only where they are, its
records are looked at.  A call ends after SEARCH_BYTES_MAX and names the log offset where the next one goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.format.record_cursor import NO_CHECKSUMS, RecordCursor, find_whole
from engine.store.read.found_message import NO_END
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import OpenSegment, SegmentFile, open_segment
from engine.values.errors import DATA_FAULTS, RangeGone
from engine.values.sender_ids import SenderIds

SEARCH_BYTES_MAX: Final = 512 << 20  # of the log that one call reads
FOUND_MAX: Final = 10  # messages
WINDOW_BYTES: Final = 4 << 20
HEAD_BYTES: Final = 1 << 20  # of a record, in which the id is
EXAMINED_BYTES: Final = 4096  # of the limit, for a record that is looked at: decoding it takes as long as reading these


@dataclass(frozen=True, slots=True)
class Searched:
    """places: log offsets of the messages found, the newest first.

    from_offset: the log was searched from here, to_offset: up to here.  is_whole: nothing of the log is below.
    """

    places: list[int]
    from_offset: int
    to_offset: int
    is_whole: bool


class SenderIdSearch:
    """One search.  is_cancelled: asked between windows; the search then ends where it is."""

    __slots__ = ("_reader", "_sender_id", "_readers", "_octets", "_is_cancelled", "_left_bytes", "_places")

    def __init__(
        self,
        reader: StoreReader,
        sender_id: str,
        readers: Mapping[int, SenderIds],
        is_cancelled: Callable[[], bool],
        most_bytes: int = SEARCH_BYTES_MAX,
    ) -> None:
        self._reader = reader
        self._sender_id = sender_id
        self._readers = readers
        self._octets = list(dict.fromkeys(one for each in readers.values() for one in each.octets(sender_id)))
        self._is_cancelled = is_cancelled
        self._left_bytes = most_bytes
        self._places: list[int] = []

    def run(self, before: int = NO_END) -> Searched:
        """Search the log below the offset ``before``.  Raises: StoreCorrupt if a file is missing."""
        first = self._reader.first_offset
        stop = at = max(first, min(before, self._reader.end().offset))
        for segment in reversed(self._reader.segments):
            if segment.base >= at or at <= first:
                continue
            try:
                file = open_segment(segment)
            except RangeGone:  # dropped by retention meanwhile
                continue
            try:
                for place in self._search(segment, file, max(segment.base, first), min(segment.limit, at)):
                    at = place
                    if self._left_bytes <= 0 or len(self._places) >= FOUND_MAX or self._is_cancelled():
                        return Searched(self._places[:FOUND_MAX], at, stop, at <= first)
            finally:
                file.close()
        return Searched(self._places, first, stop, True)

    def has(self, record: Record) -> bool:
        """Say whether a message has the id."""
        reader = self._readers.get(record.encoding)
        try:
            return reader is not None and reader.has(record.message().headers(), self._sender_id)
        except DATA_FAULTS:
            return False

    def _search(self, segment: SegmentFile, file: OpenSegment, start: int, stop: int) -> Iterator[int]:
        """Search a segment from its end, and yield how far it has come after each window."""
        if file.runs is not None:
            self._examine(file, self._sparse(file, start, stop, segment.limit))
            yield start
            return
        longest = max(map(len, self._octets), default=0)
        while stop > start:
            window = max(start, stop - WINDOW_BYTES)
            octets = file.pread(min(stop + longest, segment.limit) - window, window)
            hits = sorted({at for one in self._octets for at in _all_of(one, octets, stop - window)})
            self._left_bytes -= stop - window
            if hits:
                begin = max(segment.base, window - HEAD_BYTES)
                hits = [window + at for at in hits]
                self._examine(file, self._around(file, begin, hits, segment.limit))
            stop = window
            yield stop

    def _around(self, file: OpenSegment, start: int, hits: list[int], limit: int) -> list[int]:
        """Return the log offsets of the messages that contain one of the places ``hits``."""
        return [
            message.offset
            for message in _messages(file, start, hits[-1] + 1, limit)
            if (place := bisect_left(hits, message.offset)) < len(hits) and hits[place] < message.end
        ]

    def _sparse(self, file: OpenSegment, start: int, stop: int, limit: int) -> list[int]:
        """Return the same for a thinned segment, of which little is left."""
        found: list[int] = []
        for message in _messages(file, start, stop, limit):
            self._left_bytes -= message.size
            piece, at = message.piece.octets, message.at
            if any(piece.find(one, at, at + message.size) >= 0 for one in self._octets):
                found.append(message.offset)
        return found

    def _examine(self, file: OpenSegment, offsets: list[int]) -> None:
        """Keep the messages at these offsets that have the id."""
        for offset in reversed(offsets):
            self._left_bytes -= EXAMINED_BYTES
            record = file.record(offset)
            if record is not None and self.has(record) and offset not in self._places:
                self._places.append(offset)


def _all_of(wanted: bytes, octets: bytes, stop: int) -> Iterator[int]:
    """Yield where ``wanted`` begins in ``octets`` below ``stop``."""
    at = octets.find(wanted)
    while 0 <= at < stop:
        yield at
        at = octets.find(wanted, at + 1)


def _messages(file: OpenSegment, start: int, stop: int, limit: int) -> Iterator[RecordCursor]:
    """Yield a cursor at each message that begins from ``start`` on, which may be within a record."""
    while start < stop:
        start = find_whole(file, start, stop, limit)
        cursor = RecordCursor(file, start, stop, limit, WINDOW_BYTES, NO_CHECKSUMS)
        while start < stop and cursor.advance():
            if cursor.type == layout.MESSAGE:
                yield cursor
        if not cursor.flaw:
            return
        start = cursor.offset + layout.ALIGNMENT  # damaged: go on behind it
