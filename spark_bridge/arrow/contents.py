"""Header lines and bodies of a block's messages, those of other protocols as a STOMP consumer gets them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.store.format import layout
from engine.values.message import OPENWIRE, STOMP, TEXT
from protocols.amqp.v1_0.mapping.stomp_content import ContentReader
from protocols.openwire.mapping.stomp_content import stomp_content as openwire_content
from spark_bridge.arrow.arrays import binaries, from_numpy
from spark_bridge.log.records import Block, Int64s


@dataclass(frozen=True, slots=True)
class Contents:
    """lines: a block of header lines, the gateway's own first, so that they override.  is_text: as the sender said."""

    lines: pa.Array
    bodies: pa.Array
    is_text: np.ndarray[Any, np.dtype[np.bool_]]


def read_contents(block: Block, flags: Int64s) -> Contents:
    """Return the contents of all records; those of STOMP are cut in one call each."""
    count = len(block.positions)
    starts = block.positions + layout.MESSAGE_HEAD_BYTES
    header_starts = starts + block.u32(40)
    body_starts = header_starts + block.u32(44)
    ends = body_starts + block.u32(48)
    cuts = np.empty(count * 4 + 1, dtype=np.int32)
    cuts[0:-1:4] = starts
    cuts[1::4] = body_starts
    cuts[2::4] = body_starts
    cuts[3::4] = ends
    cuts[-1] = cuts[-2]
    # Elements of four cuts: header lines, nothing, body, octets before the next record.
    pieces = pa.Array.from_buffers(pa.binary(), count * 4, [None, pa.py_buffer(cuts), pa.py_buffer(block.octets)])
    lines = pieces.take(from_numpy(np.arange(0, count * 4, 4)))
    bodies = pieces.take(from_numpy(np.arange(2, count * 4, 4)))
    is_text = flags & TEXT != 0
    encodings = block.u8(9)
    others = np.flatnonzero(encodings != STOMP)
    if not len(others):
        return Contents(lines, bodies, is_text)
    view = memoryview(block.octets.data)
    read_amqp = ContentReader().read
    other_lines: list[bytes] = []
    other_bodies: list[bytes] = []
    places = (column[others].tolist() for column in (encodings, starts, header_starts, body_starts, ends))
    for row, encoding, start, header, body, end in zip(others.tolist(), *places, strict=True):
        read = openwire_content if encoding == OPENWIRE else read_amqp
        found, octets, text_flag = read(bytes(view[header:body]), bytes(view[body:end]))
        other_lines.append(bytes(view[start:header]) + found)
        other_bodies.append(octets)
        is_text[row] = text_flag != 0
    return Contents(_replaced(lines, others, other_lines), _replaced(bodies, others, other_bodies), is_text)


def read_annotations(block: Block) -> pa.Array:
    """Return the gateway's own header lines of all records."""
    starts = block.positions + layout.MESSAGE_HEAD_BYTES
    cuts = np.empty(len(starts) * 2 + 1, dtype=np.int32)
    cuts[0:-1:2] = starts
    cuts[1::2] = starts + block.u32(40)
    cuts[-1] = cuts[-2]
    # Elements of two cuts: header lines, octets before the next record.
    pieces = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(block.octets)])
    return pieces.take(from_numpy(np.arange(0, len(cuts) - 1, 2)))


def _replaced(values: pa.Array, rows: Int64s, others: list[bytes]) -> pa.Array:
    if len(rows) == len(values):
        return binaries(others)
    order = np.arange(len(values))
    order[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, binaries(others)]).take(from_numpy(order))
