"""Consume queues that were lost are made again at one start, whatever happens to it, and not at each one after it."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.format import layout
from engine.store.format.file_heads import unpack_checkpoint
from engine.store.read.selection import parse
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, SCHEDULE_QUEUE
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.many_segments import many_segments
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome, home_with_queue

SETTINGS = replace(THINNING, compaction_live_percent=0)


def fill(home: FileHome, queue: int, count: int, is_settled: bool) -> None:
    (first,) = [lane.tail for lane in home.store.state_of(queue).lanes] or [0]
    for entry in range(first, first + count):
        (sent,) = home.send(queue, 1)
        if is_settled:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()


def without_queues(home: FileHome) -> None:
    home.stop()
    for path in home.files.paths(".cq"):
        home.files.unlink(path)


def test_a_queue_of_which_the_log_has_nothing_left_is_no_reason_to_make_them_again() -> None:
    home = FileHome(SETTINGS)
    quiet = home.store.open_destination(QUEUE, "quiet")
    fill(home, quiet, 2, True)
    busy = home.store.open_destination(QUEUE, "busy")
    fill(home, busy, 200, True)
    home.pass_by(4_000)
    assert len(home.files.paths(".log")) == 1
    fill(home, busy, 200, False)
    without_queues(home)
    home.begin()
    assert "should be" in home.file_store.report.rebuilt
    home.pass_by(1_000)
    home.stop()
    home.begin()
    assert home.file_store.report.rebuilt == ""
    fill(home, quiet, 1, False)
    assert [each.queue_offset for each in home.page(quiet, 4, 0, 9).messages] == [2]
    home.stop()
    assert verify(home.files, "data").findings == []


@pytest.mark.damages_store("a consume queue is removed, and its start may fail")
@pytest.mark.parametrize("skip", range(0, 40, 3))
def test_what_a_start_that_failed_has_left_is_read_all_the_same(tmp_path: Path, skip: int) -> None:
    home, queue = home_with_queue(SETTINGS)
    other = home.store.open_destination(QUEUE, "other")
    fill(home, other, 50, False)
    fill(home, queue, 200, False)
    home.files = home.files.killed()
    (lost,) = [path for path in home.files.paths(".cq") if f"/{other}/" in path]
    home.files.unlink(lost)
    for operation in ("preallocate", "fsync", "pwrite", "truncate", "rename"):
        home.files.fail(operation, errno.EIO, skip=skip)
    try:
        home.begin()
    except StoreError:
        pass
    home.files.heal()
    home.files = home.files.killed()
    plan = make_plan(copy_to(tmp_path, home.files), parse("orders"))
    assert sum(len(batch) for pieces in plan.partitions for batch in read_pieces(plan, pieces)) == 200


def test_a_start_that_fails_while_queues_are_made_again_leaves_the_version_of_the_format() -> None:
    home, _ = many_segments()
    home.store.open_destination(QUEUE, SCHEDULE_QUEUE)
    without_queues(home)
    home.files.fail("fsync", 5, "checkpoint")
    with pytest.raises(StoreError, match="Input/output error"):
        home.begin()
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    assert (values.version, values.consume_queue_offset) == (layout.SCHEDULE_VERSION, 0)
