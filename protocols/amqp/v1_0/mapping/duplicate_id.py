"""The application-property with a duplicate id (docs/reference/destinations.md)."""

from __future__ import annotations

from engine.values.message import DUPLICATE_ID_NAMES
from protocols.amqp.v1_0.wire.messages.sections import APPLICATION_PROPERTIES, SECTION_CODES
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, Value


def duplicate_id_in(headers: bytes) -> str | None:
    """Return the duplicate id in a message's sections before the body, None without one.

    An id of another type than string counts as its text, a binary one as its hexadecimal digits.  Raises: DecodeError.
    """
    at = 0
    while at < len(headers):
        section, at = decode(headers, at)
        if not isinstance(section, Described) or not isinstance(section.value, dict):
            continue
        descriptor = section.descriptor
        code = SECTION_CODES.get(descriptor, 0) if isinstance(descriptor, Symbol) else int(descriptor or 0)
        if code == APPLICATION_PROPERTIES:
            fields: dict[Value, Value] = section.value
            for name in DUPLICATE_ID_NAMES:
                found = fields.get(name)
                if found is not None:
                    return found.hex() if isinstance(found, bytes) else str(found)
    return None
