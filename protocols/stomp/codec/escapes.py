"""Headers as they are on the wire: the escapes of each version, and blocks of header lines.

CONNECT, STOMP and CONNECTED are always read and written as in 1.0:

    version   reading                                    writing a LF, a colon, a backslash, a CR
    1.0       trims blanks around values, no escapes     blank, kept (blank in a name), kept, kept
    1.1       \\n \\c \\\\, any other escape is an error    \\n, \\c, \\\\, kept
    1.2       \\n \\c \\\\ \\r, any other is an error       \\n, \\c, \\\\, \\r

No version allows a NUL in a header: a NUL that is read is an error; one that is written becomes a blank.
"""

from __future__ import annotations

import re
from typing import Final

from protocols.errors import FrameError
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2


def escape(text: str, version: int) -> bytes:
    """Return a header's value as it is on the wire; see the table at the top of this file."""
    if version == VERSION_1_0:
        text = text.replace("\n", " ")
    else:
        text = escape_1_2(text) if version == VERSION_1_2 else _escape_1_1(text)
    return text.replace("\0", " ").encode()


def unescape(text: str, version: int) -> str:
    """Return a header's name or value without its escapes.

    Raises: FrameError for an escape that the version does not know.
    """
    if version == VERSION_1_0:
        return text
    at = text.find("\\")
    if at < 0:
        return text
    parts: list[str] = []
    start = 0
    while at >= 0:
        parts.append(text[start:at])
        letter = text[at + 1 : at + 2]
        plain = _UNESCAPED.get(letter, "")
        if not plain or (plain == "\r" and version == VERSION_1_1):
            allowed = "\\n \\c \\\\" if version == VERSION_1_1 else "\\n \\c \\\\ \\r"
            seen = "\\" + letter if letter.isprintable() else "a backslash before an unprintable character"
            raise FrameError(f"unknown escape in a header: {seen}; allowed in version {version / 10} are {allowed}")
        parts.append(plain)
        start = at + 2
        at = text.find("\\", start)
    parts.append(text[start:])
    return "".join(parts)


def unescape_known(text: str, version: int) -> str:
    """Return a header's name or value without its escapes; any other backslash is kept.

    ActiveMQ reads every version like this, 1.0 included.
    """
    if "\\" not in text:
        return text
    return (_KNOWN_1_2 if version == VERSION_1_2 else _KNOWN).sub(lambda match: _UNESCAPED[match[1]], text)


def read_block(block: bytes) -> list[tuple[str, str]]:
    """Return names and values of a header block as ``Head.block`` and ``Message.headers`` hold it."""
    lines = block.decode().split("\n")
    del lines[-1]
    headers: list[tuple[str, str]] = []
    for line in lines:
        name, _, value = line.partition(":")
        headers.append((unescape(name, VERSION_1_2), unescape(value, VERSION_1_2)))
    return headers


def block_for(block: bytes, version: int) -> bytes:
    """Return a header block, written with the escapes of 1.2, as a peer of ``version`` reads it."""
    if version == VERSION_1_2 or b"\\" not in block:
        return block
    lines = [escape_name(name, version) + b":" + escape(value, version) + b"\n" for name, value in read_block(block)]
    return b"".join(lines)


_KNOWN: Final = re.compile(r"\\([nc\\])")
_KNOWN_1_2: Final = re.compile(r"\\([ncr\\])")
_UNESCAPED: Final = {"n": "\n", "c": ":", "\\": "\\", "r": "\r"}


def _escape_1_1(text: str) -> str:
    # The backslash first: it must not double the backslashes of the other escapes.
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def escape_1_2(text: str) -> str:
    return _escape_1_1(text).replace("\r", "\\r")


def escape_name(name: str, version: int) -> bytes:
    """Return a name for 1.0, which would take its first colon for its end."""
    return escape(name.replace(":", " ") if version == VERSION_1_0 else name, version)
