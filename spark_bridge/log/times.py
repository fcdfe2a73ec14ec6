"""Where a store time is in the log: consume queues narrow it down, so that little of the log is read for it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.store.read.entry_files import entry_files, lanes
from engine.store.read.reader import StoreReader
from engine.store.read.store_files import StoreFile, names_in, open_file
from spark_bridge.log.records import PAST_ALL, place_at

NEAR_BYTES: Final = 1 << 16  # so much of the log is read rather than another consume queue
LANES_MAX: Final = 256


def offset_at(reader: StoreReader, time_ms: int) -> int:
    """Return the offset of the first record of a store time or later, the end of the log if there is none.

    Raises: StoreCorrupt, RangeGone.
    """
    low, high = 0, PAST_ALL
    for number, priority in _some_lanes(reader.directory):
        before, after = _around(reader, number, priority, time_ms)
        low, high = max(low, before), min(high, after)
        if high - low <= NEAR_BYTES:
            break
    return reader.offset_at(time_ms, low, high)


def _some_lanes(directory: Path) -> Iterator[tuple[int, int]]:
    try:
        names = names_in(directory / "consumequeue")
    except FileNotFoundError:
        return
    numbers = sorted(int(name) for name in names if name.isdigit())
    found = ((number, priority) for number in numbers for priority in lanes(directory, number))
    for _, lane in zip(range(LANES_MAX), found, strict=False):
        yield lane


def _around(reader: StoreReader, number: int, priority: int, time_ms: int) -> tuple[int, int]:
    """Return the offsets of a lane's last record before a time and of its first since; 0, PAST_ALL without one."""
    low, high = 0, PAST_ALL
    for file in reversed(entry_files(reader.directory, number, priority)):
        try:
            source = open_file(file.path)
        except FileNotFoundError:  # dropped by retention, like the records that it lists
            continue
        try:

            def is_later(index: int, source: StoreFile = source) -> bool:
                offset, found_ms = place_at(source, index)
                return offset >= reader.entries_offset or found_ms >= time_ms

            index = bisect_left(range(file.count), True, key=is_later)
            if index < file.count:
                after, _ = place_at(source, index)
                high = after if after < reader.entries_offset else high
            if index > 0:  # a lost message before it leaves this place itself, and so says nothing
                before, found_ms = place_at(source, index - 1)
                return (before if found_ms < time_ms else low), high
        finally:
            source.close()
    return low, high
