"""Header blocks -> map column, without a Python step per message.

A block consists of lines ``name:value\\n`` with the escapes of STOMP 1.2.  Names and values hold no bare line feed, and
names no bare colon, so a line is cut at its first colon and at its line feed.  All blocks of a batch are in one buffer.
Their cuts become one array of offsets, and one ``take`` each yields names and values.  A batch with a block of another
shape is read line by line in Python.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocols.message_lines import TYPES_HEADER
from spark_bridge.arrow import bodies, fields
from spark_bridge.arrow.arrays import from_numpy, strings, to_numpy

NAMED: Final = tuple(dict.fromkeys((*fields.HEADERS, TYPES_HEADER, *bodies.HEADERS)))

LINE_FEED: Final = 10
COLON: Final = 58
BACKSLASH: Final = 92
ESCAPE: Final = re.compile(r"\\[nrc\\]")
UNESCAPED: Final = {"\\n": "\n", "\\r": "\r", "\\c": ":", "\\\\": "\\"}
SEEN_LIMIT: Final = 1 << 23

Int64s = np.ndarray[Any, np.dtype[np.int64]]


def parse(blocks: pa.Array, wanted: Sequence[str] = NAMED) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Return the map column and a string column for each wanted header; the first of repeated headers counts.

    blocks: a binary array that starts at the beginning of its own buffers, as ``take`` makes it.
    """
    _, offset_buffer, data_buffer = blocks.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32, count=len(blocks) + 1).astype(np.int64)
    total = int(offsets[-1])
    if total == 0:
        no_lines = np.zeros(len(blocks) + 1, dtype=np.int64)
        return _columns(len(blocks), no_lines, _no_strings(), _no_strings(), wanted)
    data = np.frombuffer(data_buffer, dtype=np.uint8, count=total)
    line_ends = np.flatnonzero(data == LINE_FEED)
    colons = np.flatnonzero(data == COLON)
    filled = offsets[1:] > offsets[:-1]
    if not len(colons) or not np.all(data[offsets[1:][filled] - 1] == LINE_FEED):
        return _parse_slowly(blocks, wanted)
    cuts = np.empty(len(line_ends) * 4 + 1, dtype=np.int32)
    cuts[0] = 0
    cuts[4::4] = line_ends + 1
    cuts[3::4] = line_ends
    following = np.searchsorted(colons, cuts[0:-1:4])
    if following[-1] >= len(colons):
        return _parse_slowly(blocks, wanted)
    first_colons = colons[following]
    if np.any(first_colons >= line_ends):
        return _parse_slowly(blocks, wanted)
    cuts[1::4] = first_colons
    cuts[2::4] = first_colons + 1
    # Elements: name, colon, value, line feed, name, ...
    pieces = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data_buffer])
    try:
        names = pieces.take(from_numpy(np.arange(0, len(cuts) - 1, 4))).cast(pa.string())
        values = pieces.take(from_numpy(np.arange(2, len(cuts) - 1, 4))).cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return _parse_slowly(blocks, wanted)
    if np.any(data == BACKSLASH):
        names, values = _unescape(names), _unescape(values)
    return _columns(len(blocks), np.searchsorted(line_ends, offsets), names, values, wanted)


def _columns(
    count: int, line_offsets: Int64s, names: pa.Array, values: pa.Array, wanted: Sequence[str]
) -> tuple[pa.Array, dict[str, pa.Array]]:
    encoded = names.dictionary_encode()
    codes = to_numpy(encoded.indices).astype(np.int64)
    dictionary = encoded.dictionary.to_pylist()
    rows = np.repeat(np.arange(count, dtype=np.int64), np.diff(line_offsets))
    kept = _first_of_each(rows, codes, count, len(dictionary))
    if kept is not None:
        rows, codes = rows[kept], codes[kept]
        names, values = names.take(from_numpy(kept)), values.take(from_numpy(kept))
        line_offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    mapped = pa.MapArray.from_arrays(from_numpy(line_offsets.astype(np.int32)), names, values)
    named: dict[str, pa.Array] = {}
    for name in wanted:
        if name not in dictionary:
            named[name] = pa.nulls(count, pa.string())
            continue
        lines = np.flatnonzero(codes == dictionary.index(name))
        chosen = np.full(count, -1, dtype=np.int64)
        chosen[rows[lines]] = lines
        named[name] = values.take(from_numpy(chosen, chosen < 0))
    return mapped, named


def _first_of_each(rows: Int64s, codes: Int64s, count: int, name_count: int) -> Int64s | None:
    """Return the lines to keep if some message repeats a header, None if none does (STOMP 1.2, "Repeated Header")."""
    keys = rows * name_count + codes
    if count * name_count <= SEEN_LIMIT:
        seen = np.zeros(count * name_count, dtype=np.bool_)
        seen[keys] = True
        if int(np.count_nonzero(seen)) == len(keys):
            return None
    first: Int64s = np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)
    return None if len(first) == len(keys) else first


def _unescape(texts: pa.Array) -> pa.Array:
    mask = pc.match_substring(texts, "\\")
    escaped = texts.filter(mask)
    if not len(escaped):
        return texts
    if pc.sum(pc.match_substring(escaped, "\\\\")).as_py():  # a backslash itself: what follows it is no escape
        plain = strings([unescape(text) for text in escaped.to_pylist()])
    else:
        plain = escaped
        for escape, meant in UNESCAPED.items():
            plain = pc.replace_substring(plain, escape, meant)
    return pc.replace_with_mask(texts, mask, plain)


def unescape(text: str) -> str:
    """Undo the escapes of STOMP 1.2; keep other backslashes."""
    return ESCAPE.sub(lambda match: UNESCAPED[match.group()], text)


def _parse_slowly(blocks: pa.Array, wanted: Sequence[str]) -> tuple[pa.Array, dict[str, pa.Array]]:
    names: list[str] = []
    values: list[str] = []
    line_offsets = [0]
    for block in blocks.to_pylist():
        for line in block.split(b"\n"):
            if line:
                name, _, value = line.partition(b":")
                names.append(unescape(name.decode("utf-8", "replace")))
                values.append(unescape(value.decode("utf-8", "replace")))
        line_offsets.append(len(names))
    return _columns(
        len(blocks),
        np.array(line_offsets, dtype=np.int64),
        strings(names),
        strings(values),
        wanted,
    )


def _no_strings() -> pa.Array:
    return strings([])
