"""The type system: octets to values.  Source: AMQP 1.0 part 1.

The high four bits of a format code give the width of the octets after it:

    0x4_  nothing        0x8_  8 octets            0xC_  size 1, count 1, items (lists, maps)
    0x5_  1 octet        0x9_  16 octets           0xD_  size 4, count 4, items
    0x6_  2 octets       0xA_  size 1, octets      0xE_  size 1, count 1, constructor, items (arrays)
    0x7_  4 octets       0xB_  size 4, octets      0xF_  size 4, count 4, constructor, items
    0x00  a descriptor and a value follow

A reader measures before it builds.  It checks sizes against the octets that have come, and the number of items against
ITEMS_MAX before it makes a list of them, because an array of nulls takes no octets.  Nesting ends at NESTING_MAX.  Each
failed check raises DecodeError, and no other error is raised.
"""

from __future__ import annotations

import uuid
from struct import Struct
from typing import Final

from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.values import (
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

NESTING_MAX: Final = 32  # lists, maps, arrays and descriptors inside each other
ITEMS_MAX: Final = 65_536  # items of one value, at all depths together

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")

# Octets after a format code of each class 0x4 to 0x9.
_FIXED_WIDTH: Final = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}

# The defined format codes of fixed width; other codes of their classes are errors.
_DEFINED: Final = frozenset(
    bytes.fromhex("4041424344 45 505152535455 56 6061 7071727374 808182 8384 9498 a0a1a3 b0b1b3 c0c1 d0d1 e0 f0")
)

# Every code -> the widest one of its type, which represents the type.
WIDEST: Final = {
    0x41: 0x56,
    0x42: 0x56,
    0x43: 0x70,
    0x44: 0x80,
    0x45: 0xD0,
    0x52: 0x70,
    0x53: 0x80,
    0x54: 0x71,
    0x55: 0x81,
    0xA0: 0xB0,
    0xA1: 0xB1,
    0xA3: 0xB3,
    0xC0: 0xD0,
    0xC1: 0xD1,
    0xE0: 0xF0,
}


def decode(octets: bytes, position: int = 0) -> tuple[Value, int]:
    """Return the value at ``position`` and where it ends.  Raises: DecodeError."""
    reader = Reader(octets, position, len(octets))
    return reader.read(), reader.position


class Reader:
    """Values out of ``octets`` from ``position`` to ``end``."""

    __slots__ = ("octets", "position", "end", "items_left", "depth")

    def __init__(self, octets: bytes, position: int, end: int) -> None:
        self.octets = octets
        self.position = position
        self.end = end
        self.items_left = ITEMS_MAX
        self.depth = 0

    def read(self) -> Value:
        """Return the next value.  Raises: DecodeError."""
        position = self.position
        if position >= self.end:
            raise DecodeError(f"a value is missing at octet {position}")
        self.position = position + 1
        code = self.octets[position]
        if code == 0:
            return self._described()
        return self._value(code)

    def _described(self) -> Described:
        self._enter()
        descriptor = self.read()
        value = self.read()
        self.depth -= 1
        return Described(descriptor, value)

    def _value(self, code: int) -> Value:
        """Return the value whose code has just been read."""
        if code not in _DEFINED:
            raise DecodeError(f"format code {code:#04x} at octet {self.position - 1} is not defined")
        width = code >> 4
        if width < 0xA:
            return self._fixed(code, _FIXED_WIDTH[width])
        if width < 0xC:
            return self._variable(code, self._size(4 if width == 0xB else 1))
        count_width = 4 if width & 1 else 1
        size = self._size(count_width)
        end = self.position + size
        if size < count_width:
            raise DecodeError(f"a compound value of {size} octets has no room for its count")
        count = self._number(count_width)
        self._count(count)
        self._enter()
        outer = self.end
        self.end = end
        if width >= 0xE:
            value: Value = self._array(count)
        elif code & 1:
            value = self._map(count)
        else:
            value = [self.read() for _ in range(count)]
        if self.position != end:
            raise DecodeError(f"{end - self.position} octets are left over in a compound value of {count} items")
        self.end = outer
        self.depth -= 1
        return value

    def _map(self, count: int) -> dict[Value, Value]:
        if count % 2:
            raise DecodeError(f"a map has {count} items, which leaves a key without its value")
        pairs: dict[Value, Value] = {}
        for _ in range(count // 2):
            key = self.read()
            if isinstance(key, (list, dict, Array)) or (isinstance(key, Described) and not _is_simple(key)):
                raise DecodeError("a key of a map is a list, a map or an array; allowed is a simple value")
            pairs[key] = self.read()  # repeated: the last one counts
        return pairs

    def _array(self, count: int) -> Array:
        is_described = False
        descriptor: Value = None
        code = self._number(1)
        if code == 0:
            is_described = True
            descriptor = self.read()
            code = self._number(1)
        if code == 0 or code not in _DEFINED:
            raise DecodeError(f"format code {code:#04x} of the items of an array is not defined")
        items = [self._value(code) for _ in range(count)]
        return Array(WIDEST.get(code, code), items, is_described, descriptor)

    def _fixed(self, code: int, width: int) -> Value:
        octets = self.octets
        at = self.position
        after = at + width
        if after > self.end:
            raise DecodeError(f"format code {code:#04x} needs {width} octets at {at}, {self.end - at} are there")
        self.position = after
        match code:
            case 0x40:
                return None
            case 0x41:
                return True
            case 0x42:
                return False
            case 0x43:
                return UInt(0)
            case 0x44:
                return ULong(0)
            case 0x45:
                return []
            case 0x50:
                return UByte(octets[at])
            case 0x51:
                return Byte(_I8.unpack_from(octets, at)[0])
            case 0x52:
                return UInt(octets[at])
            case 0x53:
                return ULong(octets[at])
            case 0x54:
                return Int(_I8.unpack_from(octets, at)[0])
            case 0x55:
                return int(_I8.unpack_from(octets, at)[0])
            case 0x56:
                if octets[at] > 1:
                    raise DecodeError(f"a boolean is {octets[at]:#04x}; allowed are 0x00 and 0x01")
                return octets[at] == 1
            case 0x60:
                return UShort(_U16.unpack_from(octets, at)[0])
            case 0x61:
                return Short(_I16.unpack_from(octets, at)[0])
            case 0x70:
                return UInt(_U32.unpack_from(octets, at)[0])
            case 0x71:
                return Int(_I32.unpack_from(octets, at)[0])
            case 0x72:
                return Float(_F32.unpack_from(octets, at)[0])
            case 0x73:
                return _char(_U32.unpack_from(octets, at)[0])
            case 0x80:
                return ULong(_U64.unpack_from(octets, at)[0])
            case 0x81:
                return int(_I64.unpack_from(octets, at)[0])
            case 0x82:
                return float(_F64.unpack_from(octets, at)[0])
            case 0x83:
                return Timestamp(_I64.unpack_from(octets, at)[0])
            case 0x98:
                return uuid.UUID(bytes=octets[at:after])
            case _:  # 0x74, 0x84, 0x94: _DEFINED has nothing else
                return Decimal(octets[at:after])

    def _variable(self, code: int, size: int) -> Value:
        at = self.position
        self.position = at + size
        octets = self.octets[at : at + size]
        kind = code & 0xF
        if kind == 0:
            return octets
        if kind == 1:
            try:
                return octets.decode()
            except UnicodeDecodeError as error:
                raise DecodeError(f"a string is not UTF-8 at its octet {error.start}") from None
        if not octets.isascii():
            raise DecodeError("a symbol has an octet above 0x7f; allowed is ASCII")
        return Symbol(octets.decode("ascii"))

    def _size(self, width: int) -> int:
        size = self._number(width)
        if size > self.end - self.position:
            left = self.end - self.position
            raise DecodeError(f"a value of {size} octets begins at {self.position}, {left} are left")
        return size

    def _number(self, width: int) -> int:
        at = self.position
        if at + width > self.end:
            raise DecodeError(f"a number of {width} octets is missing at octet {at}")
        self.position = at + width
        return self.octets[at] if width == 1 else int(_U32.unpack_from(self.octets, at)[0])

    def _count(self, count: int) -> None:
        self.items_left -= count
        if self.items_left < 0:
            raise DecodeError(f"more than {ITEMS_MAX} items in one value")

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise DecodeError(f"values are nested deeper than {NESTING_MAX}")


def _is_simple(value: Value) -> bool:
    while isinstance(value, Described):
        if isinstance(value.descriptor, (list, dict, Array, Described)):
            return False
        value = value.value
    return not isinstance(value, (list, dict, Array))


def _char(point: int) -> Char:
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise DecodeError(f"a char is {point:#x}, which is no Unicode character")
    return Char(chr(point))
