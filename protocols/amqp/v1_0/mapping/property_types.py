"""Names of the types of application-properties, so that texts of STOMP become typed values again."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from typing import Final

from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import (
    Byte,
    Char,
    Decimal,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)

TYPE_NAMES: Final[dict[type, str]] = {
    bool: "boolean",
    UByte: "ubyte",
    UShort: "ushort",
    UInt: "uint",
    ULong: "ulong",
    Byte: "byte",
    Short: "short",
    Int: "int",
    int: "long",
    Float: "float",
    float: "double",
    Timestamp: "timestamp",
    Char: "char",
    Symbol: "symbol",
    bytes: "binary",
    uuid.UUID: "uuid",
}


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


_FROM_TEXT: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": _boolean,
    "ubyte": UByte,
    "ushort": UShort,
    "uint": UInt,
    "ulong": ULong,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": int,
    "float": Float,
    "double": float,
    "timestamp": Timestamp,
    "char": Char,
    "symbol": Symbol,
    "binary": base64.b64decode,
    "uuid": uuid.UUID,
}


def property_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() if not isinstance(value, Decimal) else value.hex()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    return str(value)


def typed_property(text: str, kind: str | None) -> Value:
    """Return a property in its original type; a text that no longer fits stays a text."""
    convert = None if kind is None else _FROM_TEXT.get(kind)
    if convert is None:
        return text
    try:
        value = convert(text)
        encode(value)
    except ValueError:
        return text
    return value
