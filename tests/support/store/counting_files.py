"""A lake in a directory that counts what is read of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spark_bridge.files.local import LocalFiles


class CountingFiles(LocalFiles):
    """Counts the files that are opened, and the names that are looked at."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.opened = 0
        self.named = 0

    def open(self, path: str) -> pa.NativeFile:
        self.opened += 1
        return super().open(path)

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        self.named += len(found)
        return found
