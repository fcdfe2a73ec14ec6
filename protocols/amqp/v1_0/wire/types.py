"""The type system: octets to values and back.  Source: AMQP 1.0 part 1.

The high four bits of a format code give the width of what follows:

    0x4_  nothing        0x8_  8 octets            0xC_  size 1, count 1, items (lists, maps)
    0x5_  1 octet        0x9_  16 octets           0xD_  size 4, count 4, items
    0x6_  2 octets       0xA_  size 1, octets      0xE_  size 1, count 1, constructor, items (arrays)
    0x7_  4 octets       0xB_  size 4, octets      0xF_  size 4, count 4, constructor, items
    0x00  a descriptor and a value follow

A reader never builds what it has not measured: sizes are checked against the octets that are there, items are counted
against ITEMS_MAX before a list of them is made (an array of nulls takes no octets at all), and nesting ends at
NESTING_MAX.  All of that raises DecodeError and nothing else does.
"""

from __future__ import annotations

import uuid
from struct import Struct
from struct import error as StructError
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
ITEMS_MAX: Final = 65_536  # of one value, at every depth together

_U16: Final = Struct(">H")
_U32: Final = Struct(">I")
_U64: Final = Struct(">Q")
_I8: Final = Struct(">b")
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")
_F32: Final = Struct(">f")
_F64: Final = Struct(">d")

# Octets that follow a format code of each class 0x4 to 0x9.
_FIXED_WIDTH: Final = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}

# Format codes with fixed width that are defined; the rest of their classes is an error.
_DEFINED: Final = frozenset(
    bytes.fromhex("4041424344 45 505152535455 56 6061 7071727374 808182 8384 9498 a0a1a3 b0b1b3 c0c1 d0d1 e0 f0")
)

# Every code -> the widest one of its type, which stands for the type.
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

_UINT: Final = 0x70
_ULONG: Final = 0x80


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


# -- values to octets


def encode(value: Value) -> bytes:
    """Return ``value`` in its smallest form.

    Raises: ValueError for a number out of the range of its type, a char that is not one, a text with half a character.
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
    """Say whether a value is nested no deeper, and holds no more items, than every reader of ours takes."""
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
    """Return octets behind their size; ``code`` is that of the form with one octet of size."""
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


# Widest code -> the one with one octet of size, for items that are nothing but size and octets.
_NARROW: Final = {0xB0: 0xA0, 0xB1: 0xA1, 0xB3: 0xA3}


def _item(code: int, item: Value) -> bytes:
    """Return one item of an array, without its code, in the widest form."""
    match code:
        case 0x40:
            return b""
        case 0x56:
            return b"\x01" if item else b"\x00"
        case 0x70:
            return _U32.pack(item)
        case 0x80:
            return _U64.pack(item)
        case 0x71:
            return _I32.pack(item)
        case 0x81:
            return _I64.pack(item)
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
