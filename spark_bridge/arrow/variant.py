"""JSON texts in the Variant binary encoding, octet by octet as Spark's ``parse_json`` writes them.

Source: "Variant Binary Encoding" of Apache Parquet, version 1.  All numbers are little-endian.

    metadata   header (version and width of the offsets), number of names, offsets, names in UTF-8
    string     header with the number of octets up to 63, else header and the number in 4 octets; UTF-8
    number     header; an integer of 1, 2, 4 or 8 octets, or a decimal's scale and 4, 8 or 16 octets, or a double
    array      header, number of elements in 1 or 4 octets, offsets, elements
    object     header, number of fields in 1 or 4 octets, numbers of their names, offsets, values

The two lowest bits of a header are the basic type.  Names are numbered as they first appear.  An object lists its
fields in the order of their names, and has their values in the order of the text.
"""

from __future__ import annotations

import json
import sys
from array import array
from itertools import accumulate
from struct import pack
from typing import Any, Final

SIZE_MAX: Final = 16 * 1024 * 1024  # octets of a value, and of its metadata; pyspark's own parser has the same
DEPTH_MAX: Final = 256  # arrays and objects in one another; Python's parser fails at 1,000 calls, with its callers'
NUMBER_MAX: Final = 1_000  # characters of a number, as in Spark; the time for one grows with their square

PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)  # basic types
# Primitive types.
NULL, TRUE, FALSE, INT8, INT16, INT32, INT64, DOUBLE, DECIMAL4, DECIMAL8, DECIMAL16 = range(11)
STRING: Final = 16
VERSION: Final = 1
SHORT_MAX: Final = 63  # octets of a short string
COUNT_MAX: Final = 255  # elements or fields that one octet counts

# By type, the bound of its numbers and its octets; of decimals also the largest scale.
INTEGERS: Final = ((INT8, 1 << 7, 1), (INT16, 1 << 15, 2), (INT32, 1 << 31, 4), (INT64, 1 << 63, 8))
DECIMALS: Final = ((DECIMAL4, 10**9, 4, 9), (DECIMAL8, 10**18, 8, 18), (DECIMAL16, 10**38, 16, 38))
CONSTANTS: Final[dict[bool | None, bytes]] = {
    None: bytes([NULL << 2]),
    True: bytes([TRUE << 2]),
    False: bytes([FALSE << 2]),
}

SHORT_HEADERS: Final = tuple(bytes([size << 2 | SHORT_STRING]) for size in range(SHORT_MAX + 1))
SMALL: Final = {str(number): bytes([INT8 << 2, number & 0xFF]) for number in range(-128, 128)}

Variant = tuple[bytes, bytes]  # value and metadata
Fields = tuple[tuple[str, Any], ...]
# How an object lists its fields: header without the width of offsets, their number and those of their names, order.
_Shape = tuple[int, bytes, list[int]]


def encode(text: str) -> Variant | None:
    """Return value and metadata of a JSON text; None for what has none.

    That is a text that is not JSON, that has a name twice in an object or half of a surrogate pair, or that is beyond a
    limit.
    """
    if len(text) > SIZE_MAX:
        return None
    try:
        return _Writer().written(_DECODER.decode(text))
    except (ValueError, RecursionError):
        return None


class _Writer:
    """Writes one value.  _octets: what is written.  _numbers: those of the names.

    _shapes: by the numbers of an object's names, how it lists them; the objects of an array often have the same names.
    """

    __slots__ = ("_numbers", "_octets", "_shapes")

    def __init__(self) -> None:
        self._octets = bytearray()
        self._numbers: dict[str, int] = {}
        self._shapes: dict[bytes, _Shape] = {}

    def written(self, value: object) -> Variant:
        """Return the octets of what the decoder has made, and its metadata.  Raises: ValueError."""
        self._write(value, DEPTH_MAX)
        metadata = _metadata(list(self._numbers))
        if max(len(self._octets), len(metadata)) > SIZE_MAX:
            raise ValueError(f"it has more than {SIZE_MAX} octets")
        return bytes(self._octets), metadata

    def _write(self, value: Any, levels: int) -> None:
        """Write a value that may have so many levels.  Raises: ValueError."""
        kind = type(value)
        if kind is bytes:  # a number
            self._octets += value
        elif kind is str:
            self._octets += _string(value)
        elif kind is not list and kind is not tuple:
            self._octets += CONSTANTS[value]
        elif not levels or len(self._octets) > SIZE_MAX:
            raise ValueError(f"it has more than {DEPTH_MAX} levels or {SIZE_MAX} octets")
        elif kind is list:
            octets, offsets = self._octets, array("I")
            start = len(octets)
            for each in value:
                offsets.append(len(octets) - start)
                if type(each) is bytes:
                    octets += each
                else:
                    self._write(each, levels - 1)
            octets[start:start] = _array_header(offsets, len(octets) - start)
        else:
            octets, offsets, numbers, known = self._octets, array("I"), array("I"), self._numbers
            start = len(octets)
            for name, each in value:
                numbers.append(known.setdefault(name, len(known)))
                offsets.append(len(octets) - start)
                if type(each) is str:
                    octets += _string(each)
                else:
                    self._write(each, levels - 1)
            octets[start:start] = self._object_header(value, numbers, offsets, len(octets) - start)

    def _object_header(self, named: Fields, numbers: array[int], offsets: array[int], size: int) -> bytes:
        """Return what precedes the values.  size: their octets.  Raises: ValueError if a name is there twice."""
        key = numbers.tobytes()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _shape([name for name, _ in named], numbers)
        kind, counted, order = shape
        width = _width(size)
        listed = [offsets[at] for at in order]
        listed.append(size)
        return bytes((kind | (width - 1) << 2,)) + counted + _packed(listed, width)


def _metadata(names: list[str]) -> bytes:
    encoded = [name.encode() for name in names]
    offsets = [0, *accumulate(map(len, encoded))]
    width = _width(max(offsets[-1], len(names)))
    count = len(names).to_bytes(width, "little")
    return b"".join((bytes((VERSION | (width - 1) << 6,)), count, _packed(offsets, width), *encoded))


def _array_header(offsets: array[int], size: int) -> bytes:
    """Return what precedes the elements.  size: their octets."""
    is_large, count = _count(len(offsets))
    width = _width(size)
    offsets.append(size)
    return bytes((is_large << 4 | (width - 1) << 2 | ARRAY,)) + count + _packed(offsets, width)


def _shape(names: list[str], numbers: array[int]) -> _Shape:
    """Return how an object lists its fields.  Raises: ValueError if a name is there twice."""
    if len(set(numbers)) < len(names):
        raise ValueError("an object has a name twice")
    # Spark looks names up in the order of Java's strings, which are UTF-16.
    keys: list[Any] = names
    if not "".join(names).isascii():
        keys = [name.encode("utf-16-be") for name in names]
    order = sorted(range(len(names)), key=keys.__getitem__)
    is_large, count = _count(len(names))
    width = _width(max(numbers, default=0))
    return is_large << 6 | (width - 1) << 4 | OBJECT, count + _packed([numbers[at] for at in order], width), order


def _count(count: int) -> tuple[bool, bytes]:
    """Return whether a number of elements is a large one, and its octets."""
    is_large = count > COUNT_MAX
    return is_large, count.to_bytes(4 if is_large else 1, "little")


def _width(most: int) -> int:
    """Return the number of octets of the largest number in a list."""
    return 1 if most <= 0xFF else (most.bit_length() + 7) // 8


def _packed(numbers: array[int] | list[int], width: int) -> bytes:
    """Return numbers of so many octets each."""
    if width == 1:
        return bytes(list(numbers))
    packed = array("I", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    octets = bytearray(packed.tobytes())
    for last in range(packed.itemsize - 1, width - 1, -1):  # from each number its highest octet
        del octets[last :: last + 1]
    return bytes(octets)


def _string(text: str) -> bytes:
    octets = text.encode()
    if len(octets) <= SHORT_MAX:
        return SHORT_HEADERS[len(octets)] + octets
    return bytes([STRING << 2]) + len(octets).to_bytes(4, "little") + octets


def _integer(text: str) -> bytes:
    """Return a number without a fraction, of the shortest type that has it.  Raises: ValueError for a long one."""
    small = SMALL.get(text)
    if small is not None:
        return small
    _check_number(text)
    number = int(text)
    for kind, bound, size in INTEGERS:
        if -bound <= number < bound:
            return bytes([kind << 2]) + number.to_bytes(size, "little", signed=True)
    return _decimal(number, 0) or _double(text)


def _fraction(text: str) -> bytes:
    """Return a number with a fraction or an exponent.  Raises: ValueError for a long one."""
    _check_number(text)
    whole, _, fraction = text.partition(".")
    if "e" in text or "E" in text:
        return _double(text)
    return _decimal(int(whole + fraction), len(fraction)) or _double(text)


def _decimal(unscaled: int, scale: int) -> bytes:
    """Return a decimal of the shortest type that has it; nothing if there is none."""
    for kind, bound, size, scale_max in DECIMALS:
        if -bound < unscaled < bound and scale <= scale_max:
            return bytes([kind << 2, scale]) + unscaled.to_bytes(size, "little", signed=True)
    return b""


def _double(text: str) -> bytes:
    return bytes([DOUBLE << 2]) + pack("<d", float(text))


def _check_number(text: str) -> None:
    if len(text) > NUMBER_MAX:
        raise ValueError(f"a number has {len(text)} characters, the limit is {NUMBER_MAX}")


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


# Numbers are written while they are read, and an object is a tuple of its fields, so that a name may be there twice.
_DECODER: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_fraction, parse_constant=_refuse, object_pairs_hook=tuple
)
