"""Headers that the broker adds to a message: lines ``name:value\\n`` in UTF-8 with the escapes of STOMP 1.2."""

from __future__ import annotations

import re
from typing import Final

ORIGINAL_DESTINATION: Final = "original-destination"  # original destination of a message that the broker moved

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"})
_UNESCAPES: Final = {"\\\\": "\\", "\\r": "\r", "\\n": "\n", "\\c": ":"}
_ESCAPED: Final = re.compile(r"\\[\\rnc]")


def annotation(name: str, value: str) -> bytes:
    """Return one line."""
    return f"{name.translate(_ESCAPES)}:{value.translate(_ESCAPES)}\n".encode()


def split_annotations(lines: bytes) -> list[tuple[str, str]]:
    """Return (name, value) of each line, in order."""
    found: list[tuple[str, str]] = []
    for line in lines.decode().split("\n"):
        if line:
            name, _, value = line.partition(":")
            found.append((unescaped(name), unescaped(value)))
    return found


def unescaped(text: str) -> str:
    """Return a name or a value without its escapes."""
    return _ESCAPED.sub(lambda match: _UNESCAPES[match[0]], text) if "\\" in text else text
