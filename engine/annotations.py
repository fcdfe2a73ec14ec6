"""Headers that the broker adds to a message: lines ``name:value\\n`` in UTF-8 with the escapes of STOMP 1.2."""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"})


def annotation(name: str, value: str) -> bytes:
    """Return one line."""
    return f"{name.translate(_ESCAPES)}:{value.translate(_ESCAPES)}\n".encode()
