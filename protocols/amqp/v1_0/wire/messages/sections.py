"""The sections of a message: found by position, decoded only where the broker needs their content.

    0x70  header                     rewritten on the way: delivery-count, ttl, first-acquirer
    0x71  delivery-annotations       hop by hop: dropped on receipt
    0x72  message-annotations        kept; the broker may add to them
    0x73  properties                 \\
    0x74  application-properties      | the bare message, kept octet by octet
    0x75..0x77  body                  |
    0x78  footer                     /

``Message.headers`` holds header, message-annotations, properties and application-properties as they came,
``Message.body`` the rest.  The two together are sent on.
Source: AMQP 1.0 part 3, 3.2.
"""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.values import Symbol, Value

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

# Places in the list of properties.
MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
ABSOLUTE_EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
REPLY_TO_GROUP_ID: Final = 12

SECTION_CODES: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}

BODY_SECTIONS_MOST: Final = 1_000  # of a message whose body is looked at

_FIXED: Final = (0, 0, 0, 0, 0, 1, 2, 4, 8, 16)


def end_of(octets: bytes, at: int) -> int:
    """Return where the value at ``at`` ends, by its size alone.  Raises: DecodeError, IndexError."""
    code = octets[at]
    while code == 0:  # a loop, because a chain of descriptors must not become a chain of calls
        if octets[at + 1] == 0:
            raise DecodeError("a descriptor is described itself")
        at = end_of(octets, at + 1)
        code = octets[at]
    width = code >> 4
    if width < 0xA:
        if width < 4:
            raise DecodeError(f"format code {code:#04x} is not defined")
        return at + 1 + _FIXED[width]
    if width & 1:
        if at + 5 > len(octets):
            raise IndexError
        return at + 5 + int.from_bytes(octets[at + 1 : at + 5], "big")
    return at + 2 + octets[at + 1]


def section_code(payload: bytes, at: int) -> tuple[int, int]:
    if payload[at] != 0:
        raise DecodeError(f"a section of a message begins with {payload[at]:#04x}, not with a descriptor")
    descriptor, after = decode(payload, at + 1)
    code = SECTION_CODES.get(descriptor) if isinstance(descriptor, Symbol) else descriptor
    if not isinstance(code, int) or not HEADER <= code <= FOOTER:
        raise DecodeError(f"a section of a message has the descriptor {str(descriptor)[:80]}; allowed are 0x70 to 0x78")
    return int(code), after


def check_body(octets: bytes) -> None:
    """Look whether ``octets`` are sections of a body and perhaps a footer, and nothing else.

    Lenient clients read sections in any order: properties behind the body would say what nobody has looked at.
    Raises: DecodeError.
    """
    at = 0
    size = len(octets)
    for _ in range(BODY_SECTIONS_MOST):
        if at >= size:
            break
        try:
            if octets[at] == 0 and octets[at + 1] == 0x53:
                code, after = octets[at + 2], at + 3
            else:
                code, after = section_code(octets, at)
            at = end_of(octets, after)
        except IndexError:
            raise DecodeError("a message ends in the middle of a section") from None
        if not DATA <= code <= FOOTER:
            raise DecodeError(f"section {code:#04x} comes behind the body; allowed there are 0x75 to 0x78")
    if at != size:
        what = "ends in the middle of a section" if at > size else f"has more than {BODY_SECTIONS_MOST} body sections"
        raise DecodeError(f"a message {what}")


def read_list(octets: bytes, at: int) -> list[Value]:
    """Return the list at ``at``.  Raises: DecodeError."""
    value, _ = decode(octets, at)
    if not isinstance(value, list):
        raise DecodeError(f"a section of a message holds a {type(value).__name__}; allowed is a list")
    return value


def split_header(headers: bytes) -> tuple[list[Value], bytes]:
    """Return the fields of a header section at the beginning of ``headers``, and the octets after it."""
    if headers[:3] != b"\x00\x53\x70":
        return [], headers
    fields, end = decode(headers, 3)
    return fields, headers[end:]


def split_annotations(rest: bytes) -> tuple[dict[Value, Value], bytes]:
    """Return the message-annotations at the beginning of ``rest``, and the octets after them.

    Unreadable ones count as none: only their size was checked when they came.
    """
    if rest[:3] != b"\x00\x53\x72":
        return {}, rest
    try:
        annotations, end = decode(rest, 3)
    except DecodeError:
        return {}, rest[end_of(rest, 3) :]
    return (annotations if isinstance(annotations, dict) else {}), rest[end:]
