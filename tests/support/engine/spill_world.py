"""An engine with temporary files on a disk in memory; its workers run at the end of a turn, or on request."""

from __future__ import annotations

from typing import Any

from config.matching import AddressEntry
from engine.backlog.spiller import Spiller
from engine.broker_options import NO_USER_LIMITS
from engine.consumers.user_quota import UserLimits
from engine.store.disk.spill_files import SpillFiles
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import HeldWorkers


class SpillWorld(RestartWorld):
    """holds_workers: temporary files are written and read only on the test's request."""

    def __init__(
        self, *addresses: AddressEntry, memory_limit_bytes: int = 1 << 20, user_limits: UserLimits = NO_USER_LIMITS
    ) -> None:
        self.files = FaultyFiles()
        self.holds_workers = False
        self.user_limits = user_limits
        super().__init__(*addresses, memory_limit_bytes=memory_limit_bytes)

    def broker_options(self) -> dict[str, Any]:
        self.spill_workers = HeldWorkers()
        self.space = SpillFiles(self.files, "data", self.spill_workers)
        return {"spill_space": self.space, "user_limits": self.user_limits}

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
