"""The states of a topic's messages by durable subscription."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_EXHAUSTED,
    CAUSE_NONE,
    CAUSE_NOT_SELECTED,
    CAUSE_PURGED,
    DEAD_LETTERED,
    DROPPED,
)
from engine.values.stored import Range
from spark_bridge.arrow.subscriptions import label
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome


def rows_of(home: FileHome, directory: Path, stop: int | None = None) -> list[dict[str, Any]]:
    plan = make_plan(copy_to(directory, home.files), parse(">"), stop=stop)
    return [row for pieces in plan.partitions for batch in read_pieces(plan, pieces, 7) for row in batch.to_pylist()]


def states(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [dict(row["subscription_states"]) for row in rows if row["destination_kind"] == "topic"]


@pytest.mark.parametrize("more", [0, 200], ids=["scanned", "listed"])
def test_each_subscription_has_its_own_states(tmp_path: Path, more: int) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    store = home.store
    topic, queue = store.open_destination(TOPIC, "news"), store.open_destination(QUEUE, "orders")
    mail = store.open_subscription(topic, "c1:mail", {})
    home.send(topic, 3)
    home.send(queue, 2)
    late = store.open_subscription(topic, "late", {})
    closed = store.open_subscription(topic, "c1:closed", {}, {4: 0})
    home.send(topic, 2)
    store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 2, 0, 0, [1, 1])])
    store.settle(mail, 0, DROPPED, CAUSE_NOT_SELECTED, [Range(4, 2, 1, 0, 1, (1,))])
    store.settle(late, 0, DEAD_LETTERED, CAUSE_EXHAUSTED, [Range(4, 4, 1, 0, 1, (1,))])
    store.settle(closed, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 3, 1, 0, 1, (1,))])
    store.settle(queue, 0, DROPPED, CAUSE_PURGED, [Range(4, 1, 1, 0, 1, (1,))])
    before = store.append_offset()
    store.close_destination(closed)
    for _ in range(more // 10):
        home.send_durably(queue, 10)
    home.flush()
    rows = rows_of(home, tmp_path)
    assert states(rows) == [
        {"c1:mail": "acknowledged"},
        {"c1:mail": "acknowledged"},
        {"c1:mail": "dropped: not-selected"},
        {"c1:mail": "pending", "late": "pending"},
        {"c1:mail": "pending", "late": "dead-lettered: exhausted"},
    ]
    of_queue = [row for row in rows if row["destination_kind"] == "queue"][:2]
    assert [row["subscription_states"] for row in of_queue] == [None, None]
    assert [(row["delivery_state"], row["delivery_cause"]) for row in of_queue] == [
        ("pending", None),
        ("dropped", "purged"),
    ]
    assert {row["delivery_state"] for row in rows if row["destination_kind"] == "topic"} == {"published"}
    if not more:
        (tmp_path / "earlier").mkdir()
        earlier = states(rows_of(home, tmp_path / "earlier", before))
        assert [each.get("c1:closed") for each in earlier] == [
            "pending",
            "pending",
            "pending",
            "acknowledged",
            "pending",
        ]


def test_a_topic_without_durable_subscriptions_has_empty_maps(tmp_path: Path) -> None:
    home = FileHome()
    home.send_durably(home.store.open_destination(TOPIC, "news"), 2)
    assert states(rows_of(home, tmp_path)) == [{}, {}]


def test_labels() -> None:
    assert label("c1:mail", {"c2:mail"}, 7) == "c1:mail"
    assert label("c1:mail", {"c1:mail"}, 7) == "c1:mail#7"
