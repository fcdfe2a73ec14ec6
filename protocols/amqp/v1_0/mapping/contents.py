"""A message of ours decoded: properties, application-properties and body, for readers of its content.

headers, body: as ``Message`` keeps them.  Spark workers load this module, too.
"""

from __future__ import annotations

from typing import Final

from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages.sections import (
    APPLICATION_PROPERTIES,
    BODY_SECTIONS_MOST,
    DATA,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SECTION_CODES,
    SEQUENCE,
    VALUE,
)
from protocols.amqp.v1_0.wire.types.value_decoder import Reader, decode_plain
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Value

_SMALL: Final = b"\x00\x53"  # a descriptor of one octet follows


class Contents:
    """properties: fields by place, None for absent ones.  sections: of the body, decoded.

    body_kind: DATA, SEQUENCE or VALUE, 0 for no body.  body_items: of lists, maps and arrays in it, at all depths.
    """

    __slots__ = ("annotations", "properties", "application_properties", "body_kind", "body_items", "sections")

    def __init__(self) -> None:
        self.annotations: dict[Value, Value] = {}
        self.properties: list[Value] = []
        self.application_properties: dict[Value, Value] = {}
        self.body_kind = 0
        self.body_items = 0
        self.sections: list[Value] = []

    def field(self, place: int) -> Value:
        return self.properties[place] if place < len(self.properties) else None

    def annotation(self, name: str) -> Value:
        return self.annotations.get(name)


def read_headers(headers: bytes) -> Contents:
    """Return everything but the body.  Raises: DecodeError."""
    contents = Contents()
    for code, value in _sections(headers, Reader(headers, 0, len(headers))):
        if code == PROPERTIES and isinstance(value, list):
            contents.properties = value
        elif code == MESSAGE_ANNOTATIONS and isinstance(value, dict):
            contents.annotations = value
        elif code == APPLICATION_PROPERTIES and isinstance(value, dict):
            contents.application_properties = value
    return contents


def read_contents(headers: bytes, body: bytes) -> Contents:
    """Return everything.  Raises: DecodeError."""
    contents = read_headers(headers)
    reader = Reader(body, 0, len(body))
    try:
        found = _sections(body, reader)
    except DecodeError as error:
        error.items_read = reader.items_read()
        raise
    contents.body_items = reader.items_read()
    for code, value in found:
        if code in (DATA, SEQUENCE, VALUE):
            contents.body_kind = code
            contents.sections.append(value)
    return contents


def _sections(octets: bytes, reader: Reader) -> list[tuple[int, Value]]:
    """Raises: DecodeError, also for more sections, or items in all of them together, than anybody looks at."""
    found: list[tuple[int, Value]] = []
    at = count = 0
    while at < len(octets):
        count += 1
        if count > BODY_SECTIONS_MOST:
            raise DecodeError(f"a message has more than {BODY_SECTIONS_MOST} sections")
        if octets[at : at + 2] == _SMALL and at + 3 < len(octets):
            value, after = decode_plain(octets, at + 3, reader)
            found.append((octets[at + 2], value))
            at = after
            continue
        reader.position = at
        section = reader.read()
        at = reader.position
        if not isinstance(section, Described):
            raise DecodeError("a section of a message has no descriptor")
        code = section.descriptor
        if isinstance(code, Symbol):
            code = SECTION_CODES.get(code, 0)
        if isinstance(code, int):
            found.append((int(code), section.value))
    return found
