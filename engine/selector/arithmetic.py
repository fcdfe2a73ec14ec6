"""Numbers as in Java: whole ones are a long that wraps; mixed with approximate ones they become a double.

Sources: Jakarta Messaging 3.1, section 3.8.1.1 ("numeric promotion in Java"); Java Language Specification, sections
5.6 and 15.17.
"""

from __future__ import annotations

import math
import re
from typing import Final

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -(2**63)

# What Java's Long.valueOf and Double.valueOf read, except NaN, Infinity and hexadecimal doubles.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_APPROXIMATE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_FAST_DIGITS: Final = 18


def number_of(text: str) -> int | float | None:
    """Return the number in ``text``, None if it is not a number."""
    if len(text) <= _FAST_DIGITS and text.isdigit() and text.isascii():
        return int(text)
    if _WHOLE.fullmatch(text) is not None:
        value = int(text)
        if LONG_MIN <= value <= LONG_MAX:
            return value
    return float(text) if _APPROXIMATE.fullmatch(text) is not None else None


def wrapped(value: int) -> int:
    """Return the lowest 64 bits of a whole number, as Java does."""
    return value if LONG_MIN <= value <= LONG_MAX else ((value - LONG_MIN) & (2**64 - 1)) + LONG_MIN


def negated(value: int) -> int:
    return wrapped(-value)


def compute(operator: str, left: int | float, right: int | float) -> int | float | None:
    """Return the result; None, unknown, for a division of whole numbers by zero, where Java throws."""
    if isinstance(left, int) and isinstance(right, int):
        return _whole(operator, left, right)
    return approximate(operator, float(left), float(right))


def _whole(operator: str, left: int, right: int) -> int | None:
    if operator == "+":
        return wrapped(left + right)
    if operator == "-":
        return wrapped(left - right)
    if operator == "*":
        return wrapped(left * right)
    if right == 0:
        return None
    # Java rounds towards zero, Python down.
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    return wrapped(quotient) if operator == "/" else left - quotient * right


def approximate(operator: str, left: float, right: float) -> float:
    """Return the result as a double, whose operations never fail."""
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "%":
        return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)
