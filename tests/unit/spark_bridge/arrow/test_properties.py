"""Properties with their types, against what the gateway gives AMQP clients."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.amqp.v1_0.mapping.property_types import typed_property
from protocols.message_lines import MEANT, TYPES_HEADER, named_types
from spark_bridge.arrow.headers import parse
from spark_bridge.arrow.properties import JMS_TYPES, NAMES, property_column

FIELDS = ("boolean", "long", "double", "string")


def read(*blocks: str) -> list[dict[str, tuple[str, Any]]]:
    """Return the properties of each message: type and value."""
    array = pa.array([block.encode() for block in blocks], pa.binary()).take(pa.array(range(len(blocks))))
    mapped, named = parse(array)
    column = property_column(mapped, named[TYPES_HEADER])
    column.validate(full=True)
    found = []
    for row in column.to_pylist():
        values = {name: [value[field] for field in FIELDS if value[field] is not None] for name, value in row}
        assert all(len(each) == 1 for each in values.values())
        found.append({name: (value["type"], values[name][0]) for name, value in row})
    return found


def test_without_types_every_property_is_a_string() -> None:
    assert read("n:5\ntype:order\n", "", "ok:true\nJMS_AMQP_MA_x:1\n") == [
        {"n": ("string", "5")},
        {},
        {"ok": ("string", "true")},
    ]


def test_headers_about_the_message_are_no_properties() -> None:
    assert read("".join(f"{name}:1\n" for name in sorted(MEANT))) == [{}]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("boolean", "true", ("boolean", True)),
        ("boolean", "false", ("boolean", False)),
        ("byte", "-128", ("byte", -128)),
        ("byte", "128", ("string", "128")),
        ("short", "-32768", ("short", -32768)),
        ("int", "2147483647", ("int", 2147483647)),
        ("int", "many", ("string", "many")),
        ("long", "-9223372036854775808", ("long", -(2**63))),
        ("ubyte", "255", ("short", 255)),
        ("ushort", "65535", ("int", 65535)),
        ("uint", "4294967295", ("long", 4294967295)),
        ("ulong", "9223372036854775807", ("long", 2**63 - 1)),
        ("ulong", "9223372036854775808", ("string", "9223372036854775808")),
        ("timestamp", "1700000000000", ("long", 1700000000000)),
        ("float", "1.5", ("float", 1.5)),
        ("double", "-2.5e300", ("double", -2.5e300)),
        ("double", "inf", ("double", float("inf"))),
        ("symbol", "red", ("string", "red")),
        ("char", "x", ("string", "x")),
        ("binary", "AQ==", ("string", "AQ==")),
        ("uuid", "00000000-0000-0000-0000-000000000001", ("string", "00000000-0000-0000-0000-000000000001")),
        ("colour", "red", ("string", "red")),
    ],
)
def test_types(kind: str, text: str, expected: tuple[str, Any]) -> None:
    assert read(f"p:{text}\nother:1\n{TYPES_HEADER}:p={kind}\n") == [{"p": expected, "other": ("string", "1")}]


KINDS = [*NAMES, *JMS_TYPES, "colour"]
TEXTS = st.sampled_from(["1", "-1", "300", "1.5", "nan", "true", "x", "", "4294967296", "1e400"])
PROPERTIES = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.sampled_from(KINDS), TEXTS))


@given(st.lists(PROPERTIES, min_size=1, max_size=5))
def test_a_value_is_what_amqp_clients_get(messages: list[dict[str, tuple[str, str]]]) -> None:
    blocks = []
    for message in messages:
        types = ",".join(f"{name}={kind}" for name, (kind, _) in message.items())
        lines = "".join(f"{name}:{text}\n" for name, (_, text) in message.items())
        blocks.append(lines + (f"{TYPES_HEADER}:{types}\n" if types else ""))
    for message, found, block in zip(messages, read(*blocks), blocks, strict=True):
        assert found.keys() == message.keys()
        types_of = named_types(block.rpartition(f"{TYPES_HEADER}:")[2].strip())
        for name, (kind, text) in message.items():
            value = typed_property(text, types_of.get(name))
            if isinstance(value, int | float):
                assert str(found[name][1]) == str(value)  # nan is unequal to itself
                assert found[name][0] == JMS_TYPES.get(kind, kind)
            else:
                assert found[name] == ("string", text)
