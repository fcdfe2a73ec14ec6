"""Segments that become sparse after an export has planned to scan them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from engine.store.read.selection import parse
from engine.values.destination import QUEUE
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.log.records import Piece
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome

ALIVE = 5


def test_what_is_left_of_them_is_read(tmp_path: Path) -> None:
    home = FileHome(THINNING)
    queue = home.store.open_destination(QUEUE, "orders")
    for entry in range(300):
        (sent,) = home.send(queue, 1)
        if entry != ALIVE:
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent.size)])
        home.flush()
    reader = copy_to(tmp_path / "before", home.files)
    plan = make_plan(reader, parse("orders"))
    pieces = [Piece(segment, segment.base, segment.span_end, False) for segment in reader.segments[:-1]]
    home.pass_by(4_000)
    after = copy_to(tmp_path / "after", home.files)
    assert after.segments[0].is_sparse and not reader.segments[0].is_sparse
    for segment in after.segments[:-1]:
        shutil.copy(segment.path, reader.directory / "commitlog" / segment.path.name)
    rows = [row for batch in read_pieces(plan, pieces) for row in batch.to_pylist()]
    assert [row["queue_offset"] for row in rows] == [ALIVE]
    listed = [replace(piece, has_entries=True) for piece in pieces]
    by_entries = read_pieces(plan.of_table(MESSAGES, ["queue_offset"]), listed)
    assert [row["queue_offset"] for batch in by_entries for row in batch.to_pylist()] == [ALIVE]
