"""Stores of earlier versions are exported row by row as the version of c123f83 exported them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from spark_bridge.plan import make_plan, read_pieces
from spark_bridge.selection import parse
from tests.support.store.store_copy import unpack_vector


@pytest.mark.parametrize(
    ("name", "row_count", "digest"),
    [
        ("v1", 48, "e598157854f7e535"),
        ("c123f83", 48, "e598157854f7e535"),
        ("v2", 28, "3a7c1cf0fe3ff2a1"),
        ("v3", 3, "dd5da35c2b233b70"),
    ],
)
def test_every_row_is_as_it_was(tmp_path: Path, name: str, row_count: int, digest: str) -> None:
    plan = make_plan(StoreReader(unpack_vector(name, tmp_path)), parse(">"))
    rows = [
        row for pieces in plan.partitions for batch in read_pieces(plan, pieces, 1_000) for row in batch.to_pylist()
    ]
    rows.sort(key=lambda row: int(row["log_offset"]))
    assert len(rows) == row_count
    assert sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()[:16] == digest
