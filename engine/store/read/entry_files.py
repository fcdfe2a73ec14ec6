"""The files of consume queues as a reader finds them, and whether they are complete.

They are derived from the log.  Somebody may have removed some while the gateway was stopped, and the next start makes
them again.  Until then the remaining files must not be taken for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from engine.store.format import layout
from engine.store.read.store_files import names_in, size_of

ENTRIES_AT_ONCE: Final = 8_192


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file of a consume queue: its first entry's index and how many entries fit its size."""

    path: Path
    first: int
    count: int


def lanes(directory: Path, destination_id: int) -> list[int]:
    """Return the priorities that the destination has consume queues for."""
    try:
        names = names_in(directory / "consumequeue" / str(destination_id))
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def entry_files(directory: Path, destination_id: int, priority: int) -> list[EntryFile]:
    """Return the files of one consume queue by their first entry; trust entries below ``entries_offset`` only."""
    folder = directory / "consumequeue" / str(destination_id) / str(priority)
    found: list[EntryFile] = []
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return found
    for name in names:
        if name.endswith(".cq") and name[:-3].isdigit():
            path = folder / name
            try:
                size = size_of(path)
            except FileNotFoundError:  # dropped by retention meanwhile
                continue
            found.append(EntryFile(path, int(name[:-3]), size // layout.ENTRY_BYTES))
    found.sort(key=lambda file: file.first)
    return found


def entries_in(file: EntryFile, first: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (index, fields as in ``layout.ENTRY``) of the file's whole entries from index ``first`` on."""
    with open(file.path, "rb") as stream:
        entry = max(first, file.first)
        stream.seek((entry - file.first) * layout.ENTRY_BYTES)
        while octets := stream.read(ENTRIES_AT_ONCE * layout.ENTRY_BYTES):
            for fields in layout.ENTRY.iter_unpack(octets[: len(octets) - len(octets) % layout.ENTRY_BYTES]):
                yield entry, fields
                entry += 1


def are_complete(directory: Path, snapshot: dict[str, Any]) -> bool:
    """Say whether the files hold all entries as of a snapshot, except those that retention may have dropped."""
    if not _holds(directory, layout.SYSTEM_QUEUE, 0, int(snapshot["system_tail"]), int(snapshot["system_tail"])):
        return False
    return all(
        _holds(directory, int(destination["id"]), int(lane["priority"]), int(lane["cursor"]), int(lane["tail"]))
        for destination in snapshot["destinations"]
        for lane in destination["lanes"]
    )


def _holds(directory: Path, destination_id: int, priority: int, first: int, tail: int) -> bool:
    """first: the first entry still needed."""
    if not tail:
        return True
    files = entry_files(directory, destination_id, priority)
    if not files or files[0].first > first or files[-1].first + files[-1].count < tail:
        return False
    return all(one.first + one.count == two.first for one, two in pairwise(files))
