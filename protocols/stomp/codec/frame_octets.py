"""What each frame of the hot path needs of octets: a value found in them, numbers in decimal.

The ``plain_`` functions are the clear form.  Where there is a C compiler, native_frame_octets.c is built and serves
instead: the same results (a property test says so) for a tenth of the instructions.
"""

from __future__ import annotations

import re
from typing import Final

# A value that every version reads unchanged: no blanks to trim, no escape, no CR, nothing to decode.
PLAIN_VALUE: Final = re.compile(rb"[!-\[\]-~]+")

# The headers that differ from message to message, formatted at once: header by header takes twice the time.
_HEAD: Final = b"message-id:%b%d\npriority:%d\nexpires:%d\n%bcontent-length:%d\ntimestamp:%d\n"
_TEXT_HEAD: Final = b"message-id:%b%d\npriority:%d\nexpires:%d\n%btimestamp:%d\n"


def plain_value_between(octets: bytes, start: int, before: bytes, after: bytes, size_max: int) -> bytes | None:
    """Return the plain value of at most ``size_max`` octets between ``before``, at ``start``, and ``after``.

    None if there is none.  No plain value contains the first octet of ``after``.
    """
    if not octets.startswith(before, start):
        return None
    at = start + len(before)
    stop = octets.find(after, at, at + size_max + len(after))
    if stop < 0:
        return None
    value = octets[at:stop]
    return value if value.isalnum() or PLAIN_VALUE.fullmatch(value) else None


def plain_decimal(number: int) -> bytes:
    return b"%d" % number


def plain_ack_line(before: bytes, key: bytes) -> bytes:
    """Return ``before`` with the header ``ack`` after it."""
    return b"%back:%b\n" % (before, key)


def plain_message_head(
    id_prefix: bytes, number: int, priority: int, expires_ms: int, persistent: bytes, length: int, time_ms: int
) -> bytes:
    """Return the headers from ``message-id`` to ``timestamp``.

    persistent: a header line, or nothing.  length: of the body, negative for a text, which ends at its NUL.
    """
    if length < 0:
        return _TEXT_HEAD % (id_prefix, number, priority, expires_ms, persistent, time_ms)
    return _HEAD % (id_prefix, number, priority, expires_ms, persistent, length, time_ms)


try:
    from protocols.stomp.codec.native_frame_octets import ack_line, decimal, message_head, value_between
except ImportError:
    decimal = plain_decimal
    ack_line = plain_ack_line
    message_head = plain_message_head
    value_between = plain_value_between

__all__ = [
    "PLAIN_VALUE",
    "ack_line",
    "decimal",
    "message_head",
    "plain_ack_line",
    "plain_decimal",
    "plain_message_head",
    "plain_value_between",
    "value_between",
]
