"""LIKE patterns as regular expressions that look at no character of a value more often than the pattern is long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ONE: Final = "."
_ANY: Final = ""


def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Return what must match the whole of a value.

    Each stretch between two % is taken where it stands first and not looked for again (atomic groups): a later place
    could never help, and going back would let a pattern like %a%a%a%a cost a power of the value's length.
    """
    stretches = [""]
    lengths = [0]
    for element in _elements(pattern, escape):
        if element == _ANY:
            stretches.append("")
            lengths.append(0)
        else:
            stretches[-1] += element
            lengths[-1] += 1
    if len(stretches) == 1:
        return re.compile(stretches[0], re.DOTALL)
    first, *middle, last = stretches
    inner = "".join([f"(?>.*?{stretch})" for stretch in middle if stretch])
    # The last stretch stands at the end: it is looked at there only, if so many characters are left.
    return re.compile(f"{first}{inner}.{{{lengths[-1]},}}+(?<={last})", re.DOTALL)


def _elements(pattern: str, escape: str | None) -> Iterator[str]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield re.escape(next(characters))
        elif character == "%":
            yield _ANY
        else:
            yield _ONE if character == "_" else re.escape(character)
