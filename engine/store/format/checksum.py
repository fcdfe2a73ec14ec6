"""CRC-32C: the package crc32c, or a way of our own, some 100 µs a KiB, on Spark's executors that lack it."""

from __future__ import annotations

from typing import Final

POLYNOMIAL: Final = 0x82F63B78  # reflected; RFC 3720, 12.1


def _entry(octet: int) -> int:
    for _ in range(8):
        octet = (octet >> 1) ^ (POLYNOMIAL if octet & 1 else 0)
    return octet


_TABLE: Final = tuple([_entry(octet) for octet in range(256)])


def plain_crc32c(octets: bytes | memoryview, before: int = 0) -> int:
    """Return the checksum of ``octets``; ``before`` is that of the octets in front of them."""
    crc = before ^ 0xFFFFFFFF
    for octet in octets:
        crc = _TABLE[(crc ^ octet) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


try:
    from crc32c import crc32c
except ImportError:
    crc32c = plain_crc32c  # type: ignore[assignment]  # the package takes any buffer

__all__ = ["crc32c", "plain_crc32c"]
