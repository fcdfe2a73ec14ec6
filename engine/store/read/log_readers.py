"""What reads the log from outside of the gateway, exports and named streams, and how far behind each is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.store.disk.files import RealFiles
from engine.store.read.export_watermarks import EXPORT, FOLDER, STREAM, read_watermarks
from engine.store.read.reader import StoreReader


@dataclass(frozen=True, slots=True)
class LogReader:
    """kind: STREAM or EXPORT.  reader: the name of a stream, or the directory of an export.

    destination: the pattern of what it takes.  to_offset: the log offset below which it has that.
    lag_bytes: of log behind.  read_ms: when it wrote that, wall clock.
    bytes_per_second: its pace in the last minute before.  eta_ms: for the lag at that pace, None if it stands.
    """

    kind: str
    reader: str
    destination: str
    to_offset: int
    lag_bytes: int
    read_ms: int
    bytes_per_second: int
    eta_ms: int | None


def log_readers(directory: Path) -> list[LogReader]:
    """Return those of the store in ``directory``, the last one first.

    Raises: StoreError if there is no store; OSError.
    """
    if not (directory / FOLDER).is_dir():
        return []
    reader = StoreReader(directory)
    end = reader.end().offset
    found = []
    for mark in read_watermarks(RealFiles(), str(directory), reader.store_id).marks:
        lag_bytes = max(0, end - mark.to_offset)
        pace = mark.pace()
        found.append(
            LogReader(
                kind=STREAM if mark.is_stream else EXPORT,
                reader=mark.reader,
                destination=str(mark.chosen),
                to_offset=mark.to_offset,
                lag_bytes=lag_bytes,
                read_ms=mark.written_ms,
                bytes_per_second=round(pace),
                eta_ms=round(lag_bytes * 1000 / pace) if pace > 0 else None,
            )
        )
    return sorted(found, key=lambda one: (-one.lag_bytes, one.kind, one.reader))
