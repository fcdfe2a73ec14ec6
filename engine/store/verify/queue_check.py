"""Compares the consume queues' files with the log."""

from __future__ import annotations

from typing import Final

from engine.store.disk.files import Files, read_file
from engine.store.format import layout
from engine.store.queues.consume_queue_files import ConsumeQueueFiles, file_name, lane_directory
from engine.store.state.consume_queue import EntryBlock
from engine.store.verify.findings import Note
from engine.values.errors import StoreCorrupt

ZEROS: Final = bytes(layout.ENTRY_BYTES)


class QueueCheck:
    """entry_count: entries checked."""

    def __init__(self, files: Files, root: str, note: Note) -> None:
        self.entry_count = 0
        self._files = files
        self._root = root
        self._note = note

    def block(self, block: EntryBlock, has_gaps: bool) -> None:
        """Compare entries made from records with the files.  has_gaps: some records were removed."""
        directory = lane_directory(self._root, block.destination_id, block.priority)
        entry = block.first
        while entry < block.end():
            first = entry - entry % layout.ENTRIES_PER_FILE
            count = min(block.end(), first + layout.ENTRIES_PER_FILE) - entry
            at = (entry - block.first) * layout.ENTRY_BYTES
            expected = bytes(block.octets[at : at + count * layout.ENTRY_BYTES])
            path = f"{directory}/{file_name(first)}"
            position = (entry - first) * layout.ENTRY_BYTES
            found = self._read(path, position, len(expected))
            if has_gaps:
                # A removed record still has its entry, or none if the queue was rebuilt.
                found = _where_named(found, expected)
            if found != expected:
                expected = _as_earlier(found, expected, block.destination_id == layout.SYSTEM_QUEUE)
            if found != expected:
                self._report_entry(path, position, entry, found, expected)
            self.entry_count += count
            entry += count

    def _report_entry(self, path: str, position: int, entry: int, found: bytes, expected: bytes) -> None:
        size = layout.ENTRY_BYTES
        wrong = next(at for at in range(0, len(expected), size) if found[at : at + size] != expected[at : at + size])
        first, last = entry + wrong // size, entry + len(expected) // size - 1
        until = wrong
        while found.startswith(ZEROS, until) and not expected.startswith(ZEROS, until):
            until += size
        if wrong >= len(found):
            self._note(path, position + wrong, f"entries {first} to {last} are not there")
        elif until > wrong:
            last = entry + until // size - 1
            self._note(path, position + wrong, f"entries {first} to {last} are zeros, their records are in the log")
        else:
            self._note(path, position + wrong, f"entry {first} is not its record's")

    def files_out_of_place(self, next_destination: int) -> None:
        """Look for files of consume queues that are out of place, and for queues without a destination."""
        queues = ConsumeQueueFiles(self._files, self._root)
        for destination_id, priority in queues.queues():
            try:
                _, end = queues.found(destination_id, priority)
            except StoreCorrupt as error:
                self._note(self._root, -1, str(error))
                continue
            # A queue of a destination that was closed remains until retention has dropped its messages.
            if destination_id >= next_destination and end:
                path = lane_directory(self._root, destination_id, priority)
                self._note(path, -1, f"no destination {destination_id} was ever made")

    def _read(self, path: str, position: int, size: int) -> bytes:
        if not self._files.exists(path):
            return b""
        return read_file(self._files, path, size, position)


def _where_named(found: bytes, expected: bytes) -> bytes:
    """Return the entries of ``found``, zeros where ``expected`` has zeros."""
    size = layout.ENTRY_BYTES
    parts = [
        found[at : at + size] if any(expected[at : at + size]) else bytes(size) for at in range(0, len(expected), size)
    ]
    return b"".join(parts)


def _as_earlier(found: bytes, expected: bytes, is_system: bool) -> bytes:
    """Return what earlier versions have written for ``expected``, where an entry of ``found`` is without a check."""
    entries = bytearray(expected)
    for at in range(0, len(found) - layout.ENTRY_BYTES + 1, layout.ENTRY_BYTES):
        if not found[at + layout.CHECK_AT]:
            entries[at + layout.CHECK_AT] = 0
            if is_system:
                entries[at + layout.LISTING_CHECK_AT : at + layout.LISTING_CHECK_AT + 4] = bytes(4)
    return bytes(entries)
