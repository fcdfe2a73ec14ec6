"""An engine with temporary files on a disk in memory, whose workers run when a turn ends, or when the test says so."""

from __future__ import annotations

from typing import Any

from config.matching import AddressEntry
from engine.backlog.spiller import Spiller
from engine.store.disk.spill_files import SpillFiles
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import HeldWorkers


class SpillWorld(RestartWorld):
    """holds_workers: nothing is written to temporary files, nor read, before the test says so."""

    def __init__(self, *addresses: AddressEntry, memory_limit_bytes: int = 1 << 20) -> None:
        self.files = FaultyFiles()
        self.holds_workers = False
        super().__init__(*addresses, memory_limit_bytes=memory_limit_bytes)

    def broker_options(self) -> dict[str, Any]:
        self.spill_workers = HeldWorkers()
        self.space = SpillFiles(self.files, "data", self.spill_workers)
        return {"spill_space": self.space}

    @property
    def spiller(self) -> Spiller:
        spiller = self.broker.spiller
        assert spiller is not None
        return spiller

    def turn(self) -> int:
        while True:
            offset = super().turn()
            if self.holds_workers or not self.spill_workers.jobs:
                return offset
            self.spill_workers.run_all()

    def paths(self) -> list[str]:
        return self.files.paths(".spill")
