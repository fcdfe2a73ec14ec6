"""How full the disk of the store is."""

from __future__ import annotations

import os

from engine.limits.disk_watch import DiskSpace


class StoreDisk(DiskSpace):
    """Space of the file system of ``directory``; blocks reserved for root count as used."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def measure(self) -> tuple[int, int]:
        found = os.statvfs(self._directory)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
