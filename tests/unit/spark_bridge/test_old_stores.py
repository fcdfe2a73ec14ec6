"""Stores of earlier versions are exported row by row as the version of c123f83 exported them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from engine.store.read.message_history import SENT, biography
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.destination import SCHEDULE_QUEUE
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.lake_rows import lake_rows
from tests.support.store.store_copy import unpack_vector

LATER = ("lane", "content_type", "sender_message_id", "user_id", "group_id", "group_sequence", "sent_time")


@pytest.mark.parametrize(
    ("name", "row_count", "digest"),
    [
        ("v1", 48, "45ec1d23860e69ac"),
        ("c123f83", 48, "45ec1d23860e69ac"),
        ("v2", 28, "2b96520f9d2f69b6"),
        ("v3", 3, "473854f9e636313c"),
    ],
)
def test_every_row_is_as_it_was(tmp_path: Path, name: str, row_count: int, digest: str) -> None:
    plan = make_plan(StoreReader(unpack_vector(name, tmp_path)), parse(">"), body="binary")
    rows = [
        row for pieces in plan.partitions for batch in read_pieces(plan, pieces, 1_000) for row in batch.to_pylist()
    ]
    for row in rows:
        del row["body_text"]  # of every row with --body binary
        assert dict(row.pop("properties")).keys() <= dict(row["headers"]).keys()  # a later column
        assert row["message_id"] == f"ID:{row.pop('store')}-{row['log_offset']}"
        for name in LATER:
            del row[name]
    rows.sort(key=lambda row: int(row["log_offset"]))
    assert len(rows) == row_count
    assert sha256(json.dumps(rows, default=str, sort_keys=True).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("name", ["v1", "c123f83", "v2", "v3"])
def test_deliveries_of_an_old_store_are_those_of_its_messages(tmp_path: Path, name: str) -> None:
    directory = unpack_vector(name, tmp_path)
    reader = StoreReader(directory)
    told = []
    for pattern in (">", SCHEDULE_QUEUE):
        for message in lake_rows(directory, pattern):
            life = biography(reader, message["message_id"])
            told += [(event.offset, message["log_offset"]) for event in life.events if event.kind != SENT]
    rows = [row for pattern in (">", SCHEDULE_QUEUE) for row in lake_rows(directory, pattern, "deliveries")]
    messages = {row["log_offset"] for pattern in (">", SCHEDULE_QUEUE) for row in lake_rows(directory, pattern)}
    found = [(row["log_offset"], row["message_offset"]) for row in rows if row["message_offset"] in messages]
    assert sorted(found) == sorted(told)
    assert found
