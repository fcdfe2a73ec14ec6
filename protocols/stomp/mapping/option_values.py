"""Switches and numbers of options, as clients write them into headers and behind destinations.

engine.selector.properties reads headers as JMS properties.
"""

from __future__ import annotations

from typing import Final

from engine.values.errors import InvalidOption

_TRUE: Final = frozenset(("true", "1", "yes"))
_FALSE: Final = frozenset(("false", "0", "no", ""))


def boolean(name: str, text: str) -> bool:
    """Read a switch as clients write it: true, True, 1, yes.  Raises: InvalidOption."""
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed are true and false")


def clamped(name: str, text: str, most: int, size_bits: int) -> int:
    """Read a number of ``size_bits`` bits and return the nearest one from 0 to ``most``.  Raises: InvalidOption."""
    digits = text.strip()
    value = digits.removeprefix("-")
    if value.isascii() and value.isdigit() and len(value) <= 19 and int(value) < 2 ** (size_bits - 1):
        return min(max(int(digits), 0), most)
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed is a whole number of {size_bits} bits")


def number(name: str, text: str, least: int, most: int) -> int:
    """Read a whole number.  Raises: InvalidOption."""
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 19 and least <= int(digits) <= most:
        return int(digits)
    raise InvalidOption(f"{name} is {text[:80]!r}; allowed is a whole number from {least} to {most}")
