"""Where the records of a sparse segment are: runs of octets of the log, each in one piece of the file.

A sparse segment replaced a full one that had few live records left.  Records keep their log offsets, so ids, consume
queues and ranges stay valid; a table in the file says which offsets are present and at which position.
Layout: format/layout.py.  Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from engine.store.format import layout
from engine.store.format.checksum import crc32c
from engine.store.format.file_heads import SparseHead
from engine.values.errors import StoreCorrupt

NOT_THERE: Final = -1


class Runs:
    """Ascending pieces of the log: ``offsets`` in the log, ``positions`` in the file, ``ends`` in the log, excluded.

    message_count: messages among the records.
    """

    __slots__ = ("offsets", "positions", "ends", "message_count")

    def __init__(self) -> None:
        self.offsets = array("Q")
        self.positions = array("Q")
        self.ends = array("Q")
        self.message_count = 0

    def add(self, offset: int, position: int, size: int) -> None:
        """Add ``size`` octets; they extend the last run if they continue it in the log and in the file."""
        ends = self.ends
        if ends and ends[-1] == offset and self.positions[-1] + offset - self.offsets[-1] == position:
            ends[-1] = offset + size
            return
        self.offsets.append(offset)
        self.positions.append(position)
        ends.append(offset + size)

    def position(self, offset: int) -> int:
        """Return where log offset ``offset`` is in the file, NOT_THERE if it was taken out."""
        place = bisect_right(self.offsets, offset) - 1
        if place < 0 or offset >= self.ends[place]:
            return NOT_THERE
        return self.positions[place] + offset - self.offsets[place]

    def end_of(self, offset: int) -> int:
        """Return the log offset at which the run ends that holds ``offset``; NOT_THERE if none does."""
        place = bisect_right(self.offsets, offset) - 1
        if place < 0 or offset >= self.ends[place]:
            return NOT_THERE
        return self.ends[place]

    def next_from(self, offset: int) -> int:
        """Return the first log offset from ``offset`` on that is present, NOT_THERE after the last one."""
        place = bisect_right(self.offsets, offset) - 1
        if place >= 0 and offset < self.ends[place]:
            return offset
        return self.offsets[place + 1] if place + 1 < len(self.offsets) else NOT_THERE

    def pack(self) -> bytes:
        """Return the table."""
        pack = layout.RUN.pack
        return b"".join(
            [
                pack(offset, position, end - offset)
                for offset, position, end in zip(self.offsets, self.positions, self.ends, strict=True)
            ]
        )


def unpack_runs(octets: bytes, head: SparseHead, path: str) -> Runs:
    """Return the runs in the table.

    Raises: StoreCorrupt.
    """
    if len(octets) != head.table_bytes or crc32c(octets) != head.table_crc:
        raise StoreCorrupt(f"{path}, position {head.table_position}: the checksum of the table does not match")
    runs = Runs()
    runs.message_count = head.message_count
    for offset, position, size in layout.RUN.iter_unpack(octets):
        runs.offsets.append(offset)
        runs.positions.append(position)
        runs.ends.append(offset + size)
    return runs
