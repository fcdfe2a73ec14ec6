"""The type system: octets to values.  Source: AMQP 1.0 part 1.

The high four bits of a format code give the width of the octets after it:

    0x4_  nothing        0x8_  8 octets            0xC_  size 1, count 1, items (lists, maps)
    0x5_  1 octet        0x9_  16 octets           0xD_  size 4, count 4, items
    0x6_  2 octets       0xA_  size 1, octets      0xE_  size 1, count 1, constructor, items (arrays)
    0x7_  4 octets       0xB_  size 4, octets      0xF_  size 4, count 4, constructor, items
    0x00  a descriptor and a value follow

A reader measures before it builds.  It checks sizes against the octets that have come, and the number of items against
ITEMS_MAX before it makes a list of them.  An array of nulls takes no octets and has a limit of its own, so that small
frames cost little.  Nesting ends at NESTING_MAX.  Each failed check raises DecodeError, and no other error is raised.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from struct import Struct
from typing import Final

from protocols.amqp.v1_0.wire.errors import DecodeError
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

NESTING_MAX: Final = 32  # lists, maps, arrays and descriptors inside each other
ITEMS_MAX: Final = 65_536  # items of one value, at all depths together
EMPTY_ITEMS_MAX: Final = 256  # of these, items of arrays that take no octets: nulls, true, false, zeros, empty lists
# Keys of maps that are no text, octets or numbers.  Their sender can give them all one hash, and each new one is then
# compared with all before it.
HASHED_KEYS_MAX: Final = 256

_U32: Final = Struct(">I")
_I32: Final = Struct(">i")
_I64: Final = Struct(">q")

# The numbers: format code -> its type, the form of its octets.
_NUMBERS: Final[dict[int, tuple[Callable[[float], Value], Struct]]] = {
    code: (kind, Struct(f">{form}"))
    for code, kind, form in (
        (0x50, UByte, "B"), (0x51, Byte, "b"), (0x52, UInt, "B"), (0x53, ULong, "B"), (0x54, Int, "b"),
        (0x55, int, "b"), (0x60, UShort, "H"), (0x61, Short, "h"), (0x70, UInt, "I"), (0x71, Int, "i"),
        (0x72, Float, "f"), (0x80, ULong, "Q"), (0x81, int, "q"), (0x82, float, "d"), (0x83, Timestamp, "q"),
    )
}  # fmt: skip

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


def decode_plain(octets: bytes, position: int, reader: Reader | None = None) -> tuple[Value, int]:
    """Do the same; a small list or map of scalars, as most sections of messages are, takes a fourth of the time.

    reader: of ``octets``, for any other value; it counts what several values have together.  Raises: DecodeError.
    """
    try:
        code = octets[position]
        if code == 0xC0 or code == 0xC1:
            end = position + 2 + octets[position + 1]
            items = _scalars(octets, position + 3, end, octets[position + 2]) if end <= len(octets) else None
            if items is not None:
                if reader is not None:
                    reader.plain_items += len(items)
                if code == 0xC0:
                    return items, end
                if len(items) % 2 == 0:
                    return dict(zip(items[::2], items[1::2], strict=True)), end
        elif code == 0xB0 or code == 0xA0:
            start = position + (5 if code == 0xB0 else 2)
            end = start + int.from_bytes(octets[position + 1 : start], "big")
            if end <= len(octets):
                return octets[start:end], end
    except (IndexError, UnicodeDecodeError):
        pass  # the reader says what is wrong
    if reader is None:
        return decode(octets, position)
    reader.position = position
    return reader.read(), reader.position


def _scalars(octets: bytes, at: int, end: int, count: int) -> list[Value] | None:
    """Return the items between ``at`` and ``end``, None if one is no frequent scalar.

    Raises: IndexError, UnicodeDecodeError.
    """
    items: list[Value] = []
    for _ in range(count):
        code = octets[at]
        at += 1
        if code == 0x40:
            items.append(None)
        elif code == 0xA1 or code == 0xA3:
            after = at + 1 + octets[at]
            text = octets[at + 1 : after]
            if code == 0xA1:
                items.append(text.decode())
            else:
                items.append(Symbol(text.decode("ascii")))
            at = after
        elif code == 0x83:
            items.append(Timestamp(_I64.unpack_from(octets, at)[0]) if at + 8 <= end else None)
            at += 8
        elif code == 0x41 or code == 0x42:
            items.append(code == 0x41)
        elif code == 0x43:
            items.append(UInt(0))
        elif code == 0x50:
            items.append(UByte(octets[at]))
            at += 1
        elif code == 0x51:
            items.append(Byte((octets[at] ^ 0x80) - 0x80))
            at += 1
        elif code == 0x54:
            items.append(Int((octets[at] ^ 0x80) - 0x80))
            at += 1
        elif code == 0x71:
            items.append(Int(_I32.unpack_from(octets, at)[0]) if at + 4 <= end else None)
            at += 4
        else:
            return None
    return items if at == end else None


class Reader:
    """Values out of ``octets`` from ``position`` to ``end``; the limits are for all of them together.

    plain_items: of small values that ``decode_plain`` has made; none of the limits is for them.
    """

    __slots__ = ("octets", "position", "end", "items_left", "empty_left", "keys_left", "plain_items", "depth")

    def __init__(self, octets: bytes, position: int, end: int) -> None:
        self.octets = octets
        self.position = position
        self.end = end
        self.items_left = ITEMS_MAX
        self.empty_left = EMPTY_ITEMS_MAX
        self.keys_left = HASHED_KEYS_MAX
        self.plain_items = 0
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

    def items_read(self) -> int:
        """Return of how many items, at all depths, values have been made, also if the last one is malformed."""
        # A list is counted before it is read, and each of its items takes an octet at least.
        return self.plain_items + min(ITEMS_MAX - self.items_left, self.position)

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
            if isinstance(key, (uuid.UUID, Described)):
                self.keys_left -= 1
                if self.keys_left < 0:
                    raise DecodeError(f"more than {HASHED_KEYS_MAX} keys of maps are uuids or described")
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
        if code < 0x50:
            self.empty_left -= count
            if self.empty_left < 0:
                raise DecodeError(f"more than {EMPTY_ITEMS_MAX} items of arrays take no octets")
        items = [self._value(code) for _ in range(count)]
        return Array(WIDEST.get(code, code), items, is_described, descriptor)

    def _fixed(self, code: int, width: int) -> Value:
        octets = self.octets
        at = self.position
        after = at + width
        if after > self.end:
            raise DecodeError(f"format code {code:#04x} needs {width} octets at {at}, {self.end - at} are there")
        self.position = after
        number = _NUMBERS.get(code)
        if number is not None:
            kind, form = number
            return kind(form.unpack_from(octets, at)[0])
        match code:
            case 0x40:
                return None
            case 0x41 | 0x42:
                return code == 0x41
            case 0x43:
                return UInt(0)
            case 0x44:
                return ULong(0)
            case 0x45:
                return []
            case 0x56:
                if octets[at] > 1:
                    raise DecodeError(f"a boolean is {octets[at]:#04x}; allowed are 0x00 and 0x01")
                return octets[at] == 1
            case 0x73:
                return _char(_U32.unpack_from(octets, at)[0])
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
