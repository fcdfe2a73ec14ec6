"""NumPy to Arrow and back, without pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_bridge.arrow.arrays import from_numpy, rows_by_code, strings, to_numpy, whole_numbers


@pytest.mark.parametrize("kind", ["i4", "i8", "u1", "u4"])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_integers(kind: str, count: int) -> None:
    values = np.arange(count * 2, dtype=kind)[::2]
    array = from_numpy(values)
    array.validate(full=True)
    assert array.to_pylist() == values.tolist()
    assert to_numpy(array).tolist() == values.tolist()
    assert to_numpy(array.slice(count // 2)).tolist() == values[count // 2 :].tolist()


@pytest.mark.parametrize("count", [0, 7, 8, 9, 17])
def test_booleans_and_nulls(count: int) -> None:
    values = np.arange(count) % 3 == 0
    mask = np.arange(count) % 5 == 2
    array = from_numpy(values, mask)
    array.validate(full=True)
    assert array == pa.array(values, mask=mask)
    numbers = from_numpy(np.arange(count), mask)
    assert numbers == pa.array(np.arange(count), mask=mask)


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "größe", "b"]])
def test_strings(texts: list[str]) -> None:
    array = strings(texts)
    array.validate(full=True)
    assert array.to_pylist() == texts


@pytest.mark.parametrize("values", [[], [7], [3, 1, 3, 2, 1], list(range(300)) * 2], ids=len)
def test_the_rows_of_each_value(values: list[int]) -> None:
    encoded = from_numpy(np.array(values, dtype=np.int64)).dictionary_encode()
    rows = [group.tolist() for group in rows_by_code(encoded)]
    assert rows == [[row for row, one in enumerate(values) if one == value] for value in dict.fromkeys(values)]


def test_a_group_sequence_may_be_below_0_and_a_time_may_not() -> None:
    texts = pa.array(["-1", "7", "-", "x", None])
    assert whole_numbers(texts, 14, is_signed=True).to_pylist() == [-1, 7, None, None, None]
    assert whole_numbers(texts, 14).to_pylist() == [None, 7, None, None, None]
