"""A large text from AMQP for STOMP: copied once, and otherwise as a small one."""

from __future__ import annotations

import tracemalloc

import pytest

from engine.values.message import TEXT
from protocols.amqp.v1_0.mapping.stomp_content import CHECKED_BYTES, LARGE_BYTES, stomp_content
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode


def section(text: bytes) -> bytes:
    return b"\x00\x53\x77\xb1" + len(text).to_bytes(4, "big") + text


HEADERS = described_list(at.PROPERTIES, 3, encode(None) + encode(None) + encode("q"))


@pytest.mark.parametrize("size", [LARGE_BYTES - 20, LARGE_BYTES + 20])
@pytest.mark.parametrize("before", range(4))
def test_a_text_is_one_whatever_its_size(size: int, before: int) -> None:
    text = ("x" * (CHECKED_BYTES - before) + "\N{GRINNING FACE}" + "x" * size).encode()
    lines, body, flag = stomp_content(HEADERS, section(text))
    assert (body == text, flag) == (True, TEXT)
    assert lines == stomp_content(HEADERS, section(b"x"))[0]


@pytest.mark.parametrize("size", [10, LARGE_BYTES + 20])
@pytest.mark.parametrize("end", [b"\xff", "\N{GRINNING FACE}".encode()[:3], b"\xed\xa0\x80"])
def test_what_is_no_utf_8_goes_as_it_came(size: int, end: bytes) -> None:
    octets = section(b"x" * size + end)
    lines, body, flag = stomp_content(HEADERS, octets)
    assert (body == HEADERS + octets, flag) == (True, 0)
    assert lines.startswith(b"content-type:")


def test_a_large_text_is_copied_once() -> None:
    octets = section(b"x" * (8 * LARGE_BYTES))
    tracemalloc.start()
    try:
        stomp_content(HEADERS, octets)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 9 * LARGE_BYTES
