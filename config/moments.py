"""Moments as people write them on the command line, in headers and in URIs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

ALLOWED: Final = "milliseconds since 1970 or a time such as 2026-01-31T12:00:00Z"
_DIGITS_MOST: Final = 15


def moment_ms(text: str) -> int:
    """Return milliseconds since 1970.  Raises: ValueError; ``ALLOWED`` says what is."""
    if text.isascii() and text.isdigit():
        if len(text) > _DIGITS_MOST:
            raise ValueError(f"{text[:80]!r} is no moment")
        return int(text)
    moment = datetime.fromisoformat(text)
    # A time that does not say its zone is UTC, as every time that we print.
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
