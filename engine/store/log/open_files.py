"""The files that a worker has open for reading."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from engine.store.disk.files import File, Files
from engine.store.format.sparse_runs import Runs
from engine.store.log.segment import read_runs


@dataclass(slots=True, eq=False)
class OpenFiles:
    """Recently read files by path; at most ``limit`` of them stay open.  For one thread.

    dropped: paths removed by retention, kept until the last reader that may still use them has passed; any thread may
    add to it.
    """

    _files: Files
    _limit: int
    dropped: set[str] = field(default_factory=set)
    _open: OrderedDict[str, tuple[File, int]] = field(default_factory=OrderedDict)
    _runs: dict[str, Runs | None] = field(default_factory=dict)  # of segments, once asked for

    def get(self, path: str, edition: int) -> File:
        """Return the file, opened again if it is not the edition that is open."""
        known = self._open.get(path)
        if known is not None:
            if known[1] == edition:
                self._open.move_to_end(path)
                return known[0]
            self.forget(path)
        file = self._files.open_to_read(path)
        self._open[path] = (file, edition)
        if len(self._open) > self._limit:
            oldest_path, (oldest, _) = self._open.popitem(last=False)
            self._runs.pop(oldest_path, None)
            oldest.close()
        return file

    def runs(self, path: str, edition: int) -> Runs | None:
        """Return the runs of a segment, None if it is not sparse; they belong to the very file that ``get`` returns."""
        file = self.get(path, edition)
        try:
            return self._runs[path]
        except KeyError:
            runs = self._runs[path] = read_runs(file, path)
            return runs

    def forget(self, path: str) -> None:
        """Close a file, so that the space of a dropped one is freed."""
        known = self._open.pop(path, None)
        self._runs.pop(path, None)
        if known is not None:
            known[0].close()

    def forget_dropped(self, paths: list[str]) -> None:
        """Close files that were dropped: earlier requests came before, and later ones know the new segments."""
        for path in paths:
            self.forget(path)
            self.dropped.discard(path)

    def close(self) -> None:
        for file, _ in self._open.values():
            file.close()
        self._open.clear()
        self._runs.clear()
