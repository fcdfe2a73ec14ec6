"""The disk that tests trust to be untrustworthy."""

from __future__ import annotations

import errno

import pytest

from tests.support.disk.crash_points import StoppableFiles, disks_left_by
from tests.support.disk.disk_faults import REORDERED_WRITES, TORN_SECTOR
from tests.support.disk.disk_inode import SECTOR_BYTES
from tests.support.disk.faulty_files import Crashed, FaultyFiles


def prepared(seed: int = 0, without: frozenset[str] = frozenset()) -> FaultyFiles:
    files = FaultyFiles(seed, without=without)
    files.make_directory("data")
    return files


def test_synced_octets_survive_and_unsynced_sectors_sometimes() -> None:
    kept: set[tuple[bool, ...]] = set()
    for seed in range(40):
        files = prepared(seed, frozenset((TORN_SECTOR,)))
        file = files.create("data/file")
        file.pwrite(b"a" * 4 * SECTOR_BYTES, 0)
        file.fsync()
        files.sync_directory("data")
        file.pwrite(b"b" * 3 * SECTOR_BYTES, SECTOR_BYTES)
        octets = files.crash().octets("data/file")
        assert octets[:SECTOR_BYTES] == b"a" * SECTOR_BYTES
        sectors = [bytes(octets[at : at + SECTOR_BYTES]) for at in range(0, len(octets), SECTOR_BYTES)]
        assert all(len(set(sector)) == 1 for sector in sectors)
        kept.add(tuple(sector[:1] == b"b" for sector in sectors[1:]))
    assert len(kept) == 8


def test_one_sector_at_most_is_torn() -> None:
    torn_counts: set[int] = set()
    for seed in range(60):
        files = prepared(seed)
        file = files.create("data/file")
        file.pwrite(bytes(8 * SECTOR_BYTES), 0)
        file.fsync()
        files.sync_directory("data")
        file.pwrite(b"b" * 8 * SECTOR_BYTES, 0)
        octets = files.crash().octets("data/file")
        sectors = [bytes(octets[at : at + SECTOR_BYTES]) for at in range(0, len(octets), SECTOR_BYTES)]
        torn = [sector for sector in sectors if len(set(sector)) == 2]
        assert all(sector == sector.rstrip(b"\0").ljust(SECTOR_BYTES, b"\0") for sector in torn)
        torn_counts.add(len(torn))
    assert torn_counts == {0, 1}


def test_a_disk_that_keeps_the_order_of_writes() -> None:
    found: set[tuple[int, ...]] = set()
    for seed in range(60):
        files = prepared(seed, frozenset((REORDERED_WRITES,)))
        first, second = (files.create(f"data/{name}") for name in "ab")
        files.sync_directory("data")
        for number in range(3):
            first.pwrite(b"%d" % (number + 1), number)
            second.pwrite(b"%d" % (number + 1), number)
        files.rename("data/a", "data/c")
        after = files.crash()
        name = "data/c" if "data/c" in after.paths() else "data/a"
        sizes = tuple(len(after.octets(path)) for path in (name, "data/b"))
        assert name == "data/a" or sizes == (3, 3)
        found.add((*sizes, name == "data/c"))
    assert found == {(0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0), (2, 2, 0), (3, 2, 0), (3, 3, 0), (3, 3, 1)}


def test_the_same_seed_is_the_same_crash() -> None:
    def crashed(seed: int) -> bytes:
        files = prepared(seed)
        file = files.create("data/file")
        files.sync_directory("data")
        file.pwrite(bytes(range(256)) * 40, 0)
        return bytes(files.crash().octets("data/file"))

    assert crashed(7) == crashed(7)
    assert len({crashed(seed) for seed in range(20)}) > 10


def test_names_survive_in_the_order_of_their_changes() -> None:
    found: set[tuple[str, ...]] = set()
    for seed in range(40):
        files = prepared(seed)
        files.create("data/a")
        files.sync_directory("data")
        files.create("data/b")
        files.rename("data/b", "data/c")
        files.unlink("data/a")
        found.add(tuple(files.crash().paths()))
    assert found == {("data/a",), ("data/a", "data/b"), ("data/a", "data/c"), ("data/c",)}


def test_a_failed_sync_loses_what_a_later_one_claims() -> None:
    files = prepared()
    file = files.create("data/file")
    file.preallocate(SECTOR_BYTES)
    file.fsync()
    files.sync_directory("data")
    file.pwrite(b"x" * SECTOR_BYTES, 0)
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.fdatasync()
    file.fdatasync()
    assert file.pread(3, 0) == b"xxx"
    assert files.crash().octets("data/file") == bytes(SECTOR_BYTES)


def test_a_kill_keeps_what_was_written() -> None:
    files = prepared()
    files.create("data/file").pwrite(b"abc", 0)
    assert files.killed().octets("data/file") == b"abc"
    with pytest.raises(Crashed):
        files.list_directory("data")


def test_the_power_goes_at_the_operation_asked_for() -> None:
    files = prepared()
    files.crash_at = files.operations + 2
    file = files.create("data/file")
    with pytest.raises(Crashed):
        file.pwrite(b"abc", 0)
    with pytest.raises(Crashed):
        file.fsync()


def test_a_full_disk() -> None:
    files = prepared()
    file = files.create("data/file")
    files.free_bytes = 100
    file.preallocate(60)
    file.pwrite(b"x" * 60, 0)
    assert file.pwrite(b"x" * 50, 60) == 40, "the system takes what there is room for"
    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"x" * 10, 100)
    files.unlink("data/file")
    files.create("data/other").pwrite(b"x" * 100, 0)


def test_a_write_is_torn_by_the_end_of_its_process() -> None:
    sizes: set[int] = set()
    for seed in range(20):
        files = prepared(seed)
        file = files.create("data/file")
        files.crash_at = files.operations + 1
        for _ in range(2):  # what a dead process still asks for changes nothing
            with pytest.raises(Crashed):
                file.pwrite(b"x" * 10_000, 96)
        sizes.add(len(files.killed().octets("data/file")))
    assert sizes == {0, 4096, 8192, 10_096}


def test_what_the_system_could_not_write_of_its_own_accord_is_told_once() -> None:
    files = prepared(3)
    file = files.create("data/file")
    files.sync_directory("data")
    file.pwrite(b"x" * 20 * SECTOR_BYTES, 0)
    files.write_back(loss_rate=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        file.fdatasync()
    file.fdatasync()
    assert files.crash().octets("data/file").count(b"x") < 20 * SECTOR_BYTES


def test_locks() -> None:
    files = prepared()
    lock = files.lock("data/lock")
    assert lock is not None
    assert files.lock("data/lock") is None
    lock.close()
    assert files.lock("data/lock") is not None
    assert files.crash().lock("data/lock") is not None


def work(files: FaultyFiles) -> None:
    file = files.create("data/file")
    file.pwrite(b"x" * 10_000, 96)
    file.fdatasync()
    files.sync_directory("data")
    file.pwrite(b"y" * 9_000, 5_000)
    files.rename("data/file", "data/other")
    files.create("data/file").pwrite(b"z" * 600, 0)
    file.truncate(7_000)


@pytest.mark.parametrize("is_power_cut", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_kept_of_one_run_is_what_a_stop_at_each_operation_leaves(seed: int, is_power_cut: bool) -> None:
    files = StoppableFiles(seed)
    files.make_directory("data")
    left = [disk.contents() for disk in disks_left_by(files, lambda: work(files), is_power_cut)]
    assert len(files.stopped) == 9
    for number in range(1, 10):
        stopped = StoppableFiles(seed)
        stopped.make_directory("data")
        stopped.crash_at = stopped.operations + number
        with pytest.raises(Crashed):
            work(stopped)
        after = stopped.crash() if is_power_cut else stopped.killed()
        assert {path: bytes(after.octets(path)) for path in after.paths()} in left
