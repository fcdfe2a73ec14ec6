"""Rows of live traffic beside a backlog: only runs that were beside it all the time count."""

from __future__ import annotations

from typing import Any

from bench.deep import rows


def report(p50_ms: float, p99_ms: float, is_whole: bool = True, lost: int = 0) -> dict[str, Any]:
    latency = {"p50": p50_ms * 1000, "p99": p99_ms * 1000}
    return {"latency_us": latency, "is_whole": is_whole, "lost": lost, "duplicates": 0}


def found(selector: list[dict[str, Any]], drain: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "messages": 1_000,
        "live": {"alone": [report(0.5, 4.0)], "selector": selector, "drain": drain},
        "search_s": [2.0],
        "drain": {"consumed_per_s": 50_000},
    }


def test_latency_beside_is_compared_with_that_alone() -> None:
    table = rows(found([report(2.0, 28.0)], [report(2.0, 30.0), report(9.0, 99.0, is_whole=False)]))
    assert [row[3] for row in table] == ["", "reached", "MISSED", "reached"]
    assert table[2][1] == "p50 2.00 ms, p99 30.00 ms"


def test_a_backlog_that_is_read_too_soon_shows_what_there_is_and_losses_are_told() -> None:
    table = rows(found([report(2.0, 10.0, is_whole=False)], [report(6.0, 10.0, is_whole=False, lost=3)]))
    assert [row[3] for row in table] == ["", "reached", "MISSED", "MISSED"]
    assert table[3][1] == "3"
