"""The type system: values to octets, each in its smallest form (``value_decoder`` has a table of format codes).

Source: AMQP 1.0 part 1.
"""

from __future__ import annotations

import uuid
from struct import Struct
from struct import error as StructError
from typing import Final

from protocols.amqp.v1_0.wire.types.value_decoder import ITEMS_MAX, NESTING_MAX
from protocols.amqp.v1_0.wire.types.values import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
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

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")


def encode(value: Value) -> bytes:
    """Return ``value`` in its smallest form.

    Raises: ValueError for a number out of the range of its type, an invalid char, a text with half a surrogate pair.
    """
    match value:
        case None:
            return b"\x40"
        case bool():
            return b"\x41" if value else b"\x42"
        case Symbol():
            return _sized(0xA3, value.encode("ascii"))
        case Char():
            if len(value) != 1:
                raise ValueError(f"a char has {len(value)} characters; allowed is one")
            return b"\x73" + _U32.pack(ord(value))
        case str():
            return _sized(0xA1, value.encode())
        case Decimal():
            return bytes((_DECIMAL_CODES[len(value)],)) + value
        case bytes():
            return _sized(0xA0, value)
        case int():
            return _integer(value)
        case Float():
            return b"\x72" + _binary32(value)
        case float():
            return b"\x82" + _F64.pack(value)
        case list():
            return b"\x45" if not value else _compound(0xC0, len(value), b"".join([encode(item) for item in value]))
        case dict():
            items = b"".join([encode(key) + encode(item) for key, item in value.items()])
            return _compound(0xC1, 2 * len(value), items)
        case Described():
            return b"\x00" + encode(value.descriptor) + encode(value.value)
        case Array():
            return _array(value)
        case uuid.UUID():
            return b"\x98" + value.bytes
        case _:
            raise ValueError(f"{type(value).__name__} is no AMQP value")


def is_within_limits(value: Value) -> bool:
    """Say whether a value's depth and number of items are within the limits of our readers."""
    items = 0
    level = [value]
    for _ in range(NESTING_MAX):
        level = [part for one in level if isinstance(one, (list, dict, Described, Array)) for part in _parts(one)]
        items += len(level)
        if not level:
            return True
        if items > ITEMS_MAX:
            return False
    return False


def _parts(value: Value) -> list[Value]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, Described):
        return [value.descriptor, value.value]
    return value.items if isinstance(value, Array) else value


def _binary32(value: float) -> bytes:
    try:
        return _F32.pack(value)
    except OverflowError as error:
        raise ValueError(f"{float(value)} is out of the range of Float") from error


def described_list(code: int, count: int, items: bytes) -> bytes:
    """Return a list of ``count`` encoded items under the standard's descriptor ``code`` (below 256)."""
    return b"\x00\x53" + bytes((code,)) + (b"\x45" if not count else _compound(0xC0, count, items))


def _wide(octets: bytes) -> bytes:
    return _U32.pack(len(octets)) + octets


_DECIMAL_CODES: Final = {4: 0x74, 8: 0x84, 16: 0x94}


def _integer(value: int) -> bytes:
    try:
        match value:
            case UInt():
                if value == 0:
                    return b"\x43"
                return bytes((0x52, value)) if 0 < value < 256 else b"\x70" + _U32.pack(value)
            case ULong():
                if value == 0:
                    return b"\x44"
                return bytes((0x53, value)) if 0 < value < 256 else b"\x80" + _U64.pack(value)
            case UByte():
                return b"\x50" + bytes((value,))
            case UShort():
                return b"\x60" + _U16.pack(value)
            case Byte():
                return b"\x51" + _I8.pack(value)
            case Short():
                return b"\x61" + _I16.pack(value)
            case Int():
                return b"\x54" + _I8.pack(value) if -128 <= value < 128 else b"\x71" + _I32.pack(value)
            case Timestamp():
                return b"\x83" + _I64.pack(value)
            case _:
                return b"\x55" + _I8.pack(value) if -128 <= value < 128 else b"\x81" + _I64.pack(value)
    except (ValueError, StructError) as error:
        raise ValueError(f"{int(value)} is out of the range of {type(value).__name__}") from error


def _sized(code: int, octets: bytes) -> bytes:
    """Return octets after their size; ``code`` is that of the form with one octet of size."""
    size = len(octets)
    if size < 256:
        return bytes((code, size)) + octets
    return bytes((code + 0x10,)) + _U32.pack(size) + octets


def _compound(code: int, count: int, items: bytes) -> bytes:
    size = len(items)
    if size < 255 and count < 256:
        return bytes((code, size + 1, count)) + items
    return bytes((code + 0x10,)) + _U32.pack(size + 4) + _U32.pack(count) + items


def _array(array: Array) -> bytes:
    code = array.code
    prefix = b"\x00" + encode(array.descriptor) if array.is_described else b""
    items = [_item(code, item) for item in array.items]
    narrow = _NARROW.get(code)
    if narrow is not None and all(len(item) < 260 and item[:3] == b"\0\0\0" for item in items):
        # One octet of size is enough for each of them.
        items = [item[3:] for item in items]
        code = narrow
    return _compound(0xE0, len(items), prefix + bytes((code,)) + b"".join(items))


_WIDE_FORMS: Final = {0x70: _U32, 0x80: _U64, 0x71: _I32, 0x81: _I64}

# Widest code -> the one with one octet of size, for items that consist of size and octets.
_NARROW: Final = {0xB0: 0xA0, 0xB1: 0xA1, 0xB3: 0xA3}


def _item(code: int, item: Value) -> bytes:
    """Return one item of an array, without its code, in the widest form."""
    match code:
        case 0x40:
            return b""
        case 0x56:
            return b"\x01" if item else b"\x00"
        case 0x70 | 0x80 | 0x71 | 0x81:
            return _WIDE_FORMS[code].pack(item)
        case 0xB0:
            return _wide(item)
        case 0xB1:
            return _wide(item.encode())
        case 0xB3:
            return _wide(item.encode("ascii"))
        case 0xD0:
            items = b"".join([encode(one) for one in item])
            return _U32.pack(len(items) + 4) + _U32.pack(len(item)) + items
        case 0xD1:
            items = b"".join([encode(key) + encode(one) for key, one in item.items()])
            return _U32.pack(len(items) + 4) + _U32.pack(2 * len(item)) + items
        case 0xF0:
            encoded = _array(item)
            # Unfold what _compound folded: items of an array of arrays all have the wide form.
            if encoded[0] == 0xE0:
                return _U32.pack(encoded[1] + 3) + _U32.pack(encoded[2]) + encoded[3:]
            return encoded[1:]
        case _:
            return encode(item)[1:]  # fixed width: the code, then the octets
