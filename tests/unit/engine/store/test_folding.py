"""Segments that become one sparse segment: empty ones behind each other, and what a failed sync has cut in two."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from engine.store.format.sparse_runs import NOT_THERE, Runs
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import SegmentFile, list_segments, open_segment
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.disk.crash_points import StoppableFiles, disks_left_by
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome, home_with_queue, lane

ALIVE = 5
COUNT = 300


def filled(home: FileHome) -> int:
    """Send messages and settle all but one, which stands in the first segment; return the queue."""
    queue = home.store.open_destination(QUEUE, "orders")
    for entry in range(COUNT):
        (sent,) = home.send(queue, 1)
        if entry != ALIVE:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    return queue


def bases(home: FileHome) -> list[int]:
    return [int(path.rpartition("/")[2][:20]) for path in home.files.paths(".log")]


def check(home: FileHome, queue: int) -> None:
    """The one message is there, also after a start without consume queues, and the store is sound."""
    (alive,) = home.page(queue, 4, ALIVE, 1).messages
    for is_deleted in (False, True):
        home.stop()
        assert verify(home.files, "data").findings == []
        if is_deleted:
            for path in home.files.paths(".cq"):
                home.files.unlink(path)
        home.begin()
        found = lane(home.store.recovered(), "orders")
        assert (found.tail, found.cursor, found.settled) == (COUNT, ALIVE, [(ALIVE + 1, COUNT - ALIVE - 1)])
        assert home.page(queue, 4, ALIVE, 1).messages[0].body == alive.body


def test_empty_segments_become_one() -> None:
    home = FileHome(THINNING)
    queue = filled(home)
    before = bases(home)
    assert len(before) > 6
    home.pass_by(8_000)
    # That of the message, all that are empty, and the one in use.
    assert bases(home) == [before[0], before[1], before[-1]]
    check(home, queue)


def test_they_take_in_those_that_come_later_and_go_with_the_message() -> None:
    home = FileHome(THINNING)
    queue = filled(home)
    home.pass_by(8_000)
    size = 0
    for _ in range(20):
        size = sum(each.size for each in home.send(queue, 10))
        home.flush()
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, COUNT, 200, 0, 20 * size)])
    home.flush()
    home.pass_by(8_000)
    assert len(bases(home)) == 3
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, ALIVE, 1, 0, size // 10)])
    home.flush()
    home.pass_by(8_000)
    assert len(bases(home)) == 1


def test_what_continues_a_segment_after_a_failed_sync_becomes_a_part_of_it() -> None:
    home, queue = home_with_queue(THINNING)
    sizes = [each.size for each in home.send(queue, 10)]
    home.flush()
    home.files.fail("fdatasync", errno.EIO)
    sizes += [each.size for each in home.send(queue, 10)]
    home.flush()
    home.pass_by(2_000)
    assert home.store.is_accepting()
    before = bases(home)
    for _ in range(28):
        sizes += [each.size for each in home.send(queue, 10)]
        home.flush()
    assert len(before) == 2  # the second one begins in the middle of the first one's room
    for first, end in ((0, ALIVE), (ALIVE + 1, COUNT)):
        freed = sum(sizes[first:end])
        home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, end - first, 0, freed)])
    home.flush()
    home.pass_by(8_000)
    assert before[0] in bases(home)
    assert before[1] not in bases(home)
    assert len(bases(home)) == 3
    check(home, queue)


def test_readers_that_knew_the_files_find_them_in_what_they_became(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    filled(home)
    known = copy_to(tmp_path, home.files)
    shutil.move(tmp_path / "data" / "commitlog", tmp_path / "old")
    home.pass_by(8_000)
    copy_to(tmp_path, home.files)
    octets = 0
    for segment in known.segments[:-1]:
        file = open_segment(segment)
        octets += len(file.pread(1000, segment.base))
        assert file.runs is not None
        file.close()
    assert octets  # the snapshots of the first two are there
    # Someone who looked at them one by one while they became one looks again.
    assert [each.base for each in list_segments(known.directory / "commitlog", known.store_id)] == bases(home)
    lost = SegmentFile(tmp_path / "data" / "commitlog" / "0.log", 0, 80, 80, False)
    with pytest.raises(StoreCorrupt, match=r"the file of that segment, 0\.log, is missing"):
        open_segment(lost)


@pytest.mark.parametrize("back", [2, 3])
def test_a_file_that_was_left_over_is_no_part_of_the_log(tmp_path: Path, back: int) -> None:
    home = FileHome(THINNING)
    queue = filled(home)
    paths = home.files.paths(".log")
    octets = {path: bytes(home.files.octets(path)) for path in paths}
    home.pass_by(8_000)
    home.stop()
    left_over = paths[back]
    file = home.files.create(left_over)
    file.pwrite(octets[left_over], 0)
    file.close()
    assert verify(home.files, "data").findings == []
    reader = copy_to(tmp_path, home.files)
    offsets = [record.offset for record in reader.scan(reader.first_offset, reader.end().offset)]
    assert offsets == sorted(set(offsets))
    home.begin()
    assert left_over not in home.files.paths(".log")
    check(home, queue)


@pytest.mark.parametrize("kind", ["crash", "killed"])
def test_a_crash_at_any_operation_leaves_all_of_it(kind: str) -> None:
    files = StoppableFiles(1)
    home = FileHome(THINNING, files=files)
    queue = filled(home)
    left = disks_left_by(files, lambda: home.pass_by(8_000), is_power_cut=kind == "crash")
    assert len(files.stopped) > 100
    for disk in left:
        assert verify(disk, "data").findings == []
        check(FileHome(THINNING, files=disk), queue)


def test_no_run_begins_after_the_last() -> None:
    runs = Runs()
    runs.add(0, 4096, 80)
    runs.add(160, 4176, 80)
    assert (runs.next_from(100), runs.next_from(239), runs.next_from(240)) == (160, 239, NOT_THERE)


def test_a_reader_sees_one_message(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    filled(home)
    home.pass_by(8_000)
    home.stop()
    reader = StoreReader(copy_to(tmp_path, home.files).directory)
    sent = [record.offset for record in reader.scan(0, reader.segments[-1].base) if record.type == 1]
    assert len(sent) == 1
