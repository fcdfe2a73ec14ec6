from __future__ import annotations

import pytest

from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint, pack_checkpoint, unpack_checkpoint
from engine.store.log.checkpoint import CheckpointFile
from engine.values.errors import StoreCorrupt
from tests.support.disk.faulty_files import FaultyFiles

VALUES = Checkpoint(3, False, 1000, 1_700_000_000_000, 17, 800, 400, 2)


def opened(files: FaultyFiles) -> tuple[CheckpointFile, Checkpoint | None]:
    files.make_directory("data")
    checkpoint = CheckpointFile(files, "data")
    return checkpoint, checkpoint.load()


def publish(checkpoint: CheckpointFile, *offsets: int) -> None:
    for durable_offset in offsets:
        checkpoint.values.durable_offset = durable_offset
        checkpoint.publish()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_slot_comes_back(is_clean: bool) -> None:
    values = Checkpoint(3, is_clean, 1000, -5, 17, 800, 400, 2)
    octets = pack_checkpoint(values)
    assert len(octets) == layout.CHECKPOINT_SLOT_BYTES
    assert unpack_checkpoint(octets, "checkpoint") == values


def test_every_flipped_octet_is_noticed() -> None:
    octets = pack_checkpoint(VALUES)
    for place in range(layout.CHECKPOINT.size + layout.CRC.size):
        damaged = bytearray(octets)
        damaged[place] ^= 1
        assert unpack_checkpoint(bytes(damaged), "checkpoint") is None


def test_another_version_is_refused_with_both_named() -> None:
    files = FaultyFiles()
    checkpoint, _ = opened(files)
    checkpoint.publish()
    octets = files.octets("data/checkpoint")
    from crc32c import crc32c

    octets[8:12] = (5).to_bytes(4, "little")
    size = layout.CHECKPOINT.size
    octets[size : size + 4] = crc32c(bytes(octets[:size])).to_bytes(4, "little")
    with pytest.raises(StoreCorrupt, match=r"data/checkpoint, position 8: version 5 .* supported are 1 to 4"):
        opened(files)


def test_publishing_alternates_between_the_slots() -> None:
    files = FaultyFiles()
    checkpoint, found = opened(files)
    assert found is None
    for durable in (100, 200, 300):
        before = bytes(files.octets("data/checkpoint"))
        checkpoint.values.durable_offset = durable
        checkpoint.publish()
        after = bytes(files.octets("data/checkpoint"))
        changed = [slot for slot in (0, 512) if before[slot : slot + 512] != after[slot : slot + 512]]
        assert len(changed) == 1
        _, reopened = opened(files)
        assert reopened is not None
        assert reopened.durable_offset == durable


def test_a_reopened_file_overwrites_the_older_slot() -> None:
    files = FaultyFiles()
    checkpoint, _ = opened(files)
    publish(checkpoint, 100, 200)
    checkpoint, found = opened(files)
    assert found is not None
    publish(checkpoint, 300)
    octets = bytes(files.octets("data/checkpoint"))
    offsets = {layout.CHECKPOINT.unpack_from(octets, slot)[4] for slot in (0, 512)}
    assert offsets == {200, 300}


def test_a_torn_slot_leaves_the_other_one_whole_from_the_first_start_on() -> None:
    for seed in range(1_000):
        files = FaultyFiles(seed)
        checkpoint, _ = opened(files)
        checkpoint.begin()
        publish(checkpoint, 100, 200, 300)
        _, found = opened(files.crash())
        assert found is not None


def test_a_slot_that_is_not_whole_is_written_before_the_other_one() -> None:
    files = FaultyFiles()
    checkpoint, _ = opened(files)
    checkpoint.begin()
    files.octets("data/checkpoint")[512:] = bytes(512)
    checkpoint, found = opened(files)
    assert found is not None
    checkpoint.values.durable_offset = 100
    checkpoint.begin()
    octets = bytes(files.octets("data/checkpoint"))
    assert [layout.CHECKPOINT.unpack_from(octets, slot)[4] for slot in (0, 512)] == [100, 100]


def test_a_clean_stop_is_forgotten_in_both_slots_before_anything_is_written() -> None:
    for seed in range(1_000):
        files = FaultyFiles(seed)
        checkpoint, _ = opened(files)
        checkpoint.begin()
        checkpoint.publish(is_clean=True)
        checkpoint.sync()
        checkpoint, _ = opened(files)
        checkpoint.begin()
        publish(checkpoint, 100, 200, 300)
        _, found = opened(files.crash())
        assert found is not None and not found.is_clean


def test_the_count_of_a_start_that_served_is_never_given_again() -> None:
    for seed in range(1_000):
        files = FaultyFiles(seed)
        checkpoint, _ = opened(files)
        checkpoint.begin()
        for _ in range(2):  # both slots are whole from the first start on
            checkpoint, known = opened(files)
            assert known is not None
            checkpoint.values.start_count = known.start_count + 1
            checkpoint.begin()
        publish(checkpoint, 100, 200)
        _, found = opened(files.crash())
        assert found is not None and found.start_count == 2
