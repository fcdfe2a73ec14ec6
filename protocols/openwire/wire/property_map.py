"""Maps and lists of typed values: message properties, bodies of MapMessages and StreamMessages, WireFormatInfo.

    map     count(4), -1 for null; each: length(2) key, tag(1), value
    list    count(4); each: tag(1), value
    stream  until its end: tag(1), value

Source: ActiveMQ's MarshallingSupport.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from protocols import map_message as words
from protocols.errors import FrameError
from protocols.map_message import DEPTH_MAX, VALUES_MAX, Map, Typed
from protocols.openwire.wire.modified_utf8 import STRING_BYTES_MAX, decode_text, encode_text

NULL: Final = 0
BOOLEAN: Final = 1
BYTE: Final = 2
CHAR: Final = 3
SHORT: Final = 4
INT: Final = 5
LONG: Final = 6
DOUBLE: Final = 7
FLOAT: Final = 8
STRING: Final = 9
BYTES: Final = 10
MAP: Final = 11
LIST: Final = 12
BIG_STRING: Final = 13

BIG_STRING_FROM: Final = 8_191  # characters from which on Java writes a big string
ENTRY_LEAST: Final = 3  # octets of an entry of a map

_NUMBERS: Final = {
    BYTE: (words.BYTE, struct.Struct(">b")),
    SHORT: (words.SHORT, struct.Struct(">h")),
    INT: (words.INT, struct.Struct(">i")),
    LONG: (words.LONG, struct.Struct(">q")),
    DOUBLE: (words.DOUBLE, struct.Struct(">d")),
    FLOAT: (words.FLOAT, struct.Struct(">f")),
}
_TAGS: Final = {word: (tag, form) for tag, (word, form) in _NUMBERS.items()}


class Tally:
    """values: how many have been read, also of a map or list that is malformed."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = 0


def read_map(octets: bytes, tally: Tally | None = None) -> Map:
    """Return a property map; a null map is empty.  Raises: FrameError."""
    reader = ValueReader(octets)
    try:
        found = reader.map(1)
        reader.finish()
        return found
    finally:
        _count(reader, tally)


def read_stream(octets: bytes, tally: Tally | None = None) -> list[Typed]:
    """Return the values of a StreamMessage.  Raises: FrameError."""
    reader = ValueReader(octets)
    found: list[Typed] = []
    try:
        while reader.position < len(octets):
            found.append(reader.value(1))
        return found
    finally:
        _count(reader, tally)


def _count(reader: ValueReader, tally: Tally | None) -> None:
    if tally is not None:
        tally.values += VALUES_MAX - max(0, reader.left)


class ValueReader:
    """Reads values one after the other, within bounds.  Every method raises FrameError."""

    __slots__ = ("octets", "position", "left")

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.position = 0
        self.left = VALUES_MAX

    def finish(self) -> None:
        rest = len(self.octets) - self.position
        if rest:
            raise FrameError(f"{rest} octets follow a property map")

    def map(self, depth: int) -> Map:
        count = self._count(depth, ENTRY_LEAST)
        found: Map = {}
        for _ in range(count):
            key = self._text(2)
            found[key] = self.value(depth)
        return found

    def value(self, depth: int) -> Typed:
        self.left -= 1
        if self.left < 0:
            raise FrameError(f"more than {VALUES_MAX} values in one map or stream, which is the limit")
        tag = self._take(1)[0]
        if tag == STRING:
            return Typed(words.STRING, self._text(2))
        if tag in _NUMBERS:
            word, form = _NUMBERS[tag]
            return Typed(word, form.unpack(self._take(form.size))[0])
        if tag == BOOLEAN:
            return Typed(words.BOOLEAN, self._take(1) != b"\0")
        if tag == NULL:
            return Typed(words.NULL, None)
        if tag == BIG_STRING:
            return Typed(words.STRING, self._text(4))
        if tag == BYTES:
            return Typed(words.BYTES, self._take(self._size(4)))
        if tag == CHAR:
            return Typed(words.CHAR, chr(self._size(2)))
        if tag == MAP:
            return Typed(words.MAP, self.map(depth + 1))
        if tag == LIST:
            return Typed(words.LIST, [self.value(depth + 1) for _ in range(self._count(depth + 1, 1))])
        raise FrameError(f"a value has the tag {tag}; allowed are {NULL} to {BIG_STRING}")

    def _count(self, depth: int, least_bytes: int) -> int:
        if depth > DEPTH_MAX:
            raise FrameError(f"{depth} maps and lists inside each other; the limit is {DEPTH_MAX}")
        count = int.from_bytes(self._take(4), "big", signed=True)
        if count > (len(self.octets) - self.position) // least_bytes:
            raise FrameError(f"{count} values are announced in {len(self.octets) - self.position} octets")
        return max(count, 0)

    def _take(self, count: int) -> bytes:
        start = self.position
        end = start + count
        if count < 0 or end > len(self.octets):
            raise FrameError(f"{count} octets are announced where {len(self.octets) - start} are left")
        self.position = end
        return self.octets[start:end]

    def _size(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big", signed=width == 4)

    def _text(self, width: int) -> str:
        try:
            return decode_text(self._take(self._size(width)))
        except UnicodeDecodeError as error:
            raise FrameError(f"a text is not in modified UTF-8: {error.reason}") from None


def write_map(values: Map, is_modified: bool = True) -> bytes:
    """Return a property map.

    is_modified: its texts are in modified UTF-8.  Java clients write that, but read ordinary UTF-8.
    """
    out: list[bytes] = []
    _write_map(out, values, is_modified)
    return b"".join(out)


def write_stream(values: list[Typed]) -> bytes:
    out: list[bytes] = []
    for one in values:
        _write(out, one, True)
    return b"".join(out)


def _write_map(out: list[bytes], values: Map, is_modified: bool) -> None:
    out.append(len(values).to_bytes(4, "big"))
    for key, value in values.items():
        octets = _encoded(key, is_modified)[:STRING_BYTES_MAX]
        out.append(len(octets).to_bytes(2, "big") + octets)
        _write(out, value, is_modified)


def _write(out: list[bytes], typed: Typed, is_modified: bool) -> None:
    kind = typed.kind
    value: Any = typed.value
    known = _TAGS.get(kind)
    if known is not None:
        tag, form = known
        out.append(bytes((tag,)) + form.pack(value))
    elif kind == words.STRING:
        octets = _encoded(value, is_modified)
        if len(value) >= BIG_STRING_FROM or len(octets) > STRING_BYTES_MAX:
            out.append(bytes((BIG_STRING,)) + len(octets).to_bytes(4, "big") + octets)
        else:
            out.append(bytes((STRING,)) + len(octets).to_bytes(2, "big") + octets)
    elif kind == words.BOOLEAN:
        out.append(b"\1\1" if value else b"\1\0")
    elif kind == words.NULL:
        out.append(b"\0")
    elif kind == words.BYTES:
        out.append(bytes((BYTES,)) + len(value).to_bytes(4, "big") + value)
    elif kind == words.CHAR:
        out.append(bytes((CHAR,)) + min(ord(value), 0xFFFF).to_bytes(2, "big"))
    elif kind == words.MAP:
        out.append(bytes((MAP,)))
        _write_map(out, value, is_modified)
    else:
        assert kind == words.LIST, f"{kind} is no kind of value"
        out.append(bytes((LIST,)) + len(value).to_bytes(4, "big"))
        for one in value:
            _write(out, one, is_modified)


def _encoded(text: str, is_modified: bool) -> bytes:
    return encode_text(text) if is_modified else text.encode("utf-8", "replace")
