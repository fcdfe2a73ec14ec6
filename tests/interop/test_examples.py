"""The examples from the beginning, in small: a real gateway, Spark, and what their own clients saw."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext
from pyspark.sql import SparkSession

from examples.dead_letter_triage import pipeline as dead_letter_triage
from examples.orders_by_minute import orders as orders_of_a_morning
from examples.orders_by_minute import pipeline as orders_by_minute
from examples.shared.morning import Morning
from examples.slow_at_nine import orders as billed_orders
from examples.slow_at_nine import pipeline as slow_at_nine

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]  # pyspark's own warnings


@pytest.fixture
def session(spark: SparkContext) -> SparkSession:
    session = SparkSession(spark).newSession()
    session.conf.set("spark.sql.shuffle.partitions", 2)
    return session


def check_chart(path: Path, *texts: str) -> None:
    """The picture is XML and has these texts."""
    root = ElementTree.parse(path).getroot()
    found = {element.text for element in root.iter() if element.text}
    assert found.issuperset(texts)


def test_orders_by_minute(session: SparkSession, tmp_path: Path) -> None:
    minutes = 8
    table = orders_by_minute.run(session, tmp_path, minutes)
    orders = orders_of_a_morning.orders_between(0, minutes)
    counts = Counter((order.sent.replace(second=0, microsecond=0), f"orders.{order.region}") for order in orders)
    amounts: Counter[Any] = Counter()
    for order in orders:
        amounts[order.sent.replace(second=0, microsecond=0), f"orders.{order.region}"] += round(order.amount * 100)
    complete = orders_of_a_morning.OPENING + timedelta(minutes=minutes - 2)
    found = {(row.minute.astimezone(complete.tzinfo), row.queue): row for row in table.collect()}
    assert len(found) == table.count()
    assert {key: row.orders for key, row in found.items()} == {key: n for key, n in counts.items() if key[0] < complete}
    assert all(round(row.amount * 100) == amounts[key] for key, row in found.items())
    orders_by_minute.draw(tmp_path / "chart.svg", table)
    check_chart(tmp_path / "chart.svg", "Orders by minute", "eu", "08:00", "08:05")


def test_triage_of_dead_letters(session: SparkSession, tmp_path: Path) -> None:
    count = 20
    followed = dead_letter_triage.run(session, tmp_path, count)
    rows = followed.collect()
    fates = Counter((row.original_destination, row.cause, row.outcome) for row in rows)
    assert fates == {
        ("queue://orders.eu", "exhausted", "acknowledged"): 5,
        ("queue://orders.eu", "exhausted", None): 2,
        ("queue://orders.us", "expired", "acknowledged"): 4,
        ("queue://orders.us", "exhausted", None): 2,
        ("queue://invoices", "exhausted", None): 2,
    }
    assert all(row.client_id == "worker" for row in rows if row.outcome)
    assert len({row.original_message_id for row in rows}) == len(rows)
    dead = dead_letter_triage.open_dead_letters(session, tmp_path / "data")
    assert {row.message_id for row in dead.collect()} == {row.message_id for row in rows if row.outcome is None}
    assert dead_letter_triage.repaired(dead).count() == 0
    dead_letter_triage.draw(tmp_path / "chart.svg", followed)
    check_chart(tmp_path / "chart.svg", "replayed", "left", "orders.eu: exhausted", "orders.us: expired")


def test_what_slowed_at_nine(session: SparkSession, tmp_path: Path) -> None:
    with Morning(tmp_path) as morning:
        billed = billed_orders.bill_orders(morning)
    expected: dict[Any, list[float]] = {}
    for each in billed:
        key = (each.done.replace(second=0), each.worker)
        expected.setdefault(key, []).append((each.done - each.sent).total_seconds())
    table = slow_at_nine.time_in_queue(session, tmp_path / "data")
    utc = billed_orders.OPENING.tzinfo
    found = {
        (row.minute.astimezone(utc), row.client_id): (row.orders, row.median_s, row.longest_s)
        for row in table.collect()
    }
    assert found == {key: (len(each), median(each), max(each)) for key, each in expected.items()}
    waiting = Counter(each.worker for each in billed if each.sent < slow_at_nine.ASKED <= each.done)
    rows = slow_at_nine.waiting_at(session, tmp_path / "data", slow_at_nine.ASKED).collect()
    assert {row.client_id: row.orders for row in rows} == waiting
    assert waiting["billing-2"] == billed_orders.PREFETCH
    longest = {
        worker: max(max(each) for key, each in expected.items() if key[1] == worker) for worker in billed_orders.WORKERS
    }
    assert longest["billing-1"] < 10 and longest["billing-2"] > 300
    slow_at_nine.draw(tmp_path / "chart.svg", table)
    check_chart(tmp_path / "chart.svg", "billing-1", "billing-2", "08:50")
    # The same morning has the same picture: the one that its page shows.
    shown = Path(slow_at_nine.__file__).with_name("chart.svg")
    assert (tmp_path / "chart.svg").read_text() == shown.read_text()
