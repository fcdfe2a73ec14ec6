"""LIKE patterns; that they match what they should is a property test."""

from __future__ import annotations

import pytest

from engine.selector.like import like_pattern


@pytest.mark.parametrize(
    ("pattern", "escape", "value", "is_match"),
    [
        ("", None, "", True),
        ("", None, "a", False),
        ("%", None, "", True),
        ("%%", None, "a\nb", True),
        ("_", None, "\n", True),
        ("a%a", None, "a", False),
        ("%ab%ab", None, "ab", False),
        ("%ab%ab", None, "abab", True),
        ("a.c", None, "abc", False),
        ("[a]$^(", None, "[a]$^(", True),
        ("!%!_!!%", "!", "%_!x", True),
        ("!%", "!", "x", False),
        ("%%_%_", "%", "%x_", True),
        ("%%%_", "%", "%_", True),
        ("x__", "_", "x_", True),
        ("x\U0001f600_", None, "x\U0001f600\U0001f600", True),
    ],
)
def test_matches_the_whole_value(pattern: str, escape: str | None, value: str, is_match: bool) -> None:
    assert (like_pattern(pattern, escape).fullmatch(value) is not None) is is_match


def test_many_wildcards_do_not_multiply() -> None:
    # A matcher that goes back would need longer than the world lasts for this one.
    assert like_pattern("%a" * 40 + "b%_", None).fullmatch("a" * 2_000) is None
