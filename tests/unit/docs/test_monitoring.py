"""The alert rules and the dashboard: each expression is one of PromQL, about metrics that the gateway has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from engine.values.broker_stats import AddressStats
from engine.values.histogram import SYNC_BOUNDS_S, Histogram
from gateway.process.counters import GatewayCounters
from gateway.web.resources.metrics import render
from tests.support.engine.snapshots import broker, destination, with_histograms

MONITORING: Final = Path(__file__).resolve().parents[3] / "docs" / "monitoring"
OF_PROMETHEUS: Final = {"up"}
NAME: Final = re.compile(r"\b(?:penstock|process)_[a-z_]+|\bup\b")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    return found


def expressions() -> list[str]:
    asked = [rule["expr"] for rule in rules()]
    asked += [target["expr"] for panel in panels() for target in panel["targets"]]
    return [one.replace("$__rate_interval", "1m") for one in asked]


def test_every_name_is_a_metric_of_the_gateway() -> None:
    stats = broker(destination("orders"))
    stats.addresses.append(AddressStats("a", "BLOCK", 0, 1, 0, 1, False, 0, 0))
    page, _ = render(with_histograms(stats), counters=GatewayCounters(sync_times=Histogram(SYNC_BOUNDS_S)))
    known = {sample for family in text_string_to_metric_families(page.decode()) for sample in _samples(family)}
    asked = {name for one in expressions() for name in NAME.findall(one)}
    assert asked - known - OF_PROMETHEUS == set()
    assert len(asked) > 30


def _samples(family: Any) -> set[str]:
    if family.type == "histogram":
        return {f"{family.name}_{part}" for part in ("bucket", "count", "sum")}
    return {f"{family.name}_total" if family.type == "counter" else family.name}


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_is_promql(expression: str) -> None:
    promql = pytest.importorskip("promql_parser", reason="needs promql-parser")
    assert promql.parse(expression)


def test_every_alert_says_what_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert taken.isdisjoint(cells) and grid["x"] + grid["w"] <= 24
        taken |= cells
