"""Compaction that looks at a segment of more queues than one turn takes."""

from __future__ import annotations

from dataclasses import replace

from engine.store.log.segment import load_segment
from engine.store.space.space_maker import LANES_AT_ONCE
from engine.values.destination import QUEUE
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_home import THINNING, FileHome, message


def settle(home: FileHome, queue: int, size: int, count: int = 1) -> None:
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, count, 0, size * count)])


def is_sparse(home: FileHome) -> bool:
    name = home.files.paths(".log")[0].rpartition("/")[2]
    return load_segment(home.files, "data/commitlog", name)[0].is_sparse


def test_what_is_settled_between_two_turns_of_a_look_waits_until_that_is_durable() -> None:
    home = FileHome(replace(THINNING, segment_bytes=1 << 18))
    filling = home.store.open_destination(QUEUE, "filling")
    queues = [home.store.open_destination(QUEUE, f"q{number}") for number in range(LANES_AT_ONCE)]
    for queue in queues:
        sent = message(queue)
        home.store.append(sent)
    for queue in queues[1:-1]:
        settle(home, queue, sent.size)
    home.send(filling, 1_000, 200)
    settle(home, filling, home.send(filling, 1, 200)[0].size, 1_001)
    home.flush()
    assert len(home.files.paths(".log")) > 1
    home.pass_time(THINNING.compaction_interval_ms)
    settle(home, queues[-1], sent.size)
    home.store.write()
    home.pass_by(2_000)
    assert not is_sparse(home)
    home.flush()
    home.pass_by(2_000)
    assert is_sparse(home)
