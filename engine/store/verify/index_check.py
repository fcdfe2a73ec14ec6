"""Compares the key index with the log: each entry with the message that it names, and the other way round.

Index files cover consecutive ranges of the log, and their entries are in the order of the messages, so one pass through
the log goes through the index, too.  A file that was growing when its gateway died is skipped: it is not trusted, and
the next start makes it again.
"""

from __future__ import annotations

from array import array
from typing import Final

from engine.store.disk.files import Files, read_file, read_fully
from engine.store.format import layout
from engine.store.index.index_file import (
    ENTRY_BYTES,
    HEADER_BYTES,
    INDEX_DIRECTORY,
    UNPACK_ENTRY,
    IndexHeader,
    file_begin,
    hash_of,
    unpack_header,
)
from engine.store.verify.findings import Note
from engine.values.message import KEYED
from engine.values.message_keys import KEYS_MAX, Keys

ENTRIES_AT_ONCE: Final = 65_536
NO_MORE: Final = 1 << 63


class IndexCheck:
    """Walks through the index while its caller walks through the log.

    note: receives path, position and text of each flaw.  keys: None if the keys of messages cannot be read; then only
    the files themselves are checked.  entry_count: entries checked.
    first: log offset where the log begins; older entries are ignored.  has_gaps: messages were removed from the current
    segment.
    """

    def __init__(self, files: Files, directory: str, store_id: str, keys: Keys | None, note: Note) -> None:
        self.entry_count = 0
        self.first = 0
        self.has_gaps = False
        self._files = files
        self._keys = keys
        self._note = note
        self._waiting: list[tuple[str, IndexHeader]] = []
        self._path = ""
        self._header: IndexHeader | None = None
        self._last = 0  # log offset in the last entry
        self._octets = b""
        self._at = 0  # of the next entry, in ``_octets``
        self._taken = 0  # entries of this file read so far
        self._slots = array("I")
        self._find(f"{directory}/{INDEX_DIRECTORY}", store_id)

    def _find(self, folder: str, store_id: str) -> None:
        end = -1
        for name in self._files.list_directory(folder):
            begin = file_begin(name)
            if begin < 0:
                continue
            path = f"{folder}/{name}"
            file = self._files.open_to_read(path)
            try:
                header = unpack_header(read_fully(file, HEADER_BYTES, 0))
                size = file.size()
            finally:
                file.close()
            if header is None or not header.is_at_rest:
                continue
            if header.store_id != store_id or header.begin != begin:
                self._note(path, 0, f"its head is of store {header.store_id} and log offset {header.begin}")
            elif header.end < header.begin or header.count > header.room + KEYS_MAX:
                self._note(path, 0, f"{header.count} entries from log offset {header.begin} to {header.end}")
            elif size < header.file_bytes():
                self._note(path, size, f"{header.count} entries end at {header.file_bytes()}, the file before")
            elif header.begin < end:
                self._note(path, 16, f"it begins at log offset {header.begin}, the one before it ends at {end}")
            else:
                end = header.end
                self._waiting.append((path, header))
        self._waiting.reverse()

    def message(self, offset: int, time_ms: int, encoding: int, flags: int, headers: bytes) -> None:
        """Check the next message of the log."""
        header = self._file_for(offset)
        if header is None:
            return
        self._pass_to(offset)
        found: list[tuple[int, int]] = []
        while self._next() == offset:
            position, number, time = self._take()
            if time != time_ms:
                self._note(self._path, position, f"store time {time} of a message of {time_ms}")
            found.append((number, position))
        if self._keys is None:
            return
        wanted = [hash_of(key) for key in self._keys.of(encoding, headers)]
        if [number for number, _ in found] != wanted and (found or flags & KEYED):
            position = found[0][1] if found else header.entries_at() + self._taken * ENTRY_BYTES
            text = f"{len(found)} entries of the message at log offset {offset}, which has {len(wanted)} keys"
            self._note(self._path, position, text if len(found) != len(wanted) else f"{text}, and others")

    def passed(self, offset: int) -> None:
        """Note that the log up to ``offset`` was read."""
        self._file_for(offset)
        self._pass_to(offset)

    def ended(self, offset: int) -> None:
        """Note that the log ends at ``offset``."""
        self.passed(offset)
        if self._header is not None or self._waiting:
            path = self._path if self._header is not None else self._waiting[-1][0]
            self._note(path, 24, f"it goes beyond log offset {offset}, where the log ends")

    def _file_for(self, offset: int) -> IndexHeader | None:
        """Return the head of the file that covers ``offset``; earlier ones are checked to their ends."""
        while True:
            if self._header is not None and offset < self._header.end:
                return self._header
            if self._header is not None:
                self._pass_to(NO_MORE)
                self._end_file()
            if not self._waiting or self._waiting[-1][1].begin > offset:
                return None
            self._begin_file(*self._waiting.pop())

    def _begin_file(self, path: str, header: IndexHeader) -> None:
        self._path, self._header = path, header
        self._octets, self._at, self._taken = b"", 0, 0
        self._slots = array("I", bytes(header.slots * layout.INDEX_SLOT_BYTES))

    def _end_file(self) -> None:
        header = self._header
        assert header is not None, "a file that ends has begun"
        if self._taken == header.count:
            octets = read_file(self._files, self._path, header.slots * layout.INDEX_SLOT_BYTES, HEADER_BYTES)
            if octets != self._slots.tobytes():
                self._note(self._path, HEADER_BYTES, "the slots do not lead to the newest entries")
        self._header = None

    def _pass_to(self, offset: int) -> None:
        """Skip the entries before ``offset``, for which the log has no message."""
        while self._next() < offset:
            position, _, _ = self._take()
            if not self.has_gaps and self._last >= self.first:
                self._note(self._path, position, f"it names log offset {self._last}, which has no message")

    def _next(self) -> int:
        """Return the log offset that the next entry names, NO_MORE at the end of the file."""
        header = self._header
        if header is None or self._taken >= header.count:
            return NO_MORE
        if self._at >= len(self._octets):
            count = min(ENTRIES_AT_ONCE, header.count - self._taken)
            self._octets = read_file(
                self._files, self._path, count * ENTRY_BYTES, header.entries_at() + self._taken * ENTRY_BYTES
            )
            self._at = 0
        return int.from_bytes(self._octets[self._at + 8 : self._at + 16], "little")

    def _take(self) -> tuple[int, int, int]:
        """Return position, hash and store time of the next entry, and check its place in the chain of its slot."""
        header = self._header
        assert header is not None, "an entry is of a file"
        number, older, self._last, time_ms = UNPACK_ENTRY(self._octets[self._at : self._at + ENTRY_BYTES])
        position = header.entries_at() + self._taken * ENTRY_BYTES
        slot = number % header.slots
        if older != self._slots[slot]:
            self._note(self._path, position, f"it names {older} as the older one, {self._slots[slot]} is in its slot")
        self._taken += 1
        self._slots[slot] = self._taken
        self._at += ENTRY_BYTES
        self.entry_count += 1
        return position, number, time_ms
