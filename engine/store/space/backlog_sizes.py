"""The octets of a destination's messages behind some place, which its own retention by size needs.

Messages are not counted as they arrive.  A worker adds up sizes from the consume queues' files, each entry once when it
enters the window and once when it leaves; entries of the last segment, which are not in files yet, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.store.disk.files import Files, read_file
from engine.store.format import layout
from engine.store.queues.consume_queue_files import file_name, lane_directory
from engine.values.errors import StoreCorrupt

ENTRIES_AT_ONCE: Final = 16_384


class Window:
    """The entries ``first`` to ``end`` (excluded) of one lane, and the octets of their records."""

    __slots__ = ("first", "end", "size_bytes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self.size_bytes = 0


@dataclass(slots=True, eq=False)
class BacklogSizes:
    """windows: by lane; for one worker at a time."""

    _files: Files
    _root: str
    windows: dict[int, Window] = field(default_factory=dict)

    def move(self, key: int, first: int, end: int) -> None:
        """Let a lane's window be ``first`` to ``end``; ``end`` must not move back, and moving ``first`` back is costly.

        Raises: OSError, StoreCorrupt.
        """
        window = self.windows.get(key)
        if window is None or not window.first <= first <= window.end:
            window = self.windows[key] = Window(first)
        while window.end < end:
            count = min(ENTRIES_AT_ONCE, end - window.end)
            window.size_bytes += self._sum(key, window.end, count)
            window.end += count
        while window.first < first:
            count = min(ENTRIES_AT_ONCE, first - window.first)
            window.size_bytes -= self._sum(key, window.first, count)
            window.first += count

    def move_all(self, lanes: list[tuple[int, int, int]]) -> None:
        """Do so for several lanes: (lane, first, end)."""
        for key, first, end in lanes:
            self.move(key, first, end)

    def of(self, keys: list[int]) -> int:
        """Return the octets in the windows of some lanes."""
        return sum([self.windows[key].size_bytes for key in keys if key in self.windows])

    def _sum(self, key: int, first: int, count: int) -> int:
        directory = lane_directory(self._root, key >> layout.LANE_SHIFT, key & ((1 << layout.LANE_SHIFT) - 1))
        total = 0
        while count:
            in_file = first % layout.ENTRIES_PER_FILE
            some = min(count, layout.ENTRIES_PER_FILE - in_file)
            path = f"{directory}/{file_name(first - in_file)}"
            octets = read_file(self._files, path, some * layout.ENTRY_BYTES, in_file * layout.ENTRY_BYTES)
            if len(octets) < some * layout.ENTRY_BYTES:
                raise StoreCorrupt(f"{path}: entry {first + len(octets) // layout.ENTRY_BYTES} is missing")
            total += sum([size for _, size in layout.ENTRY_PLACE.iter_unpack(octets)])
            first += some
            count -= some
        return total
