"""JSON as VARIANT, octet by octet, and its limits."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_bridge.arrow.payload import payload_column
from spark_bridge.arrow.schema import VARIANT
from spark_bridge.arrow.variant import DEPTH_MAX, NUMBER_MAX, SIZE_MAX, encode
from tests.support.variant_decoder import decode

NO_NAMES = b"\x01\x00\x00"


def read(text: str) -> Any:
    found = encode(text)
    assert found is not None
    return decode(*found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", "00"),
        ("true", "04"),
        ("false", "08"),
        ("0", "0c00"),
        ("-0", "0c00"),
        ("-128", "0c80"),
        ("128", "108000"),
        ("-32769", "14ff7fffff"),
        ("2147483648", "180000008000000000"),
        ("9223372036854775807", "18ffffffffffffff7f"),
        ("9223372036854775808", "2800" + "0000000000000080" + "00" * 8),
        ("-9223372036854775809", "2800" + "ffffffffffffff7f" + "ff" * 8),
        ("1.50", "200296000000"),
        ("-0.0", "200100000000"),
        ("0.999999999", "2009ffc99a3b"),
        ("9.999999999", "2409ffe30b5402000000"),
        ("0.0000000001", "240a0100000000000000"),
        ("1e3", "1c0000000000408f40"),
        ("1E400", "1c000000000000f07f"),
        ('""', "01"),
        ('"ä😀"', "19" + "ä😀".encode().hex()),
        (json.dumps("x" * 63), "fd" + "78" * 63),
        (json.dumps("x" * 64), "4040000000" + "78" * 64),
        ("[]", "030000"),
        ("[1, [true], 2]", "03" + "03" + "0002" + "0709" + "0c01" + "03010001" + "04" + "0c02"),
        ("{}", "020000"),
    ],
)
def test_values_without_names(text: str, value: str) -> None:
    assert encode(f" \t{text}\r\n") == (bytes.fromhex(value), NO_NAMES)


def test_an_object_lists_its_fields_by_name_and_keeps_the_order_of_its_values() -> None:
    assert encode('{"b": {"c": 1}, "a": 2}') == (
        bytes.fromhex("02" + "02" + "0200" + "070009" + "02010100020c01" + "0c02"),
        bytes.fromhex("01" + "03" + "00010203" + b"bca".hex()),
    )


def test_names_are_in_the_order_of_utf_16() -> None:
    names = ["\uffff", "\U0001f600", "z", ""]
    found = encode(json.dumps({name: number for number, name in enumerate(names)}))
    assert found is not None
    assert found[0][2:6] == bytes([3, 2, 1, 0])  # the numbers of the names, that is of "", z, a pair of surrogates, ...
    assert decode(*found) == {"\uffff": 0, "\U0001f600": 1, "z": 2, "": 3}


@pytest.mark.parametrize("count", [255, 256, 65_535, 65_536, 100_000])
def test_many_elements_and_fields(count: int) -> None:
    items = list(range(count))
    assert read(json.dumps(items)) == items
    fields = {f"{number:x}": number for number in items}
    assert read(json.dumps(fields)) == fields


def test_numbers_beyond_decimals_are_doubles() -> None:
    nines = "9" * 38
    assert read(nines) == Decimal(nines)
    assert read("0." + nines) == Decimal("0." + nines)
    for text in (nines + "0", "0." + nines + "0", "1" * NUMBER_MAX):
        found = read(text)
        assert (type(found), found) == (float, float(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "order 7",
        "{'a': 1}",
        "{a: 1}",
        "[1, ]",
        "[1 2]",
        "1 2",
        '{"a": 1} {"b": 2}',
        "01",
        "+1",
        "1.",
        ".5",
        "0x10",
        "NaN",
        "[-Infinity]",
        "[Infinity]",
        '"\n"',
        '"\\x"',
        '"open',
        "\ufeff{}",
        "// a\n1",
        '{"a": 1, "b": {"c": 2, "c": 2}}',
        '"\\ud800"',
        '{"\\udfff": 1}',
        '{"\\udfff": 1, "a": 1}',
    ],
)
def test_what_is_no_json_is_null(text: str) -> None:
    assert encode(text) is None


def test_hostile_texts_are_null_and_fail_nothing() -> None:
    deep = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert encode(deep) is not None
    assert encode('{"a":' * DEPTH_MAX + "1" + "}" * DEPTH_MAX) is not None
    assert encode(f"[{deep}]") is None
    for bomb in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000):
        assert encode(bomb) is None
    assert encode("1" * (NUMBER_MAX + 1)) is None
    assert encode("-0." + "1" * 100_000) is None
    assert encode("1" + "0" * 1_000_000) is None
    assert encode("1e-" + "9" * 900) == (b"\x1c" + bytes(8), NO_NAMES)


def test_values_up_to_their_limit() -> None:
    found = encode(f'"{"x" * (SIZE_MAX - 5)}"')
    assert found is not None and len(found[0]) == SIZE_MAX
    assert encode('"' + "ä" * (SIZE_MAX // 2) + '"') is None  # larger as octets
    assert encode(" " * SIZE_MAX + "1") is None
    assert encode(f'["{"x" * (SIZE_MAX - 5)}"]') is None  # larger with the array around it
    assert encode(f'["{"x" * (SIZE_MAX - 20)}"]') is not None
    assert encode(json.dumps({"日" * 6_000_000: 0}, ensure_ascii=False)) is None  # its name is larger


def test_a_column_of_texts() -> None:
    texts = pa.array(["no", '{"a": 1}', None, "null", "[1]"])[1:]
    column = payload_column(texts)
    column.validate(full=True)
    assert column.type == VARIANT
    rows = [row and decode(row["value"], row["metadata"]) for row in column.to_pylist()]
    assert rows == [{"a": 1}, None, None, [1]]
    assert column.is_null().to_pylist() == [False, True, False, False]
    assert len(payload_column(pa.nulls(0, pa.string()))) == 0
