"""Filters leave out rows that nobody wants, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", minversion="4.1")  # older ones have no filters

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as filters

from engine.values.destination import TOPIC
from engine.values.errors import RangeGone
from engine.values.outcomes import ACKNOWLEDGED, EXPIRED
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES
from spark_bridge.read.filters import EVERYTHING, row_filter
from spark_bridge.read.scan import plan_read
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")

Rows = list[dict[str, Any]]


def fill(store: SampleStore, is_clean: bool) -> None:
    """Send a message each hour to three destinations in turn, and settle a few."""
    orders, more, prices = store.destination("orders"), store.destination("more"), store.destination("p", TOPIC)
    for number in range(60):
        store.now_ms = DAY_ONE_MS + number * 3_600_000
        store.send((orders, more, prices)[number % 3], b"x" * 200, priority=4 + number % 2)
    store.settle(orders, (0, 4), outcome=ACKNOWLEDGED)
    store.settle(more, (1, 3), outcome=EXPIRED, priority=5)
    store.publish(is_clean=is_clean)


@pytest.fixture(params=[True, False], ids=["from consume queues", "with a tail"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=4096) as sample:
        fill(sample, request.param)
        yield sample


def read(store: SampleStore, table: str, *asked: Any, **more: str) -> Rows:
    options = {"path": str(store.directory), "table": table, "partition-bytes": "3000"} | more
    planned = plan_read(options, wanted=row_filter(asked, table))
    return [row for task in range(planned.tasks()) for batch in planned.rows(task) for row in batch.to_pylist()]


HOURS = st.integers(-1, 61).map(lambda hours: datetime.fromtimestamp(DAY_ONE_MS // 1000, UTC) + timedelta(hours=hours))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "destination": st.sampled_from(["queue://orders", "topic://p", "queue://p"]),
    "destination_kind": st.sampled_from(["queue", "topic"]),
    "destination_name": st.sampled_from(["orders", "more", "nothing"]),
    "delivery_state": st.sampled_from(["pending", "acknowledged", "expired", "published", "odd"]),
    "outcome": st.sampled_from(["acknowledged", "expired"]),
    "store_time": HOURS | HOURS.map(lambda time: time + timedelta(microseconds=1)),
    "date": HOURS.map(datetime.date),
}
COMPARED = {
    "EqualTo": "__eq__",
    "EqualNullSafe": "__eq__",
    "GreaterThan": "__gt__",
    "GreaterThanOrEqual": "__ge__",
    "LessThan": "__lt__",
    "LessThanOrEqual": "__le__",
}


@st.composite
def one_filter(draw: st.DrawFn, columns: list[str], offsets: list[int]) -> Any:
    """Draw a filter of one of the columns.  offsets: of records; others are between and beyond them."""
    at = st.sampled_from(offsets) | st.sampled_from(offsets).map(lambda offset: offset + 1)
    ids = at.map(lambda offset: f"ID:0badcafe-{offset}") | st.just("ID:of-another")
    values = VALUES | {"log_offset": at, "message_id": ids}
    column = draw(st.sampled_from(columns))
    kind = draw(st.sampled_from([*COMPARED, "In", "Not"]))
    if kind == "In":
        return filters.In((column,), tuple(draw(st.lists(values[column], max_size=3))))
    value = draw(values[column])
    return filters.Not(filters.EqualTo((column,), value)) if kind == "Not" else getattr(filters, kind)((column,), value)


def holds(one: Any, row: dict[str, Any]) -> bool:
    match type(one).__name__:
        case "Not":
            return not holds(one.child, row)
        case "In":
            return row[one.attribute[0]] in one.value
        case kind:
            return bool(getattr(row[one.attribute[0]], COMPARED[kind])(one.value))


COLUMNS = {
    MESSAGES: [*(name for name in VALUES if name != "outcome"), "log_offset", "message_id"],
    DELIVERIES: ["destination", "destination_name", "log_offset", "store_time", "date", "outcome", "message_id"],
}


@pytest.fixture
def whole(store: SampleStore, table: str) -> Rows:
    return read(store, table)


@pytest.mark.parametrize("table", COLUMNS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
@given(data=st.data())
def test_filtered_again_the_rows_are_those_of_a_whole_read(
    store: SampleStore, table: str, whole: Rows, data: st.DataObject
) -> None:
    offsets = [row["log_offset"] for row in whole]
    asked = data.draw(st.lists(one_filter(COLUMNS[table], offsets), min_size=1, max_size=3))

    def chosen(rows: Rows) -> Rows:
        return [row for row in rows if all(holds(one, row) for one in asked)]

    assert chosen(read(store, table, *asked)) == chosen(whole)


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (filters.EqualTo(("destination",), "queue://orders"), 20),
        (filters.In(("destination_kind",), ("topic",)), 20),
        (filters.EqualTo(("delivery_state",), "acknowledged"), 4),
        (filters.EqualTo(("delivery_state",), "published"), 20),
        (filters.LessThan(("store_time",), datetime.fromtimestamp(DAY_ONE_MS // 1000 + 7200, UTC)), 3),
        (filters.EqualTo(("date",), date(2023, 11, 15)), 24),
        (filters.GreaterThan(("log_offset",), 1 << 40), 0),
    ],
    ids=str,
)
def test_from_consume_queues_nothing_else_is_read(tmp_path: Path, asked: Any, count: int) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=4096) as store:
        fill(store, True)
        assert len(read(store, MESSAGES, asked)) == count
        wanted = read(store, MESSAGES)[7]
        assert read(store, MESSAGES, filters.EqualTo(("message_id",), wanted["message_id"])) == [wanted]


def test_what_sets_no_bound() -> None:
    asked = [
        filters.EqualTo(("headers", "x"), "1"),
        filters.EqualTo(("body_text",), "x"),
        filters.EqualTo(("delivery_state",), None),
        filters.IsNotNull(("destination",)),
        filters.StringStartsWith(("destination",), "queue://"),
        filters.Not(filters.EqualTo(("log_offset",), 5)),
        filters.EqualTo(("message_id",), "odd"),
        filters.EqualTo(("store_time",), datetime(2026, 1, 1)),
        filters.In(("log_offset",), ()),
    ]
    assert row_filter(asked, MESSAGES) == EVERYTHING
    assert row_filter([filters.EqualTo(("delivery_state",), "x")], DELIVERIES) == EVERYTHING


def test_a_filter_behind_what_retention_dropped(store: SampleStore) -> None:
    sent = [row["log_offset"] for row in read(store, MESSAGES)]
    store.drop_first_segment()
    store.publish()
    with pytest.raises(RangeGone):
        plan_read({"path": str(store.directory), "from-offset": "0"})
    late = filters.GreaterThan(("log_offset",), sent[-3])
    assert [row["log_offset"] for row in read(store, MESSAGES, late, **{"from-offset": "0"})][-2:] == sent[-2:]
