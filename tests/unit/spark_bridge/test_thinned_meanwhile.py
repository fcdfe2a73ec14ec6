"""Segments that become sparse after an export has planned to scan them."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.destination import QUEUE
from engine.ports import ACKNOWLEDGED, CAUSE_NONE, Range
from engine.store.settings import StoreSettings
from spark_bridge.plan import make_plan, read_pieces
from spark_bridge.records import Piece
from spark_bridge.selection import parse
from tests.support.store_copy import copy_to
from tests.support.store_home import FileHome

INTERVAL_MS = 1_000
ALIVE = 5


def test_what_is_left_of_them_is_read(tmp_path: Path) -> None:
    home = FileHome(
        StoreSettings(
            segment_bytes=8192,
            retention_bytes=0,
            retention_interval_ms=INTERVAL_MS,
            compaction_live_percent=60,
            compaction_min_age_ms=0,
            compaction_interval_ms=INTERVAL_MS,
        )
    )
    queue = home.store.open_destination(QUEUE, "orders")
    for entry in range(300):
        (sent,) = home.send(queue, 1)
        if entry != ALIVE:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    reader = copy_to(tmp_path / "before", home.files)
    plan = make_plan(reader, parse("orders"))
    pieces = [Piece(segment, segment.base, segment.span_end, False) for segment in reader.segments[:-1]]
    for _ in range(40):
        home.pass_time(100)
    after = copy_to(tmp_path / "after", home.files)
    assert after.segments[0].is_sparse and not reader.segments[0].is_sparse
    for segment in after.segments[:-1]:
        shutil.copy(segment.path, reader.directory / "commitlog" / segment.path.name)
    rows = [row for batch in read_pieces(plan, pieces) for row in batch.to_pylist()]
    assert [row["queue_offset"] for row in rows] == [ALIVE]
