"""The form of expressions, the bounds of a selector and the texts of its errors."""

from __future__ import annotations

import pytest

from engine.selector.parser import LIKE_PATTERN_MAX, NESTING_MAX, parse
from engine.selector.syntax import And, Arithmetic, Comparison, Identifier, Like, Literal, Not, Or, Signed, write
from engine.values.errors import InvalidSelector

A, B, C = Identifier("a"), Identifier("b"), Identifier("c")


def test_or_holds_and_holds_not() -> None:
    assert parse("a OR NOT b AND c OR a") == Or((A, And((Not(B), C)), A))


def test_parentheses_make_a_level_of_their_own() -> None:
    assert parse("a AND (b AND c)") == And((A, And((B, C))))


def test_sums_hold_products_from_left_to_right() -> None:
    product = Arithmetic(B, (("*", C), ("/", A)))
    assert parse("a - b * c / a + 1 = 2") == Comparison(
        Arithmetic(A, (("-", product), ("+", Literal(1)))), "=", Literal(2)
    )


def test_signs_of_literals_are_part_of_them() -> None:
    assert repr(parse("-1 = - -1.5")) == repr(Comparison(Literal(-1), "=", Literal(1.5)))
    assert parse("-(+a) = +2") == Comparison(Signed("-", Signed("+", A)), "=", Literal(2))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", "TRUE"),
        ("((a)) and (((b or c)))", "a AND (b OR c)"),
        ("not(a=1)", "NOT a = 1"),
        ("(not a) = true", "(NOT a) = TRUE"),
        ("a-(b-c)>- - a", "a - (b - c) > - -a"),
        ("(a*b)+0x10 between 1. and 2e0", "a * b + 16 BETWEEN 1.0 AND 2.0"),
        ("-(a+b)*c=1", "-(a + b) * c = 1"),
        ("a not in('x','y''s')", "a NOT IN ('x', 'y''s')"),
        ("a not like '!%' escape '!'", "a NOT LIKE '!%' ESCAPE '!'"),
        ("a is not null", "a IS NOT NULL"),
    ],
)
def test_is_written_with_no_more_than_it_needs(text: str, written: str) -> None:
    assert write(parse(text)) == written


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a = ", "character 5: found the end; allowed here: a name, a number, a string, TRUE, FALSE, NOT, a sign, ("),
        ("a = 1 b", "character 7: found 'b'; allowed here: an operator, BETWEEN, IN, LIKE, IS, AND, OR or the end"),
        ("(a = 1", "character 7: found the end; allowed here: an operator, BETWEEN, IN, LIKE, IS, AND, OR or )"),
        ("a = NULL", "character 5: found 'NULL'; allowed here: IS NULL and IS NOT NULL behind a name"),
        ("a NOT = 1", "character 7: found '='; allowed here: BETWEEN, IN or LIKE"),
        ("b AND a + 1", "character 7: found a number; allowed here: a condition"),
        ("a < 'x'", "character 5: found 'x'; allowed here: a number or a property"),
        ("5 IS NULL", "character 1: found 5; allowed here: a name"),
        ("a IN (1)", "character 7: found '1'; allowed here: a string"),
        ("a BETWEEN 1 OR 2", "character 13: found 'OR'; allowed here: AND and the upper bound"),
        ("a LIKE 'x!y' ESCAPE '!'", "character 8: found 'x!y'; allowed here: after the escape ! only %, _ or !"),
        ("JMSPrio = 1", "character 1: found JMSPrio; allowed here: JMSCorrelationID, JMSDeliveryMode,"),
        ("a = 9223372036854775808", "character 5: found 9223372036854775808; allowed here: whole numbers up to"),
    ],
)
def test_errors_name_the_place_what_was_seen_and_what_is_allowed(text: str, error: str) -> None:
    with pytest.raises(InvalidSelector) as raised:
        parse(text)
    assert str(raised.value).startswith(f"selector, {error}")


def test_seen_text_is_cut_short() -> None:
    with pytest.raises(InvalidSelector) as raised:
        parse("a = 1 '" + "x" * 10_000 + "'")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(("before", "inside", "after"), [("(", "a", ")"), ("NOT ", "a", ""), ("- ", "a", " = 1")])
def test_nesting_is_bounded(before: str, inside: str, after: str) -> None:
    closing = after * NESTING_MAX if after == ")" else after
    parse(before * NESTING_MAX + inside + closing)
    with pytest.raises(InvalidSelector, match=f"found level {NESTING_MAX + 1} .* allowed here: {NESTING_MAX} levels"):
        parse(before * (NESTING_MAX + 1) + inside + closing + ")")


def test_long_chains_are_no_nesting() -> None:
    count = 5_000
    assert parse(" OR ".join(["a"] * count)) == Or((A,) * count)
    assert parse(" + ".join(["a"] * count) + " = 1") == Comparison(
        Arithmetic(A, (("+", A),) * (count - 1)), "=", Literal(1)
    )


def test_levels_beside_each_other_are_no_nesting() -> None:
    parse(" AND ".join(["(NOT (- a = 1))"] * (NESTING_MAX + 1)))


def test_the_length_of_a_pattern_is_bounded() -> None:
    assert parse(f"a LIKE '{'x' * LIKE_PATTERN_MAX}'") == Like("a", "x" * LIKE_PATTERN_MAX, None, False)
    with pytest.raises(InvalidSelector, match=f"found a pattern of {LIKE_PATTERN_MAX + 1} characters"):
        parse(f"a LIKE '{'x' * (LIKE_PATTERN_MAX + 1)}'")
