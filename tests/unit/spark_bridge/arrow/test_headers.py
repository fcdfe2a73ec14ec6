"""Header blocks to a map column: the vectorised way against the plain one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge.arrow.headers import NAMED, parse, unescape


def parsed(blocks: list[bytes]) -> tuple[list[dict[str, str]], dict[str, list[str | None]]]:
    array = pa.array(blocks, pa.binary()).take(pa.array(range(len(blocks))))
    mapped, named = parse(array)
    mapped.validate(full=True)
    return [dict(pairs) for pairs in mapped.to_pylist()], {name: column.to_pylist() for name, column in named.items()}


def plainly(block: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in block.split(b"\n"):
        if line:
            name, _, value = line.partition(b":")
            found.setdefault(unescape(name.decode("utf-8", "replace")), unescape(value.decode("utf-8", "replace")))
    return found


CASES = {
    "none": [b"", b""],
    "plain": [b"type:order\ncorrelation-id:c1\n", b"reply-to:/queue/r\n", b""],
    "colon in value": [b"when:12:30:01\n"],
    "empty value": [b"flag:\nother:x\n"],
    "escapes": [b"path\\cx:a\\\\nb\\nc\\rd\\ce\n", b"plain:x\n"],
    "repeated": [b"type:first\ntype:second\nx:1\n", b"type:only\n"],
    "no colon": [b"oddity\ntype:t\n"],
    "only line without colon": [b"type:t\noddity\n"],
    "no last line feed": [b"type:t", b"type:u\n"],
    "empty line": [b"type:t\n\nx:y\n"],
    "not utf-8": [b"name:\xff\xfe\n", b"type:t\n"],
    "utf-8": ["größe:zwölf\n".encode(), b"type:t\n"],
}


@pytest.mark.parametrize("blocks", CASES.values(), ids=CASES.keys())
def test_examples(blocks: list[bytes]) -> None:
    maps, named = parsed(blocks)
    assert maps == [plainly(block) for block in blocks]
    for name in NAMED:
        assert named[name] == [plainly(block).get(name) for block in blocks]


LINES = st.lists(
    st.tuples(
        st.sampled_from([b"type", b"correlation-id", b"x", b"a\\cb", b"\xff", b""]),
        st.sampled_from([b":", b""]),
        st.binary(max_size=6),
        st.sampled_from([b"\n", b"\n", b"\n", b""]),
    ).map(b"".join),
    max_size=4,
).map(b"".join)


@given(st.lists(LINES, min_size=1, max_size=6))
def test_any_blocks_give_what_the_plain_way_gives(blocks: list[bytes]) -> None:
    maps, named = parsed(blocks)
    assert maps == [plainly(block) for block in blocks]
    assert named["type"] == [plainly(block).get("type") for block in blocks]
