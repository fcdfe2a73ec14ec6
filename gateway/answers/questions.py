"""Invalid questions to the gateway or its store: the same on the command line and over HTTP."""

from __future__ import annotations

from collections.abc import Mapping


class WrongQuestion(ValueError):
    """The text names what was seen and what is allowed."""


def number_in(asked: Mapping[str, str], name: str, default: int) -> int:
    """Return the number given as ``name``, else the default.  Raises: WrongQuestion."""
    text = asked.get(name, "")
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text)
    raise WrongQuestion(f"{name} is {text[:80]!r}; allowed is a whole number from 0 on")
