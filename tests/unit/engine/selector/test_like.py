"""LIKE patterns; that they match what they should is a property test."""

from __future__ import annotations

from typing import Any, SupportsIndex

import pytest

from engine.selector.like import LikePattern


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
    assert LikePattern(pattern, escape).matches(value) is is_match


class Counted(str):
    """A value that counts how often a character or a place of it is looked at."""

    looks = 0

    def __getitem__(self, place: SupportsIndex | slice) -> str:
        self.looks += 1
        return super().__getitem__(place)

    def find(self, *arguments: Any) -> int:
        self.looks += 1
        return super().find(*arguments)

    def startswith(self, *arguments: Any) -> bool:
        self.looks += 1
        return super().startswith(*arguments)


@pytest.mark.parametrize(
    "pattern",
    [
        "%a" * 40 + "b%_",
        "%" + "a" * 1_000 + "b%",
        "%" + "a" * 500 + "_" + "a" * 500 + "b%",
        "%" + "a_" * 300 + "b%",
        "%" + "a_a%" * 200 + "b%",
    ],
)
def test_each_character_of_the_value_is_looked_at_once(pattern: str) -> None:
    value = Counted("a" * 10_000)
    assert not LikePattern(pattern, None).matches(value)
    assert value.looks <= len(value) + 2 * len(pattern)
