"""The growing files of a key index: each covers the messages of a part of the log, and the next one continues it.

A worker extends them up to a log offset.  Offsets of messages that may have keys are recorded since the start; the
older part of the log is scanned.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from engine.store.disk.files import Files, read_fully
from engine.store.format import layout
from engine.store.format.record import MessageParts
from engine.store.format.record_cursor import NO_CHECKSUMS, RecordCursor
from engine.store.format.sparse_runs import NOT_THERE
from engine.store.index.index_file import (
    HEADER_BYTES,
    INDEX_DIRECTORY,
    IndexHeader,
    IndexWriter,
    file_begin,
    unpack_header,
)
from engine.store.log.segment import LogMap
from engine.store.log.segment_octets import SegmentOctets, open_path
from engine.values.message_keys import Keys

READ_BYTES: Final = 64 << 10  # of the log at a time, unless a record is larger; the engine's thread runs in between
JOB_BYTES: Final = 16 << 20  # of the log in one job: so that other work of the worker gets its turn
JOB_RECORDS: Final = 20_000  # messages with keys in one job: as above
HEAD_READ_BYTES: Final = 1024  # of a message: usually includes all headers

MESSAGE_HEAD_BYTES: Final = layout.MESSAGE_HEAD_BYTES
MESSAGE: Final = layout.MESSAGE
UNPACK_HEADER: Final = layout.RECORD_HEADER.unpack_from


class IndexDirectory:
    """The files of one store's index, for one thread at a time.

    end: log offset up to which messages are indexed, -1 before ``open``.
    """

    __slots__ = (
        "end",
        "_files",
        "_directory",
        "_store_id",
        "_slots",
        "_room",
        "_keys",
        "_writer",
        "_noted",
        "_octets",
        "_file_path",
        "_file_edition",
    )

    def __init__(self, files: Files, directory: str, store_id: str, slots: int, room: int, keys: Keys) -> None:
        self.end = -1
        self._files = files
        self._directory = f"{directory}/{INDEX_DIRECTORY}"
        self._store_id = store_id
        self._slots = slots
        self._room = room
        self._keys = keys
        self._writer: IndexWriter | None = None
        self._octets: SegmentOctets | None = None  # of the segment that was read last
        self._file_path = ""
        self._file_edition = 0
        self._noted = -1  # log offset of the last message that was added: a second attempt skips it

    def open(self, first: int, durable: int) -> None:
        """Find the existing files; remove those that cannot be trusted, and all that follow a missing one.

        first: oldest log offset that is kept.
        """
        files = self._files
        files.make_directory(self._directory)
        end = -1
        last: tuple[str, IndexHeader] | None = None
        for name in files.list_directory(self._directory):
            begin = file_begin(name)
            if begin < 0:
                continue
            path = f"{self._directory}/{name}"
            header = self._header(path)
            is_next = begin <= first if last is None else begin == end and last[1].is_sealed
            if header is None or not is_next or not header.is_at_rest or header.end > durable:
                files.unlink(path)
            elif header.end <= first:
                files.unlink(path)  # covers only what retention has dropped
            else:
                end, last = header.end, (path, header)
        if last is not None and not last[1].is_sealed:
            self._writer = IndexWriter.reopen(files, *last)
        self.end = max(end, first)

    def _header(self, path: str) -> IndexHeader | None:
        file = self._files.open_to_read(path)
        try:
            size = file.size()
            header = unpack_header(read_fully(file, HEADER_BYTES, 0))
        finally:
            file.close()
        if header is None or header.store_id != self._store_id or header.slots != self._slots:
            return None
        return header if header.begin == file_begin(path.rpartition("/")[2]) and size >= header.file_bytes() else None

    def follow(self, log: LogMap, stop: int, known_from: int, noted: list[int]) -> None:
        """Add the keys of messages up to log offset ``stop``, which ends a record, or of some JOB_BYTES.

        noted: every message from log offset ``known_from`` on that may have keys; the older part of the log is scanned.
        """
        if self._writer is None and self.end < stop:
            self._begin_file(log.bases[0])
        self._walk(log, min(stop, known_from))
        if self.end >= known_from:
            self._take_noted(log, stop, noted)
        if self._writer is not None:
            self._writer.end = self.end
            self._writer.save()

    def _take_noted(self, log: LogMap, stop: int, noted: list[int]) -> None:
        start = bisect_left(noted, self.end)
        wanted = noted[start : bisect_left(noted, stop)]
        for offset in wanted[:JOB_RECORDS]:
            place = bisect_right(log.bases, offset) - 1
            if place < 0:  # retention was faster
                self._leave_out(log.bases[0])
                continue
            if self._writer is None:
                self._begin_file(log.bases[0])
            self._take_one(log, place, offset)
        self.end = stop if len(wanted) <= JOB_RECORDS else max(self.end, wanted[JOB_RECORDS])

    def _take_one(self, log: LogMap, place: int, offset: int) -> None:
        path, edition = log.paths[place], log.editions[place]
        octets = self._octets
        if octets is None or self._file_path != path or self._file_edition != edition:
            self._close_file()
            octets = self._octets = open_path(self._files, path, log.bases[place])
            self._file_path, self._file_edition = path, edition
        if octets.position(offset) == NOT_THERE:
            return
        # Not all of the record: its checksum is verified by whoever looks up the key.
        head = octets.pread(HEAD_READ_BYTES, offset).ljust(MESSAGE_HEAD_BYTES, b"\0")
        _, _, _, encoding, _, _, own, _, time_ms = UNPACK_HEADER(head)
        if own != offset:
            # It is damaged.  A query for a key then scans this part of the log itself, and finds the damage.
            self.end = offset
            self._leave_out(offset + layout.ALIGNMENT)
            return
        message = MessageParts(memoryview(head))
        end = MESSAGE_HEAD_BYTES + message.annotation_bytes + message.header_bytes
        if end > len(head):
            message = MessageParts(memoryview(octets.pread(end, offset)))
        keys = self._keys.of(encoding, message.headers())
        if keys:
            self._add(offset, time_ms, keys, log.bases[0])

    def _close_file(self) -> None:
        if self._octets is not None:
            self._octets.file.close()
            self._octets = None

    def _walk(self, log: LogMap, stop: int) -> None:
        enough = self.end + JOB_BYTES
        while self.end < min(stop, enough):
            place = bisect_right(log.bases, self.end) - 1
            if place < 0:  # retention was faster
                self._leave_out(log.bases[0])
            elif self.end >= log.limits[place]:
                self.end = min(log.next_base(place), stop)
            elif self._writer is None:
                self._begin_file(log.bases[0])
            else:
                self._follow_segment(log, place, min(log.limits[place], stop), enough)

    def _follow_segment(self, log: LogMap, place: int, limit: int, enough: int) -> None:
        """Add the keys of the records up to ``limit``, or up to ``enough`` and slightly further."""
        octets = open_path(self._files, log.paths[place], log.bases[place])
        try:
            cursor = RecordCursor(octets, self.end, limit, limit, READ_BYTES, NO_CHECKSUMS)
            while self.end < enough and cursor.advance():
                if cursor.type == MESSAGE:
                    message = cursor.record().message()
                    start = cursor.at + MESSAGE_HEAD_BYTES + message.annotation_bytes
                    end = start + message.header_bytes
                    if self._keys.may_be_in(cursor.encoding, cursor.piece.octets, start, end):
                        keys = self._keys.of(cursor.encoding, cursor.piece.octets[start:end])
                        if keys:
                            self._add(cursor.offset, cursor.time_ms, keys, log.bases[0])
                self.end = cursor.end
        finally:
            octets.file.close()
        if cursor.flaw:
            self._leave_out(log.next_base(place))
        elif self.end < enough:
            self.end = limit

    def _add(self, offset: int, time_ms: int, keys: list[str], first: int) -> None:
        if offset <= self._noted:
            return
        writer = self._writer
        assert writer is not None, "a file is begun before anything is read"
        if writer.is_full():
            self.end = offset
            self._seal()
            writer = self._begin_file(first)
        for key in keys:
            writer.add(key, offset, time_ms)
        self._noted = offset

    def _leave_out(self, offset: int) -> None:
        """Continue at ``offset``; what is between is in no file."""
        self._seal()
        self.end = offset

    def _seal(self) -> None:
        writer = self._writer
        if writer is not None:
            writer.end = self.end
            try:
                writer.rest(is_sealed=True)
            except OSError:
                self._discard(writer)
                raise
            writer.close()
            self._writer = None

    def _discard(self, writer: IndexWriter) -> None:
        """Discard a file to make it again: data of a failed sync may be lost even if the next sync succeeds."""
        writer.close()
        self._writer = None
        self.end = writer.begin
        self._noted = writer.begin - 1
        self._files.unlink(writer.path)

    def _begin_file(self, first: int) -> IndexWriter:
        self._drop_below(first)
        self._writer = IndexWriter.create(
            self._files, self._directory, self.end, self._slots, self._room, self._store_id
        )
        return self._writer

    def _drop_below(self, first: int) -> None:
        """Remove the files that cover only what retention has dropped."""
        names = [name for name in self._files.list_directory(self._directory) if file_begin(name) >= 0]
        for name, following in pairwise(names):
            if file_begin(following) <= first:
                self._files.unlink(f"{self._directory}/{name}")

    def begin_anew(self) -> None:
        """Remove every file; the index must then be opened again, and is empty."""
        self._close_file()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for name in self._files.list_directory(self._directory):
            if file_begin(name) >= 0:
                self._files.unlink(f"{self._directory}/{name}")
        self.end = -1
        self._noted = -1

    def close(self) -> None:
        """Bring everything to the disk, so that the next start continues from here."""
        self._close_file()
        writer = self._writer
        if writer is not None:
            try:
                writer.rest(is_sealed=False)
            finally:
                writer.close()
                self._writer = None
