"""Index files: from a key to the places in the log where messages with it may be.  Layout: format/layout.py.

A file covers a range of the log; the next one begins where it ends.  Entries of one slot are a chain, newest first.
Different keys may share a hash, and a file may name messages that are gone, so a query reads each message and compares
its keys.

Octets are written to a growing file in this order: entries, slots, header.  Another process may read it meanwhile:
entries behind the header's end are whole, but not all there are.  After a crash a growing file is not trusted.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crc32c import crc32c

from engine.store.disk.files import File, Files, read_fully, write_fully
from engine.store.format import layout
from engine.values.errors import StoreCorrupt

INDEX_DIRECTORY: Final = "index"
SUFFIX: Final = ".ix"

HEADER_BYTES: Final = layout.INDEX_HEADER_BYTES
ENTRY_BYTES: Final = layout.INDEX_ENTRY.size
PACK_ENTRY: Final = layout.INDEX_ENTRY.pack
UNPACK_ENTRY: Final = layout.INDEX_ENTRY.unpack


def hash_of(key: str) -> int:
    """Return the hash of a key in an entry."""
    return int(crc32c(key.encode("utf-8", "replace")))


def file_name(begin: int) -> str:
    """Return the name of the file that begins at a log offset."""
    return f"{begin:020d}{SUFFIX}"


def file_begin(name: str) -> int:
    """Return the log offset in a file's name, -1 for another file."""
    digits = name.removesuffix(SUFFIX)
    return int(digits) if digits != name and digits.isdigit() else -1


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The head of an index file; is_at_rest: it is whole on the disk and not being written."""

    is_at_rest: bool
    is_sealed: bool
    begin: int
    end: int
    first_ms: int
    last_ms: int
    slots: int
    room: int
    count: int
    store_id: str

    def pack(self) -> bytes:
        """Return the header's octets."""
        flags = (layout.INDEX_STOPPED if self.is_at_rest else 0) | (layout.INDEX_SEALED if self.is_sealed else 0)
        body = layout.INDEX_HEADER.pack(
            layout.INDEX_MAGIC,
            layout.FORMAT_VERSION,
            flags,
            self.begin,
            self.end,
            self.first_ms,
            self.last_ms,
            self.slots,
            self.room,
            self.count,
            0,
            self.store_id.encode("ascii"),
        )
        return (body + layout.CRC.pack(crc32c(body))).ljust(HEADER_BYTES, b"\0")

    def entries_at(self) -> int:
        """Return the position of the first entry."""
        return HEADER_BYTES + self.slots * layout.INDEX_SLOT_BYTES

    def file_bytes(self) -> int:
        """Return the length of a file with that many entries."""
        return self.entries_at() + self.count * ENTRY_BYTES


def unpack_header(octets: bytes) -> IndexHeader | None:
    """Return the header in the first octets of a file; None without a whole header of this version."""
    size = layout.INDEX_HEADER.size
    if len(octets) < size + layout.CRC.size or not octets.startswith(layout.INDEX_MAGIC):
        return None
    if layout.CRC.unpack_from(octets, size)[0] != crc32c(octets[:size]):
        return None
    _, version, flags, begin, end, first_ms, last_ms, slots, room, count, _, owner = layout.INDEX_HEADER.unpack_from(
        octets
    )
    if version != layout.FORMAT_VERSION or slots == 0:
        return None
    is_sealed = flags & layout.INDEX_SEALED != 0
    is_at_rest = is_sealed or flags & layout.INDEX_STOPPED != 0
    store_id = owner.rstrip(b"\0").decode("ascii", "replace")
    return IndexHeader(is_at_rest, is_sealed, begin, end, first_ms, last_ms, slots, room, count, store_id)


class IndexWriter:
    """The growing file.  ``add`` and ``end`` change memory only; ``save`` writes all of it to the file.

    begin, end: log offsets; the messages between them are in it.
    """

    __slots__ = (
        "begin",
        "end",
        "count",
        "room",
        "path",
        "_store_id",
        "_file",
        "_slots",
        "_entries",
        "_saved_count",
        "_first_ms",
        "_last_ms",
    )

    def __init__(self, path: str, file: File, begin: int, slots: int, room: int, store_id: str) -> None:
        self.path = path
        self.begin = begin
        self.end = begin
        self.count = 0
        self.room = room
        self._store_id = store_id
        self._file = file
        self._slots = array("I", bytes(slots * layout.INDEX_SLOT_BYTES))
        self._entries = bytearray()
        self._saved_count = 0
        self._first_ms = 0
        self._last_ms = 0

    @classmethod
    def create(cls, files: Files, directory: str, begin: int, slots: int, room: int, store_id: str) -> IndexWriter:
        """Make a new file."""
        path = f"{directory}/{file_name(begin)}"
        writer = cls(path, files.create(path), begin, slots, room, store_id)
        try:
            writer._file.truncate(writer._entries_at())
            writer.save()
        except OSError:
            writer.close()
            raise
        return writer

    @classmethod
    def reopen(cls, files: Files, path: str, header: IndexHeader) -> IndexWriter:
        """Continue a file that is at rest."""
        file = files.open(path)
        try:
            writer = cls(path, file, header.begin, header.slots, header.room, header.store_id)
            octets = read_fully(file, header.slots * layout.INDEX_SLOT_BYTES, HEADER_BYTES)
            writer._slots = array("I", octets)
            writer.end = header.end
            writer.count = writer._saved_count = header.count
            writer._first_ms = header.first_ms
            writer._last_ms = header.last_ms
            # From now on it changes: after a power cut it must not be taken for whole.
            write_fully(file, writer._header(False, False), 0)
            file.fdatasync()
        except OSError:
            file.close()
            raise
        return writer

    def add(self, key: str, offset: int, time_ms: int) -> None:
        """Add a message with a key; messages are added in order."""
        number = hash_of(key)
        slot = number % len(self._slots)
        self._entries += PACK_ENTRY(number, self._slots[slot], offset, time_ms)
        self.count += 1
        self._slots[slot] = self.count
        if self.count == 1:
            self._first_ms = time_ms
        self._last_ms = time_ms

    def _entries_at(self) -> int:
        return HEADER_BYTES + len(self._slots) * layout.INDEX_SLOT_BYTES

    def is_full(self) -> bool:
        """Say whether the next message must be added to the next file."""
        return self.count >= self.room

    def save(self) -> None:
        """Write what is new; if that fails, the next attempt writes it."""
        if self._entries:
            at = self._entries_at() + self._saved_count * ENTRY_BYTES
            write_fully(self._file, bytes(self._entries), at)
            write_fully(self._file, self._slots.tobytes(), HEADER_BYTES)
            self._saved_count = self.count
            self._entries = bytearray()
        write_fully(self._file, self._header(False, False), 0)

    def rest(self, is_sealed: bool) -> None:
        """Bring everything to the disk, and mark the header so."""
        self.save()
        self._file.fdatasync()
        write_fully(self._file, self._header(True, is_sealed), 0)
        self._file.fdatasync()

    def _header(self, is_at_rest: bool, is_sealed: bool) -> bytes:
        return IndexHeader(
            is_at_rest,
            is_sealed,
            self.begin,
            self.end,
            self._first_ms,
            self._last_ms,
            len(self._slots),
            self.room,
            self.count,
            self._store_id,
        ).pack()

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class IndexFile:
    """One file to look up keys in."""

    path: Path
    header: IndexHeader

    def places(self, key: str, before: int) -> Iterator[tuple[int, int]]:
        """Yield (log offset, store time) of messages below log offset ``before`` that may have the key, newest first.

        Raises: FileNotFoundError, StoreCorrupt.
        """
        header = self.header
        number = hash_of(key)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            at = HEADER_BYTES + number % header.slots * layout.INDEX_SLOT_BYTES
            entry = int.from_bytes(os.pread(descriptor, layout.INDEX_SLOT_BYTES, at), "little")
            while entry:
                octets = os.pread(descriptor, ENTRY_BYTES, header.entries_at() + (entry - 1) * ENTRY_BYTES)
                if len(octets) < ENTRY_BYTES:
                    raise StoreCorrupt(f"{self.path}: entry {entry} is missing; the index may be deleted")
                found, older, offset, time_ms = UNPACK_ENTRY(octets)
                # Entries at or above the end were added while this was read; they are found in the log.
                if found == number and offset < min(before, header.end):
                    yield offset, time_ms
                if older >= entry:
                    raise StoreCorrupt(f"{self.path}: entry {entry} names {older} as an older one")
                entry = older
        finally:
            os.close(descriptor)


def list_index(directory: Path, store_id: str, is_held: bool, end: int) -> list[IndexFile]:
    """Return the trusted files by the range they cover; ranges are disjoint and below ``end``.

    is_held: a gateway has the store, so that a growing file is whole.
    """
    found: list[IndexFile] = []
    folder = directory / INDEX_DIRECTORY
    try:
        names = sorted(name for name in os.listdir(folder) if file_begin(name) >= 0)
    except FileNotFoundError:
        return found
    covered = 0
    for name in names:
        path = folder / name
        try:
            with open(path, "rb", buffering=0) as file:
                header = unpack_header(file.read(HEADER_BYTES))
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:  # removed meanwhile
            continue
        if header is None or header.store_id != store_id or header.begin != file_begin(name):
            continue
        if not (header.is_at_rest or is_held) or size < header.file_bytes():
            continue
        if header.begin < covered or header.begin >= end or header.end == header.begin:
            continue
        covered = header.end
        found.append(IndexFile(path, header))
    return found
