"""Reads the Variant binary encoding strictly, from its specification alone, so that it shares no mistake with ours."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}  # octets by primitive type
DECIMALS = {8: 4, 9: 8, 10: 16}


def decode(value: bytes, metadata: bytes) -> Any:
    """Return what a variant holds: None, bool, int, Decimal, float, str, list or dict."""
    names = _names(metadata)
    found, end = _value(value, 0, names)
    assert end == len(value)
    return found


def _names(metadata: bytes) -> list[str]:
    assert metadata[0] & 0x0F == 1  # version
    width = (metadata[0] >> 6) + 1
    count, offsets, start = _offsets(metadata, 1, width, width)
    assert offsets == sorted(offsets) and offsets[0] == 0 and start + offsets[-1] == len(metadata)
    return [metadata[start + offsets[at] : start + offsets[at + 1]].decode() for at in range(count)]


def _offsets(octets: bytes, at: int, count_width: int, width: int) -> tuple[int, list[int], int]:
    """Read a number of elements and their offsets, one more than elements; return also where they end."""
    count = int.from_bytes(octets[at : at + count_width], "little")
    return count, *_numbers(octets, at + count_width, count + 1, width)


def _numbers(octets: bytes, at: int, count: int, width: int) -> tuple[list[int], int]:
    end = at + count * width
    assert end <= len(octets)
    return [int.from_bytes(octets[place : place + width], "little") for place in range(at, end, width)], end


def _value(octets: bytes, at: int, names: list[str]) -> tuple[Any, int]:
    header, at = octets[at], at + 1
    kind, info = header & 3, header >> 2
    if kind == 0:
        return _primitive(octets, at, info)
    if kind == 1:
        return octets[at : at + info].decode(), at + info
    if kind == 2:
        return _object(octets, at, info, names)
    return _array(octets, at, info, names)


def _primitive(octets: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind < 3:
        return (None, True, False)[kind], at
    if kind in INTEGERS:
        end = at + INTEGERS[kind]
        return int.from_bytes(octets[at:end], "little", signed=True), end
    if kind in DECIMALS:
        end = at + 1 + DECIMALS[kind]
        unscaled = int.from_bytes(octets[at + 1 : end], "little", signed=True)
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -octets[at])), end
    if kind == 7:
        return struct.unpack_from("<d", octets, at)[0], at + 8
    assert kind == 16, f"primitive type {kind} is of no JSON"
    end = at + 4 + int.from_bytes(octets[at : at + 4], "little")
    assert end - at - 4 > 63  # else it would be a short string
    return octets[at + 4 : end].decode(), end


def _array(octets: bytes, at: int, info: int, names: list[str]) -> tuple[list[Any], int]:
    assert info < 8
    _, offsets, start = _offsets(octets, at, 4 if info >> 2 else 1, (info & 3) + 1)
    found, ends = [], [0]
    for offset in offsets[:-1]:
        value, end = _value(octets, start + offset, names)
        found.append(value)
        ends.append(end - start)
    assert ends == offsets  # nothing is between elements
    return found, start + offsets[-1]


def _object(octets: bytes, at: int, info: int, names: list[str]) -> tuple[dict[str, Any], int]:
    assert info < 32
    count_width, number_width, width = 4 if info >> 4 else 1, (info >> 2 & 3) + 1, (info & 3) + 1
    count = int.from_bytes(octets[at : at + count_width], "little")
    numbers, at = _numbers(octets, at + count_width, count, number_width)
    offsets, start = _numbers(octets, at, count + 1, width)
    fields = [names[number] for number in numbers]
    assert fields == sorted(set(fields), key=lambda name: name.encode("utf-16-be"))
    found, ends = {}, [0]
    for offset, name in sorted(zip(offsets, fields, strict=False)):  # in the order of their places
        found[name], end = _value(octets, start + offset, names)
        ends.append(end - start)
    assert ends == sorted(offsets)
    return found, start + offsets[-1]
