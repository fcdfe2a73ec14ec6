"""Values -> Arrow without ``pyarrow.array``, which would import pandas into every worker only for a type check."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_bridge.arrow.schema import TIMESTAMP

YEAR_10000_MS: Final = 253_402_300_800_000  # Parquet readers have a lower limit; an expiry may be any number

Numbers = np.ndarray[Any, np.dtype[Any]]
Booleans = np.ndarray[Any, np.dtype[np.bool_]]


def from_numpy(values: Numbers, mask: Booleans | None = None) -> pa.Array:
    """Return integers or booleans as an Arrow array that shares their memory; null where ``mask`` is true."""
    validity = None if mask is None else _bits(~mask)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [validity, _bits(values)])
    contiguous = np.ascontiguousarray(values)
    arrow_type = pa.from_numpy_dtype(contiguous.dtype)
    return pa.Array.from_buffers(arrow_type, len(values), [validity, pa.py_buffer(contiguous)])


def to_numpy(array: pa.Array) -> Numbers:
    """Return integers without nulls as a NumPy array that shares their memory."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=len(array), offset=array.offset * dtype.itemsize)


def rows_by_code(encoded: pa.DictionaryArray) -> list[Numbers]:
    """Return the rows of each value of the dictionary, ascending, however many values there are."""
    count = len(encoded.dictionary)
    codes = to_numpy(encoded.indices).astype(np.min_scalar_type(count))  # short ones are sorted by their digits
    ends = np.cumsum(np.bincount(codes, minlength=count))
    return np.split(np.argsort(codes, kind="stable"), ends[:-1]) if count else []


def strings(texts: list[str]) -> pa.Array:
    """Return texts as an Arrow array."""
    return _joined(pa.string(), [text.encode() for text in texts])


def binaries(octets: list[bytes]) -> pa.Array:
    """Return octets as an Arrow array."""
    return _joined(pa.binary(), octets)


def whole_numbers(texts: pa.Array, digits: int, is_signed: bool = False) -> pa.Array:
    """Return whole numbers of at most so many digits, null for any other text.  is_signed: also those below 0."""
    sign = "-?" if is_signed else ""
    is_number = pc.match_substring_regex(texts, f"^{sign}[0-9]{{1,{digits}}}$")
    return pc.if_else(is_number, texts, pa.nulls(len(texts), texts.type)).cast(pa.int64())


def timestamps(times_ms: Numbers, mask: Booleans | None = None) -> pa.Array:
    """Return times as a column; null where ``mask`` is true."""
    return from_numpy(np.clip(times_ms, 0, YEAR_10000_MS - 1) * 1000, mask).cast(TIMESTAMP)


def _joined(arrow_type: pa.DataType, values: list[bytes]) -> pa.Array:
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])


def _bits(values: Booleans) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
