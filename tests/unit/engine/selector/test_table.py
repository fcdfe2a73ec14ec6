"""Many selectors at once: the table finds what each selector by itself would."""

from __future__ import annotations

from random import Random

import pytest

from engine.selector.evaluate import compile_selector
from engine.selector.properties import Properties
from engine.selector.table import SelectorTable
from tests.support.engine.selector_properties import (
    ConvertedProperties,
    TypedProperties,
    stomp_message,
    stomp_properties,
)

TEXTS = (
    "a = 'x'",
    "'x' = a",
    "a = 'y'",
    "a IN ('x', 'y', 'x')",
    "a NOT IN ('x')",
    "a = 'x' AND b = '1'",
    "b > 1 AND a = 'y'",
    "a = 'x' OR b = '2'",
    "NOT a = 'x'",
    "a <> 'x'",
    "b = 1",
    "b = '1'",
    "a = b",
    "a IS NULL",
    "a LIKE 'x%'",
    "(a = 'y' AND b = 2) AND c = 'z'",
)


@pytest.mark.parametrize("kind", [TypedProperties, ConvertedProperties])
def test_the_table_finds_what_each_selector_matches(kind: type[TypedProperties]) -> None:
    table = SelectorTable()
    selectors = {number: compile_selector(text) for number, text in enumerate(TEXTS)}
    for number, selector in selectors.items():
        table.add(number, selector)
    chance = Random(3)
    for _ in range(500):
        names = {name: chance.choice(("x", "y", "1", "2", 1, 2.0, True, None)) for name in "abc"}
        properties: Properties = kind(names)
        found = table.matching(properties)
        assert sorted(found) == [number for number, one in selectors.items() if one.matches(properties)], names


def test_a_value_that_is_asked_for_is_looked_up_and_not_compared() -> None:
    table = SelectorTable()
    for number in range(1_000):
        table.add(number, compile_selector(f"JMSCorrelationID = 'c{number}'"))
    assert table.others == {}
    assert table.matching(stomp_properties(stomp_message(b"correlation-id:c77\n"))) == [77]
    assert table.matching(stomp_properties(stomp_message(b""))) == []


def test_what_is_removed_is_not_found_and_leaves_nothing() -> None:
    table = SelectorTable()
    for number, text in enumerate(TEXTS):
        table.add(number, compile_selector(text))
    for number in range(len(TEXTS)):
        table.remove(number)
        assert number not in table.matching(ConvertedProperties({"a": "x", "b": "1"}))
    assert (table.by_value, table.others, len(table)) == ({}, {}, 0)
