"""The table threat -> limit -> metric of docs/how-to/security.md, held against the schema and a real gateway."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from config.address_schema import ADDRESS
from config.schema import SERVER
from tests.support.process.gateway_process import GatewayProcess

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "security.md"
LISTS = {"permissions", "users"}  # of the configuration, with keys of their own
HEADERS = {"Host", "Origin"}  # of HTTP, which are compared with what is allowed
ROWS_LEAST = 20


def rows() -> list[list[str]]:
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| threat | limit"))
    table = takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def keys(tree: object) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, below in tree.items():
            yield key
            for name in keys(below):
                yield f"{key}.{name}"


def test_each_limit_of_the_table_is_a_setting() -> None:
    settings = {*keys(SERVER), *keys(ADDRESS), *LISTS, *HEADERS}
    ends = settings | {name.partition(".")[2] for name in settings} | {name.rpartition(".")[2] for name in settings}
    assert len(rows()) >= ROWS_LEAST
    named = {name.partition(":")[0] for row in rows() for name in re.findall("`([^`]+)`", row[1])}
    assert named - ends == set()


def test_each_metric_of_the_table_is_exported(attacked: GatewayProcess) -> None:
    exported = set(re.findall(r"^# TYPE (\w+) ", attacked.get("/metrics")[1], re.MULTILINE))
    named = {name for row in rows() for name in re.findall(r"penstock_\w+", row[2])}
    assert named and named - exported - {f"{name}_total" for name in exported} == set()
