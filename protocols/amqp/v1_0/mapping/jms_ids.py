"""Message and correlation ids that are not strings, in the form that JMS clients show (AMQP JMS mapping, 3.2.1.1).

ulong 7     ID:AMQP_ULONG:7          binary  ID:AMQP_BINARY:00FF
uuid        ID:AMQP_UUID:0011...     string  unchanged; with ID:AMQP_STRING: if it looks like one of these
"""

from __future__ import annotations

import uuid
from typing import Final

from protocols.amqp.v1_0.wire.types.values import ULong, Value

_ULONG: Final = "ID:AMQP_ULONG:"
_UUID: Final = "ID:AMQP_UUID:"
_BINARY: Final = "ID:AMQP_BINARY:"
_STRING: Final = "ID:AMQP_STRING:"
_NO_PREFIX: Final = "ID:AMQP_NO_PREFIX:"
_ENCODED: Final = (_ULONG, _UUID, _BINARY, _STRING, _NO_PREFIX)


def id_text(value: Value, is_message_id: bool = False) -> str | None:
    """Return the JMS form of an id; None for no id, or for a value that cannot be one."""
    if isinstance(value, ULong):
        return f"{_ULONG}{int(value)}"
    if isinstance(value, uuid.UUID):
        return f"{_UUID}{value}"
    if isinstance(value, bytes):
        return f"{_BINARY}{value.hex().upper()}"
    if not isinstance(value, str):
        return None
    if value.startswith(_ENCODED):
        return _STRING + value
    return _NO_PREFIX + value if is_message_id and not value.startswith("ID:") else value


def id_value(text: str) -> Value:
    """Return the value of a text that ``id_text`` made."""
    try:
        if text.startswith(_ULONG):
            number = int(text.removeprefix(_ULONG))
            return ULong(number) if 0 <= number < 2**64 else text
        if text.startswith(_UUID):
            return uuid.UUID(text.removeprefix(_UUID))
        if text.startswith(_BINARY):
            return bytes.fromhex(text.removeprefix(_BINARY))
    except ValueError:  # only looks like such an id
        return text
    if text.startswith((_STRING, _NO_PREFIX)):
        return text.partition(":")[2].partition(":")[2]
    return text
