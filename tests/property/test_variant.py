"""What is written as VARIANT is read back, and is octet by octet what others write."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.arrow.variant import encode
from tests.support.variant_decoder import decode

pytestmark = pytest.mark.interpreted  # nothing here is compiled

FRACTIONS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})\.[0-9]{1,41}", fullmatch=True, alphabet="-.0123456789")
DOUBLES = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:e}")
INTEGERS = st.one_of(st.integers(), st.integers(-300, 300), st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1]))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80).map(json.dumps)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), INTEGERS.map(str), FRACTIONS, DOUBLES, TEXTS)


def joined(pairs: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {value}" for name, value in pairs.items()) + "}"


DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=300).map(lambda items: "[" + ",".join(items) + "]")
        | st.dictionaries(NAMES, inner, max_size=300).map(joined)
    ),
)


def number(text: str) -> Decimal | float | int:
    """Return a number as the documentation has it."""
    if "e" in text:
        return float(text)
    if "." not in text and -(1 << 63) <= int(text) < 1 << 63:
        return int(text)
    unscaled, scale = parts(Decimal(text))
    return Decimal(text) if abs(unscaled) < 10**38 and scale <= 38 else float(text)


def parts(value: Decimal) -> tuple[int, int]:
    """Return the whole number and the scale of a decimal."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return int("".join(map(str, digits))) * (-1 if sign else 1), -exponent


def form(value: Any) -> Any:
    """Return a value so that equal ones have equal types, scales and orders of elements."""
    if isinstance(value, Decimal):
        return ("decimal", *parts(value))
    if isinstance(value, list):
        return [form(each) for each in value]
    if isinstance(value, dict):
        return {name: form(each) for name, each in value.items()}
    if isinstance(value, float):
        return ("double", value, math.copysign(1, value))
    return (type(value), value)


@given(text=DOCUMENTS)
def test_what_is_written_is_read_back(text: str) -> None:
    found = encode(text)
    assert found is not None
    expected = json.loads(text, parse_int=number, parse_float=number)
    assert form(decode(*found)) == form(expected)


@given(text=DOCUMENTS)
def test_pyspark_writes_the_same(text: str) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    expected = types.VariantVal.parseJson(text)
    found = encode(text)
    assert found is not None
    value, metadata = found
    if all(name <= "\uffff" for name in text):  # beyond, pyspark's own order is not that of Spark's JVM
        assert (value, metadata) == (expected.value, expected.metadata)
    assert form(types.VariantVal(value, metadata).toPython()) == form(expected.toPython())


@given(text=st.text() | st.text('[]{}",:0123456789.eE+-\\tu ntrfalse', max_size=40))
def test_any_text_is_json_or_null(text: str) -> None:
    constants: list[str] = []  # which are no JSON
    try:
        json.loads(text, parse_constant=constants.append)
        is_json = not constants
    except ValueError:
        is_json = False
    found = encode(text)
    if not is_json:
        assert found is None
    elif found is not None:  # else a name is there twice
        decode(*found)
