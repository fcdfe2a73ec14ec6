"""What the gateway and readers both take from the heads of files."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from engine.store.format import layout
from engine.store.format.file_heads import (
    Checkpoint,
    NotWhole,
    Seal,
    pack_checkpoint,
    unpack_checkpoint,
    unpack_seal,
    unpack_segment_header,
    unpack_slot,
)
from engine.store.log.segment import pack_header
from engine.values.errors import StoreCorrupt

SLOT = Checkpoint(3, False, 1000, 5, 17, 800, 400, 2)


def test_the_newer_of_two_slots_counts() -> None:
    older = pack_checkpoint(Checkpoint(2, True, 900, 5, 17, 800, 400, 2))
    for octets in (older + pack_checkpoint(SLOT), pack_checkpoint(SLOT) + older):
        assert unpack_checkpoint(octets, "checkpoint") == SLOT
    assert unpack_slot(older + pack_checkpoint(SLOT), 512, "checkpoint") == SLOT


def test_a_slot_that_is_not_whole_is_none() -> None:
    octets = pack_checkpoint(SLOT)
    size = layout.CHECKPOINT.size + layout.CRC.size
    assert unpack_slot(octets[: size - 1], 0, "checkpoint") is None
    for at in range(size):
        damaged = bytearray(octets)
        damaged[at] ^= 1
        assert unpack_slot(bytes(damaged), 0, "checkpoint") is None


def test_a_header_comes_back() -> None:
    header = unpack_segment_header(pack_header(layout.CONTINUATION, 8192, 4096, 7, "0badcafe"), "x.log")
    assert (header.is_continuation, header.base, header.capacity, header.store_id) == (True, 8192, 4096, "0badcafe")


def test_a_header_that_is_not_whole_is_told_from_one_of_another_version() -> None:
    octets = pack_header(0, 8192, 4096, 7, "0badcafe")
    for damaged, text in (
        (b"", "position 0: no segment header: the file begins with b'', a segment with b'PENSTKLG'"),
        (b"X" * len(octets), "position 0: no segment header: the file begins with b'XXXXXXXX', a segment with"),
        (octets[: layout.SEGMENT_HEADER.size], "the file ends inside its segment header"),
        (octets[:20] + b"x" + octets[21:], "the checksum of the segment header does not match"),
    ):
        with pytest.raises(NotWhole, match=text):
            unpack_segment_header(damaged, "x.log")
    body = octets[:8] + b"\5" + octets[9 : layout.SEGMENT_HEADER.size]
    with pytest.raises(StoreCorrupt, match="x.log, position 8: version 5") as caught:
        unpack_segment_header(body + layout.CRC.pack(crc32c(body)), "x.log")
    assert not isinstance(caught.value, NotWhole)


def test_a_seal() -> None:
    body = layout.SEAL.pack(9000, 17)
    head = bytes(layout.SEAL_POSITION)
    whole = head + body + layout.CRC.pack(crc32c(body))
    assert unpack_seal(head, "x.log") is None
    assert unpack_seal(head + bytes(20), "x.log") is None
    assert unpack_seal(whole, "x.log") == Seal(9000, 17)
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        with pytest.raises(NotWhole, match="position 512"):
            unpack_seal(damaged, "x.log")
