"""The demo's orders and its comparisons; the whole of it runs in tests/interop/test_demo.py."""

from __future__ import annotations

from collections import Counter

from gateway.cli import demo
from gateway.cli.demo import CONSUMED, DEAD_LETTER_QUEUE, ORDERS, UNREADABLE_EVERY, Row
from gateway.cli.demo_worker import UNREADABLE


def test_orders_are_as_many_as_announced() -> None:
    orders = list(demo.orders())
    assert Counter(destination for destination, _ in orders) == {f"/queue/{name}": n for name, n in ORDERS.items()}
    assert len(orders) == 50_000
    unreadable = [destination for destination, body in orders if body.startswith(UNREADABLE)]
    assert Counter(unreadable) == {f"/queue/{name}": ORDERS[name] // UNREADABLE_EVERY for name in CONSUMED}


def agreeing_rows() -> dict[str, Row]:
    rows = {name: Row(sent=count, exported={"pending": count}) for name, count in ORDERS.items()}
    rows["orders.eu"] = Row(
        sent=15_000,
        acknowledged=14_000,
        redelivered=30,
        dead_lettered=15,
        exported={"acknowledged": 14_000, "dead-lettered": 15, "pending": 985},
    )
    rows[DEAD_LETTER_QUEUE] = Row(sent=15, exported={"pending": 15})
    return rows


def stats_of(rows: dict[str, Row]) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "kind": "queue",
            "enqueued": row.sent,
            "acknowledged": row.acknowledged,
            "redelivered": row.redelivered,
            "dead_lettered": row.dead_lettered,
            "depth": row.sent - row.acknowledged - row.dead_lettered,
        }
        for name, row in rows.items()
    ]


def test_agreement_is_no_problem() -> None:
    rows = agreeing_rows()
    assert demo.disagreements(rows, stats_of(rows)) == []
    assert demo.export_disagreements(rows) == []


def test_gateway_that_counts_otherwise_is_a_problem() -> None:
    rows = agreeing_rows()
    stats = stats_of(rows)
    rows["orders.eu"].acknowledged += 1
    problems = demo.disagreements(rows, stats)
    assert "orders.eu: acknowledged is 14000 for the gateway, 14001 for its clients" in problems


def test_destination_that_the_gateway_lacks_is_a_problem() -> None:
    rows = agreeing_rows()
    stats = [each for each in stats_of(rows) if each["name"] != DEAD_LETTER_QUEUE]
    assert demo.disagreements(rows, stats) == [f"the gateway does not know {DEAD_LETTER_QUEUE}"]


def test_export_that_lacks_a_message_is_a_problem() -> None:
    rows = agreeing_rows()
    rows["orders.eu"].exported["pending"] -= 1
    assert len(demo.export_disagreements(rows)) == 1


def test_orders_that_were_not_sent_are_a_problem() -> None:
    rows = agreeing_rows()
    rows["orders.us"] = Row(sent=1, exported={"pending": 1})
    assert len(demo.export_disagreements(rows)) == 1


def test_table_has_a_line_for_each_destination() -> None:
    lines = demo.table(agreeing_rows()).splitlines()
    assert lines[0].split() == ["destination", "sent", "acknowledged", "redelivered", "dead-lettered", "exported"]
    assert lines[1].split() == ["orders.eu", "15,000", "14,000", "30", "15", "15,000"]
    assert len({len(line) for line in lines}) == 1
