"""A message of ours decoded: properties, application-properties and body, for readers of its content."""

from __future__ import annotations

from engine.values.message import Message
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SECTION_CODES,
    SEQUENCE,
    VALUE,
)
from protocols.amqp.v1_0.wire.value_decoder import decode
from protocols.amqp.v1_0.wire.values import Described, Symbol, Value


class Contents:
    """header, properties: fields by place, None for absent ones.  sections: of the body, decoded.

    body_kind: DATA, SEQUENCE or VALUE, 0 for no body.
    """

    __slots__ = ("header", "annotations", "properties", "application_properties", "body_kind", "sections")

    def __init__(self) -> None:
        self.header: list[Value] = []
        self.annotations: dict[Value, Value] = {}
        self.properties: list[Value] = []
        self.application_properties: dict[Value, Value] = {}
        self.body_kind = 0
        self.sections: list[Value] = []

    def field(self, place: int) -> Value:
        """Return a field of the properties."""
        return self.properties[place] if place < len(self.properties) else None

    def annotation(self, name: str) -> Value:
        return self.annotations.get(name)


def read_headers(message: Message) -> Contents:
    """Return everything but the body.  Raises: DecodeError."""
    contents = Contents()
    for code, value in _sections(message.headers):
        if code == HEADER and isinstance(value, list):
            contents.header = value
        elif code == PROPERTIES and isinstance(value, list):
            contents.properties = value
        elif code == MESSAGE_ANNOTATIONS and isinstance(value, dict):
            contents.annotations = value
        elif code == APPLICATION_PROPERTIES and isinstance(value, dict):
            contents.application_properties = value
    return contents


def read_contents(message: Message) -> Contents:
    """Return everything.  Raises: DecodeError."""
    contents = read_headers(message)
    for code, value in _sections(message.body):
        if code in (DATA, SEQUENCE, VALUE):
            contents.body_kind = code
            contents.sections.append(value)
    return contents


def _sections(octets: bytes) -> list[tuple[int, Value]]:
    found: list[tuple[int, Value]] = []
    at = 0
    while at < len(octets):
        section, at = decode(octets, at)
        if not isinstance(section, Described):
            raise DecodeError("a section of a message has no descriptor")
        code = section.descriptor
        if isinstance(code, Symbol):
            code = SECTION_CODES.get(code, 0)
        if isinstance(code, int):
            found.append((int(code), section.value))
    return found
