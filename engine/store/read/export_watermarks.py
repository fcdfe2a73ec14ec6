"""Tells a gateway what has been read from its log: a small file in the store's directory for each reader.

A reader is the target of an export, or a stream that was given a name.  ``exports/<hash of the reader>.json`` says up
to which log offset it has the messages of which destinations.  The reader writes the whole file under another name and
renames it; the gateway reads the files whenever it checks its segments.  An invalid file has no effect: retention then
waits longer, at most until its deadline.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, ClassVar, Final, NamedTuple

from engine.store.disk.files import Files, RealFiles, read_fully
from engine.store.disk.modes import DIRECTORY_MODE, narrow, open_as_store
from engine.store.read.selection import Selection, parse
from engine.values.errors import StoreError

FOLDER: Final = "exports"
FORMAT: Final = 1
SIZE_MAX: Final = 16 << 20  # of one file
PACE_MS: Final = 60_000  # the time over which a reader's pace is measured, at least
STREAM: Final = "stream"
EXPORT: Final = "export"


class UnknownReader(StoreError):
    """The store knows no reader of this name."""

    condition: ClassVar[str] = "unknown-reader"


@dataclass(frozen=True, slots=True)
class Watermark:
    """``reader`` has everything below log offset ``to_offset`` of the ``chosen`` destinations.

    reader: the directory of an export, or the name of a stream.
    numbers: of an export, the destinations that it found; without them all that match, also later ones.
    has_messages: False for a stream of another table; retention waits for it, but not for it alone.
    since_offset, since_ms: where the reader was about PACE_MS before, for its pace.
    """

    reader: str
    chosen: Selection
    to_offset: int
    written_ms: int
    is_stream: bool = False
    has_messages: bool = True
    numbers: frozenset[int] = frozenset()
    since_offset: int = 0
    since_ms: int = 0

    def covers(self, number: int, kind: int, name: str) -> bool:
        """Return whether the reader takes this destination's messages."""
        return number in self.numbers if self.numbers else self.chosen.matches(kind, name)

    def title(self) -> str:
        return f"stream {self.reader!r}" if self.is_stream else f"export to {self.reader!r}"

    def pace(self) -> float:
        """Return the octets of log that it has read in a second, 0 if it has not gone on."""
        return (self.to_offset - self.since_offset) * 1000 / max(1, self.written_ms - self.since_ms)


class Reached(NamedTuple):
    """What has been read of a destination: everything below ``offset``.  stream: the one that is last, "" for none."""

    offset: int
    stream: str


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Those of all readers of a store."""

    marks: list[Watermark] = field(default_factory=list)

    def reached(self, number: int, kind: int, name: str) -> Reached:
        """Return how far a destination has been read: of exports the furthest counts, and every stream counts."""
        furthest = 0
        last: Watermark | None = None
        for mark in self.marks:
            if mark.covers(number, kind, name):
                if mark.has_messages:
                    furthest = max(furthest, mark.to_offset)
                if mark.is_stream and (last is None or mark.to_offset < last.to_offset):
                    last = mark
        if last is not None and last.to_offset <= furthest:
            return Reached(last.to_offset, last.reader)
        return Reached(furthest, "")

    def is_behind(self, before: Watermarks) -> bool:
        """Return whether a reader came, went back or was forgotten, so that messages may be needed that were not."""
        now, then = self._places(), before._places()
        return now.keys() != then.keys() or any(now[reader] < place for reader, place in then.items())

    def _places(self) -> dict[Watermark, int]:
        return {
            replace(mark, to_offset=0, written_ms=0, since_offset=0, since_ms=0): mark.to_offset for mark in self.marks
        }


def write_watermark(data: Path, store_id: str, mark: Watermark) -> None:
    """Inform the gateway of ``data``; a watermark of the same reader is replaced, and gives the new one its pace.

    Raises: OSError if the store's directory cannot be written to.
    """
    folder = data / FOLDER
    folder.mkdir(DIRECTORY_MODE, exist_ok=True)
    narrow(str(folder))
    path = _path(data, mark.is_stream, mark.reader)
    before = find_watermark(data, store_id, mark.is_stream, mark.reader)
    since_offset, since_ms = mark.to_offset, mark.written_ms
    if before is not None and before.to_offset <= mark.to_offset:  # otherwise it has begun anew
        since_offset, since_ms = before.since_offset, before.since_ms
        if before.written_ms - since_ms >= PACE_MS:
            since_offset, since_ms = before.to_offset, before.written_ms
    described = {
        "format": FORMAT,
        "store_id": store_id,
        "kind": STREAM if mark.is_stream else EXPORT,
        "target": mark.reader,
        "destination": str(mark.chosen),
        "destinations": sorted(mark.numbers),
        "has_messages": mark.has_messages,
        "to_offset": mark.to_offset,
        "written_ms": mark.written_ms,
        "since_offset": since_offset,
        "since_ms": since_ms,
    }
    temporary = path.with_name(f"{path.stem}.{token_hex(8)}.tmp")
    with open(temporary, "w", encoding="utf-8", opener=open_as_store) as file:
        json.dump(described, file)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    RealFiles().sync_directory(str(folder))


def find_watermark(data: Path, store_id: str, is_stream: bool, reader: str) -> Watermark | None:
    """Return the watermark of a reader, None if it has no valid one.  Raises: OSError."""
    try:
        return _parsed(_path(data, is_stream, reader).read_bytes(), store_id)
    except FileNotFoundError:
        return None


def forget_reader(data: Path, is_stream: bool, reader: str) -> None:
    """Let retention wait no longer for a stream, or count no longer what an export has.

    Raises: UnknownReader if there is none; OSError if the store's directory cannot be written to.
    """
    path = _path(data, is_stream, reader)
    try:
        path.unlink()
    except FileNotFoundError:
        kind = STREAM if is_stream else EXPORT
        known = sorted(repr(m.reader) for m in _all_marks(RealFiles(), str(data), None) if m.is_stream == is_stream)
        told = f"the store knows {', '.join(known) or 'none'}"
        raise UnknownReader(f"no {kind} is named {reader!r}; {told}") from None
    RealFiles().sync_directory(str(path.parent))


def read_watermarks(files: Files, directory: str, store_id: str) -> Watermarks:
    """Return the watermarks of all readers.  Raises: OSError."""
    return Watermarks(list(_all_marks(files, directory, store_id)))


def _all_marks(files: Files, directory: str, store_id: str | None) -> Iterator[Watermark]:
    for name in sorted(files.list_directory(f"{directory}/{FOLDER}")):
        if not name.endswith(".json"):
            continue
        try:
            file = files.open_to_read(f"{directory}/{FOLDER}/{name}")
        except FileNotFoundError:
            continue  # it was forgotten meanwhile
        try:
            octets = read_fully(file, min(file.size(), SIZE_MAX), 0)
        finally:
            file.close()
        mark = _parsed(octets, store_id)
        if mark is not None:
            yield mark


def _parsed(octets: bytes, store_id: str | None) -> Watermark | None:
    """Return None for an invalid watermark and for one of another store."""
    try:
        described: dict[str, Any] = json.loads(octets)
        if described["format"] != FORMAT or store_id not in (None, described["store_id"]):
            return None
        to_offset, written_ms = int(described["to_offset"]), int(described.get("written_ms", 0))
        numbers = frozenset(int(number) for number in described["destinations"])
        return Watermark(
            reader=str(described.get("target", "")),
            chosen=parse(str(described.get("destination", "") if numbers else described["destination"])),
            to_offset=to_offset,
            written_ms=written_ms,
            is_stream=described.get("kind", EXPORT) == STREAM,
            has_messages=bool(described.get("has_messages", True)),
            numbers=numbers,
            since_offset=int(described.get("since_offset", to_offset)),
            since_ms=int(described.get("since_ms", written_ms)),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _path(data: Path, is_stream: bool, reader: str) -> Path:
    # An export may have any name over HTTP, also one that looks like that of a stream.
    told = reader
    if is_stream or reader.startswith((f"{STREAM} ", f"{EXPORT} ")):
        told = f"{STREAM if is_stream else EXPORT} {reader}"
    return data / FOLDER / f"{sha256(told.encode()).hexdigest()[:16]}.json"
