"""The option ``where`` gives the rows of a whole read for which its conditions hold, and reads little else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.values.destination import TOPIC
from engine.values.errors import RangeGone
from engine.values.outcomes import ACKNOWLEDGED, EXPIRED
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES
from spark_bridge.read.filters import EVERYTHING, row_filter
from spark_bridge.read.scan import plan_read, scan
from spark_bridge.read.where import parse
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


def read(store: SampleStore, table: str, where: str = "", columns: tuple[str, ...] = (), **more: str) -> Rows:
    options = {"path": str(store.directory), "table": table, "partition-bytes": "3000", "where": where} | more
    planned = plan_read(options, columns)
    return [row for task in range(planned.tasks()) for batch in planned.rows(task) for row in batch.to_pylist()]


HOURS = st.integers(-1, 61).map(lambda hours: datetime.fromtimestamp(DAY_ONE_MS // 1000, UTC) + timedelta(hours=hours))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "destination": st.sampled_from(["queue://orders", "topic://p", "queue://p"]),
    "destination_kind": st.sampled_from(["queue", "topic"]),
    "destination_name": st.sampled_from(["orders", "more", "nothing"]),
    "delivery_state": st.sampled_from(["pending", "acknowledged", "expired", "published", "odd"]),
    "delivery_cause": st.sampled_from(["expired", "no"]),  # null in most rows
    "outcome": st.sampled_from(["acknowledged", "expired"]),
    "priority": st.integers(3, 6),  # only in records
    "lane": st.integers(3, 6),
    "store_time": HOURS | HOURS.map(lambda time: time + timedelta(microseconds=1)),
    "date": HOURS.map(datetime.date),
}
COMPARED = {"=": "__eq__", "<>": "__ne__", ">": "__gt__", ">=": "__ge__", "<": "__lt__", "<=": "__le__"}
COLUMNS = {
    MESSAGES: [*(name for name in VALUES if name != "outcome"), "log_offset", "message_id"],
    DELIVERIES: ["destination", "destination_name", "log_offset", "store_time", "date", "outcome", "message_id"],
}
Asked = tuple[str, str, list[Any]]


@st.composite
def one_condition(draw: st.DrawFn, columns: list[str], offsets: list[int]) -> Asked:
    """Draw a condition on one of the columns.  offsets: of records; others are between and beyond them."""
    at = st.sampled_from(offsets) | st.sampled_from(offsets).map(lambda offset: offset + 1)
    ids = at.map(lambda offset: f"ID:0badcafe-{offset}") | st.sampled_from(["ID:of-another", "ID:odd-1"])
    values = VALUES | {"log_offset": at, "message_id": ids}
    column = draw(st.sampled_from(columns))
    operator = draw(st.sampled_from([*COMPARED, "IN"]))
    return column, operator, draw(st.lists(values[column], min_size=1, max_size=3 if operator == "IN" else 1))


def written(asked: Asked) -> str:
    column, operator, values = asked
    texts = [str(value) if isinstance(value, int) else f"'{value}'" for value in values]
    return f"{column} {operator} ({', '.join(texts)})" if operator == "IN" else f"{column} {operator} {texts[0]}"


def holds(asked: Asked, row: dict[str, Any]) -> bool:
    column, operator, values = asked
    found = row[column]
    if found is None:
        return False
    return found in values if operator == "IN" else bool(getattr(found, COMPARED[operator])(values[0]))


@pytest.fixture
def whole(store: SampleStore, table: str) -> Rows:
    return read(store, table)


@pytest.mark.parametrize("table", COLUMNS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=80)
@given(data=st.data())
def test_the_rows_are_those_of_a_whole_read_that_is_filtered(
    store: SampleStore, table: str, whole: Rows, data: st.DataObject
) -> None:
    offsets = [row["log_offset"] for row in whole]
    asked = data.draw(st.lists(one_condition(COLUMNS[table], offsets), min_size=1, max_size=3))
    shown = data.draw(st.sampled_from([("log_offset",), ("date", "log_offset"), tuple(whole[0])]))
    where = " AND ".join(written(each) for each in asked)
    expected = [{name: row[name] for name in shown} for row in whole if all(holds(one, row) for one in asked)]
    assert read(store, table, where, shown) == expected


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ("destination = 'queue://orders'", 20),
        ("destination_kind IN ('topic')", 20),
        ("delivery_state = 'acknowledged'", 4),
        ("delivery_state = 'published' and lane=5", 10),
        (f"store_time < {DAY_ONE_MS + 7_200_001}", 3),
        ("date = '2023-11-15'", 24),
        (f"log_offset > {1 << 40}", 0),
    ],
)
def test_its_rows(tmp_path: Path, asked: str, count: int) -> None:
    with SampleStore(tmp_path / "data", segment_bytes=4096) as store:
        fill(store, True)
        assert len(read(store, MESSAGES, asked)) == count
        wanted = read(store, MESSAGES)[7]
        assert read(store, MESSAGES, f"message_id = '{wanted['message_id']}'") == [wanted]


def test_what_sets_no_bound() -> None:
    conditions = "body_text = 'it''s' AND log_offset <> 5 AND message_id = 'odd' AND delivery_cause IN ('x', 'y')"
    assert row_filter(parse(conditions, MESSAGES), MESSAGES) == EVERYTHING
    assert parse(conditions, MESSAGES)[0].values == ("it's",)
    assert row_filter(parse("message_id = 'ID:0-5'", DELIVERIES), DELIVERIES) == EVERYTHING
    assert parse("  ", MESSAGES) == ()


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("colour = 1", "'colour' cannot be compared; of messages these can: destination, "),
        ("headers = 'x'", "'headers' cannot be compared"),
        ("log_offset = '5'", "log_offset is compared with '5'; it takes a whole number"),
        ("destination = 5", "destination is compared with 5; it takes a text in quotes"),
        ("store_time > 'nine'", "store_time is compared with 'nine'; it takes a time such as"),
        ("store_time > 999999999999999999", "it takes a time such as"),
        ("date > '2023'", "it takes a date such as"),
        ("lane = 1 OR lane = 2", "is not understood from 'lane = 1 OR lane = 2' on; it takes comparisons"),
        ("lane = 1 AND", "is not understood from '' on"),
        ("lane IN ()", "is not understood from"),
        ("lane = 1 AND destination = 'open", 'is not understood from "destination = \'open" on'),
        ("lane = 1234567890123456789", "is not understood from"),
    ],
)
def test_what_it_does_not_take(store: SampleStore, where: str, told: str) -> None:
    with pytest.raises(ValueError, match="option 'where'") as error:
        scan(str(store.directory), where=where)
    assert told in str(error.value)


def test_behind_what_retention_dropped(store: SampleStore) -> None:
    sent = [row["log_offset"] for row in read(store, MESSAGES)]
    store.drop_first_segment()
    store.publish()
    with pytest.raises(RangeGone):
        plan_read({"path": str(store.directory), "from-offset": "0"})
    late = read(store, MESSAGES, f"log_offset > {sent[-3]}", from_offset="0")
    assert [row["log_offset"] for row in late] == sent[-2:]
