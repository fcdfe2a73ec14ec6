"""The law of store_history.py notices disks that no store could live with; its histories are in tests/simulation."""

from __future__ import annotations

import pytest

from engine.store.format import layout
from engine.values.errors import StoreError
from tests.support.disk.disk_inode import Inode
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.store.store_history import History


class ForgetfulFiles(FaultyFiles):
    """Says that it has synced, and has not."""

    def sync_inode(self, inode: Inode) -> None:
        pass


class FlippingFiles(FaultyFiles):
    """Changes an octet in the middle of each segment when the power goes."""

    def crash(self) -> FaultyFiles:
        after = super().crash()
        for path in after.paths(".log"):
            octets = after.octets(path)
            used = len(octets.rstrip(b"\0"))
            if used > layout.SEGMENT_HEADER_BYTES + 400:
                octets[(layout.SEGMENT_HEADER_BYTES + used) // 2] ^= 0x10
        return after


@pytest.mark.parametrize("disk", [ForgetfulFiles, FlippingFiles])
def test_the_law_notices_a_disk_that_lies(disk: type[FaultyFiles]) -> None:
    def live() -> None:
        for seed in range(10):
            history = History(seed)
            history.files = disk(seed)
            history.run(120)

    with pytest.raises((AssertionError, StoreError)):
        live()
