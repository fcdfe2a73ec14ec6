"""Modified UTF-8: U+0000 takes two octets, a character above U+FFFF is written as its two surrogates.

Reading is lenient: sequences of four octets and raw zeros, which other clients write, are accepted, too.
Source: java.io.DataInput.
"""

from __future__ import annotations

import re
from typing import Final

STRING_BYTES_MAX: Final = 65_535  # of a string with a length of two octets
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def decode_text(octets: bytes) -> str:
    """Raises: UnicodeDecodeError."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        halves = octets.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    # UTF-16 joins the pairs; a lone surrogate, which is no character, becomes U+FFFD.
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encode_text(text: str) -> bytes:
    octets = text.encode("utf-8", "surrogatepass")
    if len(octets) != len(text):
        octets = _ASTRAL.sub(_surrogates, text).encode("utf-8", "surrogatepass")
    return octets.replace(b"\0", b"\xc0\x80") if b"\0" in octets else octets


def _surrogates(match: re.Match[str]) -> str:
    code = ord(match[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
