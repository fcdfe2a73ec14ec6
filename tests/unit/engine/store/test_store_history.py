"""Random histories with crashes, torn and failed writes: tests/support/store_history.py states the law."""

from __future__ import annotations

import pytest

from engine.errors import StoreError
from engine.store import format as layout
from tests.support.faulty_files import FaultyFiles, Inode
from tests.support.store_history import History


@pytest.mark.parametrize("seed", range(40))
def test_a_start_finds_a_prefix_of_the_history(seed: int) -> None:
    History(seed, "async" if seed % 5 == 4 else "sync").run(120)


def test_many_more_of_them(is_long: bool) -> None:
    if not is_long:
        pytest.skip("the long form runs more seeds")
    for seed in range(1000, 2000):
        try:
            History(seed, "async" if seed % 5 == 4 else "sync").run(150)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


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
