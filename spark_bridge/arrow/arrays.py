"""Values -> Arrow without ``pyarrow.array``, which would import pandas into every worker only for a type check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

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


def strings(texts: list[str]) -> pa.Array:
    """Return texts as an Arrow array."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def _bits(values: Booleans) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
