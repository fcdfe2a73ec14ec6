from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.format.layout import ENTRIES_PER_FILE, ENTRY_BYTES
from engine.store.queues.consume_queue_files import ConsumeQueueFiles, file_first, file_name
from engine.store.state.consume_queue import EntryBlock
from engine.values.errors import StoreCorrupt
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.disk.spoiling_files import SpoilingFiles

ROOT = "data/consumequeue"


def opened(files: FaultyFiles) -> ConsumeQueueFiles:
    files.make_directory(ROOT)
    return ConsumeQueueFiles(files, ROOT)


def entries(first: int, count: int) -> bytearray:
    return bytearray(b"".join(number.to_bytes(ENTRY_BYTES, "little") for number in range(first, first + count)))


def test_names() -> None:
    assert file_name(262_144) == "00000000000000262144.cq"
    assert file_first("00000000000000262144.cq") == 262_144
    for name in ("00000000000000262144", "x.cq", ".cq", "1.log"):
        assert file_first(name) == -1


def test_a_block_is_stored_at_its_place_and_survives() -> None:
    files = FaultyFiles()
    queues = opened(files)
    queues.store([EntryBlock(1, 4, 0, entries(0, 5)), EntryBlock(2, 9, 0, entries(0, 1))])
    queues.store([EntryBlock(1, 4, 5, entries(5, 2))])
    after = files.crash()
    assert after.octets(f"{ROOT}/1/4/{file_name(0)}") == entries(0, 7)
    assert opened(after).found(1, 4) == (0, 7)
    assert opened(after).queues() == [(1, 4), (2, 9)]
    assert opened(after).found(3, 4) == (0, 0)


def test_a_block_may_reach_over_the_end_of_a_file() -> None:
    files = FaultyFiles()
    queues = opened(files)
    first = ENTRIES_PER_FILE - 2
    queues.store([EntryBlock(1, 4, first, entries(first, 5))])
    assert files.paths(".cq") == [f"{ROOT}/1/4/{file_name(0)}", f"{ROOT}/1/4/{file_name(ENTRIES_PER_FILE)}"]
    assert files.octets(f"{ROOT}/1/4/{file_name(ENTRIES_PER_FILE)}") == entries(ENTRIES_PER_FILE, 3)
    assert queues.found(1, 4) == (0, ENTRIES_PER_FILE + 3)
    queues.truncate(1, 4, ENTRIES_PER_FILE + 1)
    assert queues.found(1, 4) == (0, ENTRIES_PER_FILE + 1)
    queues.truncate(1, 4, 7)
    assert queues.found(1, 4) == (0, 7)
    queues.truncate(1, 4, 0)
    assert queues.found(1, 4) == (0, 0)


def test_storing_again_after_a_failure_makes_the_names_durable_too() -> None:
    for operation in ("fsync", "sync_directory", "pwrite", "create"):
        files = FaultyFiles(seed=5)
        queues = opened(files)
        files.fail(operation, errno.EIO, "1/4")
        block = EntryBlock(1, 4, 0, entries(0, 3))
        with pytest.raises(OSError, match="Input/output"):
            queues.store([block])
        queues.store([block])
        assert files.crash().octets(f"{ROOT}/1/4/{file_name(0)}") == entries(0, 3), operation


def test_many_files_are_synced_at_once() -> None:
    files = FaultyFiles()
    files.make_directory(ROOT)
    queues = ConsumeQueueFiles(files, ROOT, whole_sync_files=3)
    files.fail("fsync", errno.EIO, count=99)
    files.fail("sync_directory", errno.EIO, count=99)
    queues.store([EntryBlock(number, 4, 0, entries(0, number)) for number in (1, 2, 3)])
    after = files.crash()
    assert [opened(after).found(number, 4) for number in (1, 2, 3)] == [(0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("is_whole", [False, True])
@pytest.mark.parametrize("skip", [0, 1])
def test_a_file_whose_sync_has_failed_gets_a_successor(skip: int, is_whole: bool) -> None:
    files = SpoilingFiles(seed=3)
    files.make_directory(ROOT)
    queues = ConsumeQueueFiles(files, ROOT, whole_sync_files=2 if is_whole else 99)
    queues.store([EntryBlock(number, 4, 0, entries(0, 3)) for number in (1, 2)])
    blocks = [EntryBlock(number, 4, 3, entries(3, 4)) for number in (1, 2)]
    files.fail("fsync", errno.EIO, skip=skip)
    files.fail("syncfs", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        queues.store(blocks)
    if is_whole:
        for number in (1, 2):
            files.inode(f"{ROOT}/{number}/4/{file_name(0)}").is_spoiled = True
        files.faults.clear()
    for operation in ("fsync", "rename", "sync_directory"):
        files.fail(operation, errno.EIO, "1/4" if operation == "fsync" else "")
        with suppress(OSError):
            queues.store(blocks)
    files.heal()
    queues.store(blocks)
    queues.store([EntryBlock(number, 4, 7, entries(7, 2)) for number in (1, 2)])
    after = files.crash()
    for number in (1, 2):
        assert after.octets(f"{ROOT}/{number}/4/{file_name(0)}") == entries(0, 9)
    assert opened(after).extent(1, 4) == (0, 9, True)


def test_a_successor_keeps_the_entries_behind_those_that_are_written() -> None:
    files = FaultyFiles()
    queues = opened(files)
    queues.store([EntryBlock(1, 4, 0, entries(0, 9))])
    files.fail("fsync", errno.EIO)
    for _ in range(2):
        with suppress(OSError):
            queues.store([EntryBlock(1, 4, 2, entries(2, 3))])
    assert files.crash().octets(f"{ROOT}/1/4/{file_name(0)}") == entries(0, 9)


def test_what_could_not_be_synced_at_once_is_written_again() -> None:
    for seed in range(20):
        files = FaultyFiles(seed)
        files.make_directory(ROOT)
        queues = ConsumeQueueFiles(files, ROOT, whole_sync_files=2)
        blocks = [EntryBlock(number, 4, 0, entries(0, 100)) for number in (1, 2)]
        files.fail("syncfs", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            queues.store(blocks)
        queues.store(blocks)
        queues.close()
        after = files.crash()
        for number in (1, 2):
            assert after.octets(f"{ROOT}/{number}/4/{file_name(0)}") == entries(0, 100)


def test_without_a_sync_of_everything_each_file_is_synced(tmp_path: Path) -> None:
    class NoWholeSync(FaultyFiles):
        def open_whole(self, path: str) -> None:
            return None

    files = NoWholeSync()
    files.make_directory(ROOT)
    ConsumeQueueFiles(files, ROOT, whole_sync_files=1).store([EntryBlock(1, 4, 0, entries(0, 5))])
    assert files.crash().octets(f"{ROOT}/1/4/{file_name(0)}") == entries(0, 5)


def test_files_below_an_entry_are_dropped_as_a_whole() -> None:
    files = FaultyFiles()
    queues = opened(files)
    queues.store([EntryBlock(1, 4, 0, bytearray(ENTRIES_PER_FILE * ENTRY_BYTES + ENTRY_BYTES))])
    assert queues.drop_below(1, 4, ENTRIES_PER_FILE - 1) == 0
    assert queues.found(1, 4) == (0, ENTRIES_PER_FILE + 1)
    assert queues.drop_below(1, 4, ENTRIES_PER_FILE) == ENTRIES_PER_FILE
    assert queues.found(1, 4) == (ENTRIES_PER_FILE, ENTRIES_PER_FILE + 1)


def test_a_file_missing_between_two_others_is_noticed() -> None:
    files = FaultyFiles()
    queues = opened(files)
    queues.store([EntryBlock(1, 4, 0, bytearray((2 * ENTRIES_PER_FILE + 1) * ENTRY_BYTES))])
    files.unlink(f"{ROOT}/1/4/{file_name(ENTRIES_PER_FILE)}")
    with pytest.raises(StoreCorrupt, match=f"{ROOT}/1/4: the file with entry {ENTRIES_PER_FILE} is missing"):
        queues.found(1, 4)


def test_what_is_cut_off_a_full_file_stays_in_the_backup_that_shares_it(tmp_path: Path) -> None:
    root = str(tmp_path)
    queues = ConsumeQueueFiles(RealFiles(), root)
    queues.store([EntryBlock(1, 4, 0, entries(0, ENTRIES_PER_FILE))])
    path = tmp_path / "1" / "4" / file_name(0)
    os.link(path, tmp_path / "shared")
    (tmp_path / "1" / "4" / "00000000000000000000.cq.cut").write_bytes(b"left by a stop in between")
    queues.truncate(1, 4, 7)
    queues.store([EntryBlock(1, 4, 7, entries(1_000, 2))])
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == entries(0, 7) + entries(1_000, 2)
    assert (tmp_path / "shared").read_bytes() == entries(0, ENTRIES_PER_FILE)
