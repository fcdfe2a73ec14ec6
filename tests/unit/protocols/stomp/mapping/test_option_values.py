"""Switches and numbers in headers."""

from __future__ import annotations

import pytest

from engine.values.errors import InvalidOption
from protocols.stomp.mapping.option_values import boolean, number


def test_switches_and_numbers() -> None:
    assert boolean("x", " Yes ") and not boolean("x", "NO")
    with pytest.raises(InvalidOption):
        boolean("x", "on")
    assert number("x", " 007 ", 0, 9) == 7
    with pytest.raises(InvalidOption):
        number("x", "٣", 0, 9)
