"""Reads single records of a store."""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar, Final

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import OpenSegment, open_segment
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import load_snapshot
from engine.values.errors import RangeGone, StoreCorrupt, StoreError


class UnknownMessage(StoreError):
    """No message with this id is in the store; the text says what is there instead."""

    condition: ClassVar[str] = "unknown-message"


def no_message_at(offset: int) -> UnknownMessage:
    return UnknownMessage(f"no message is at log offset {offset}")


DIGITS_MOST: Final = 20  # of a log offset


def is_own_id(message_id: str, store_id: str) -> bool:
    """Return whether an id has the form of this store's ids."""
    return message_id.removeprefix("ID:").partition("-")[:2] == (store_id, "-")


def offset_of(message_id: str, store_id: str) -> int:
    """Return the log offset that an id of this store carries.  Raises: UnknownMessage."""
    number = message_id.partition("-")[2]
    if not is_own_id(message_id, store_id):
        raise UnknownMessage(
            f"{message_id[:200]!r} is not an id of this store, whose ids begin with ID:{store_id}-; "
            "'why message' also finds a message by the id that its sender gave it"
        )
    if not (number.isascii() and number.isdigit() and len(number) < DIGITS_MOST):
        raise UnknownMessage(
            f"{message_id[:200]!r} names a message that was not logged (non-persistent), so the log does not have it"
        )
    return int(number)


class Records:
    """Reads records of one reader by their log offsets; the files stay open until ``close``."""

    __slots__ = ("_reader", "_bases", "_files")

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._bases = [segment.base for segment in reader.segments]
        self._files: dict[int, OpenSegment] = {}

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def message(self, offset: int) -> Record:
        """Return the message at a log offset.  Raises: UnknownMessage, RangeGone, StoreCorrupt."""
        reader = self._reader
        end = reader.end().offset
        if offset >= end:
            raise UnknownMessage(f"log offset {offset} is not in the store yet: it can be read up to {end}")
        if offset < reader.first_offset:
            raise RangeGone(
                f"the message at log offset {offset} is gone: retention has dropped it, {reader.first_offset} to {end} "
                "are left"
            )
        record = self.at(offset)
        if record is None and self._is_taken_out(offset):
            raise RangeGone(f"the message at log offset {offset} is gone: retention has removed it from its segment")
        if record is None and self._names_itself(offset):
            raise StoreCorrupt(f"the record at log offset {offset} is damaged: its checksum does not match")
        if record is None or record.type != layout.MESSAGE:
            raise no_message_at(offset)
        return record

    def at(self, offset: int) -> Record | None:
        """Return the whole record that begins at a log offset, None if none does.

        A body may contain octets that look like a record.  They would have to name the very offset at which they were
        written; besides, the result is only shown and not delivered.
        """
        place = bisect_right(self._bases, offset) - 1
        if place < 0 or offset % layout.ALIGNMENT or offset >= self._reader.segments[place].limit:
            return None
        segment = self._reader.segments[place]
        file = self._files.get(place)
        if file is None:
            try:
                file = self._files[place] = open_segment(segment)
            except RangeGone:  # dropped by retention meanwhile
                return None
        return file.record(offset)

    def last_snapshot(self, most: int) -> Record | None:
        """Return the last whole snapshot at ``most`` or below, None if there is none.

        most: the offset to which consume queues are complete, if the caller continues with their entries.
        """
        reader = self._reader
        end = reader.end().offset
        for segment in reversed(reader.segments):
            if segment.is_continuation or not reader.first_offset <= segment.base < min(segment.limit, end):
                continue
            record = self.at(segment.base) if segment.base <= most else None
            if record is not None and record.type == layout.SNAPSHOT:
                return record
        return None

    def is_damaged(self, offset: int) -> bool:
        """Return whether a whole record should be at an offset that something names but that cannot be read."""
        return offset >= self._reader.first_offset and not self._is_taken_out(offset)

    def _is_taken_out(self, offset: int) -> bool:
        """Return whether a sparse segment has no record at an offset any more."""
        file = self._files.get(bisect_right(self._bases, offset) - 1)
        return file is not None and file.runs is not None and file.runs.position(offset) < 0

    def _names_itself(self, offset: int) -> bool:
        """Return whether the octets at an offset look like the header of a record, whatever follows."""
        file = self._files.get(bisect_right(self._bases, offset) - 1)
        octets = b"" if file is None else file.pread(layout.RECORD_HEADER_BYTES, offset)
        return len(octets) == layout.RECORD_HEADER_BYTES and layout.RECORD_HEADER.unpack(octets)[6] == offset


def last_state(reader: StoreReader) -> tuple[StoreState, int]:
    """Return the last state that a snapshot describes and consume queues are complete for, and the offset behind it."""
    with Records(reader) as records:
        snapshot = records.last_snapshot(reader.entries_offset)
    if snapshot is None:
        return StoreState(), reader.first_offset
    return load_snapshot(snapshot.payload()), snapshot.end()
