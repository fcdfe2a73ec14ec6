"""Java's numbers: what strings hold, where longs wrap, how divisions end."""

from __future__ import annotations

import math

import pytest

from engine.selector.arithmetic import LONG_MAX, LONG_MIN, compute, negated, number_of, wrapped


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("31", 31),
        ("-4", -4),
        ("+4", 4),
        ("007", 7),
        ("9223372036854775807", LONG_MAX),
        ("-9223372036854775808", LONG_MIN),
        ("9223372036854775808", 2.0**63),
        ("0000000000000000000001", 1.0),
        ("12.50", 12.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1e3", -1000.0),
        ("1e999", math.inf),
        ("", None),
        ("-", None),
        (".", None),
        (" 31", None),
        ("31\n", None),
        ("1_000", None),
        ("0x1F", None),
        ("\u0663\u0661", None),
        ("\u00b2", None),
        ("NaN", None),
        ("inf", None),
        ("abc", None),
    ],
)
def test_a_string_is_the_number_that_it_spells(text: str, number: int | float | None) -> None:
    found = number_of(text)
    assert found == number
    assert type(found) is type(number)


def test_a_string_of_many_digits_is_a_number() -> None:
    assert number_of("1" + "0" * 5_000) == math.inf


@pytest.mark.parametrize(
    ("value", "kept"),
    [(LONG_MAX, LONG_MAX), (LONG_MAX + 1, LONG_MIN), (LONG_MIN - 1, LONG_MAX), (2**64, 0), (2**64 - 1, -1)],
)
def test_a_long_wraps(value: int, kept: int) -> None:
    assert wrapped(value) == kept


def test_the_least_long_is_its_own_negation() -> None:
    assert negated(LONG_MIN) == LONG_MIN


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (LONG_MAX, "+", 1, LONG_MIN),
        (LONG_MIN, "-", 1, LONG_MAX),
        (LONG_MAX, "*", 2, -2),
        (LONG_MIN, "/", -1, LONG_MIN),
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (-7, "/", -2, 3),
        (7, "%", -2, 1),
        (-7, "%", 2, -1),
        (7, "/", 0, None),
        (7, "%", 0, None),
        (7, "/", 2.0, 3.5),
        (7.5, "-", 2, 5.5),
        (1e308, "*", 10, math.inf),
        (-7.5, "%", 2, -1.5),
        (7.5, "%", math.inf, 7.5),
        (1.0, "/", 0, math.inf),
        (-1.0, "/", 0, -math.inf),
        (1.0, "/", -0.0, -math.inf),
    ],
)
def test_computes_as_java_does(
    left: int | float, operator: str, right: int | float, result: int | float | None
) -> None:
    computed = compute(operator, left, right)
    assert computed == result
    assert type(computed) is type(result)


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [(0.0, "/", 0), (math.nan, "/", 0), (1.0, "%", 0), (math.inf, "%", 2), (math.inf, "-", math.inf)],
)
def test_what_has_no_value_is_not_a_number(left: float, operator: str, right: float) -> None:
    computed = compute(operator, left, right)
    assert computed is not None
    assert math.isnan(computed)
