"""The octets of a destination's messages behind some place, which its own retention by size needs.

Messages are not counted as they arrive.  A worker adds up sizes from the consume queues' files, each entry once when it
enters the window and once when it leaves; entries of the last segment, which are not in files yet, are left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from engine.ports.workers import Job
from engine.store.disk.files import Files, describe, read_fully
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


class BacklogSizes:
    """windows: by lane; for one worker at a time."""

    __slots__ = ("windows", "_files", "_root")

    def __init__(self, files: Files, root: str) -> None:
        self.windows: dict[int, Window] = {}
        self._files = files
        self._root = root

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
            file = self._files.open_to_read(path)
            try:
                octets = read_fully(file, some * layout.ENTRY_BYTES, in_file * layout.ENTRY_BYTES)
            finally:
                file.close()
            if len(octets) < some * layout.ENTRY_BYTES:
                raise StoreCorrupt(f"{path}: entry {first + len(octets) // layout.ENTRY_BYTES} is missing")
            total += sum([size for _, size in layout.ENTRY_PLACE.iter_unpack(octets)])
            first += some
            count -= some
        return total


class SizesTarget(ABC):
    """The part that asked for sizes."""

    @abstractmethod
    def measured(self, reason: str) -> None:
        """Handle the answer: the windows are where they should be, or the reason why they are not."""


class MeasureJob(Job):
    """Moves some windows.  lanes: (lane, first, end)."""

    __slots__ = ("_target", "_sizes", "_lanes", "_reason")

    def __init__(self, target: SizesTarget, sizes: BacklogSizes, lanes: list[tuple[int, int, int]]) -> None:
        self._target = target
        self._sizes = sizes
        self._lanes = lanes
        self._reason = ""

    def run(self) -> None:
        try:
            for key, first, end in self._lanes:
                self._sizes.move(key, first, end)
        except OSError as error:
            self._reason = describe(error, str(error.filename or "a consume queue"))
        except StoreCorrupt as error:
            self._reason = str(error)

    def finish(self) -> None:
        self._target.measured(self._reason)
