"""CRC-32C without the package crc32c."""

from __future__ import annotations

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from engine.store.format.checksum import plain_crc32c


def test_the_check_value() -> None:
    assert plain_crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_both_ways_agree(octets: bytes, before: int) -> None:
    assert plain_crc32c(octets, before) == crc32c(octets, before)
    assert plain_crc32c(memoryview(octets)) == crc32c(octets)
