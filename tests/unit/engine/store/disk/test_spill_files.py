"""Temporary files: what is written is read back, a changed octet is noticed, and nothing is left."""

from __future__ import annotations

import pytest

from engine.store.disk.spill_files import SpillFiles, pack_messages, unpack_messages
from engine.values.message import AMQP_1_0, STOMP, TEXT, Message
from tests.support.attributes import attributes
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.fakes import HeldWorkers


def sample() -> list[Message]:
    first = Message(7, STOMP, TEXT, 4, 11, 22, 33, b"why:this\n", b"a:b\n", b"body")
    second = Message(-8, AMQP_1_0, 0x500, 9, 0, 0, 0, b"", b"", b"")
    first.store_time_ms, first.serial = 1_700_000_000_000, 12
    second.log_offset, second.queue_offset = 1 << 40, 9
    return [first, second]


def test_messages_come_back_as_they_were() -> None:
    octets = pack_messages(sample(), [5, 1 << 40])
    messages, positions = unpack_messages(octets, 2)
    assert [attributes(each) for each in messages] == [attributes(each) for each in sample()]
    assert positions == [5, 1 << 40]


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_changed_octet_is_noticed(place: int) -> None:
    octets = bytearray(pack_messages(sample(), [5, 1 << 40]))
    octets[place] ^= 1
    with pytest.raises(ValueError, match="the checksum of a block does not match"):
        unpack_messages(bytes(octets), 2)
    with pytest.raises(ValueError, match="the checksum"):
        unpack_messages(b"", 0)


def test_what_an_earlier_process_has_left_is_removed() -> None:
    files = FaultyFiles()
    files.make_directory("data/spill")
    for name in ("00000000.spill", "00000007.spill", "notes"):
        files.create(f"data/spill/{name}")
    SpillFiles(files, "data", HeldWorkers())
    assert files.paths() == ["data/spill/notes"]
