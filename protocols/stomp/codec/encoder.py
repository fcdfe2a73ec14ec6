"""Frames to octets."""

from __future__ import annotations

from protocols.stomp.codec.escapes import escape, escape_name
from protocols.stomp.codec.frames import NAMES, VERSIONLESS
from protocols.stomp.codec.versions import VERSION_1_0


def encode(command: int, headers: list[tuple[str, str]], body: bytes, version: int) -> bytes:
    """Return one frame: these headers in this order, and a content-length if ``body`` needs one.

    It needs one if it contains a NUL and the caller gave none; clients may read a content-length as "not a text".
    The LF after the NUL is for clients that search for both together (old PHP) or for a line (telnet).
    """
    if command in VERSIONLESS:
        version = VERSION_1_0
    lines = [NAMES[command]]
    has_length = False
    for name, value in headers:
        has_length = has_length or name == "content-length"
        lines.append(escape_name(name, version) + b":" + escape(value, version))
    if b"\0" in body and not has_length:
        lines.append(b"content-length:%d" % len(body))
    lines.append(b"\n")
    return b"\n".join(lines) + body + b"\0\n"
