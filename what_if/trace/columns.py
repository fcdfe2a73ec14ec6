"""Arrow batches -> NumPy columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Int64s = np.ndarray[Any, np.dtype[np.int64]]
TYPE_CODES: Final = {"b": np.int8, "i": np.int32, "I": np.uint32, "q": np.int64}


def numbers(column: pa.Array, missing: int = 0) -> Int64s:
    """Return integers or booleans; ``missing`` for null."""
    found: Int64s = pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def milliseconds(column: pa.Array, missing: int = 0) -> Int64s:
    """Return times as milliseconds since 1970; ``missing`` for null."""
    return numbers(column.cast(pa.timestamp("ms", tz="UTC")), missing)


def codes(column: pa.Array, known: dict[str, int]) -> Int64s:
    """Return a number for each text, "" for null; ``known`` gets those that are new."""
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode()
    of_values = np.array([known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()], np.int64)
    return of_values[encoded.indices.to_numpy()] if len(column) else np.empty(0, np.int64)


def joined(parts: Sequence[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *parts])


def packed(type_code: str, values: Int64s) -> array[int]:
    """Return an array, whose elements Python reads faster than those of NumPy."""
    return array(type_code, values.astype(TYPE_CODES[type_code]).tobytes())
