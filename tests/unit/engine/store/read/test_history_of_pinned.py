"""What is told of a message that alone keeps its segment, and those behind it: they are sparse."""

from __future__ import annotations

from pathlib import Path

from engine.store.read.message_history import FAILED, SENT, biography
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, home_with_queue

ALIVE = 5


def test_records_about_others_that_are_gone_do_not_hide_its_own(tmp_path: Path) -> None:
    home, queue = home_with_queue(THINNING)
    for entry in range(300):
        (sent,) = home.send(queue, 1)
        if entry != ALIVE:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        if entry == 100:
            home.store.fail_attempts(queue, 0, CAUSE_NACK, 0, [Range(4, ALIVE, 1, 1)])
        home.flush()
    home.pass_by(4_000)
    (alive,) = home.page(queue, 4, ALIVE, 1).messages
    reader = copy_to(tmp_path, home.files)
    assert sum(segment.is_sparse for segment in reader.segments) > 3
    life = biography(reader, f"ID:{home.store.store_id()}-{alive.log_offset}")
    assert [event.kind for event in life.events] == [SENT, FAILED]
