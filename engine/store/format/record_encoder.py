"""Encodes records of the log, except for messages and settlements of one range.

Each of those is written in one call without a copy: log/commit_log.py.  Decoded: record.py.  Layout: layout.py.
"""

from __future__ import annotations

from struct import pack

from crc32c import crc32c

from engine.store.format.layout import RECORD_HEADER_BYTES, RECORD_REST, SIZE_AND_CRC


def pack_record(
    record_type: int, flags: int, destination_id: int, offset: int, sequence: int, store_time_ms: int, payload: bytes
) -> bytes:
    """Return a record that is not a message, without the padding that follows it."""
    rest = RECORD_REST.pack(record_type, 0, flags, destination_id, offset, sequence, store_time_ms)
    return SIZE_AND_CRC.pack(RECORD_HEADER_BYTES + len(payload), crc32c(payload, crc32c(rest))) + rest + payload


def pack_runs(priority: int, firsts: list[int], counts: list[int]) -> bytes:
    """Return the ranges of a settlement, all of one priority: each as two numbers of 8 octets, in one call for all."""
    words = firsts * 2
    words[0::2] = firsts
    words[1::2] = [count | priority << 32 for count in counts]
    return pack(f"<{len(words)}Q", *words)
