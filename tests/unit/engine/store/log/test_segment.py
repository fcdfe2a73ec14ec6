from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.store.disk.files import File
from engine.store.format import layout
from engine.store.log.segment import (
    NOT_SEALED,
    SMALL_WRITE_BYTES,
    ZEROS,
    Segment,
    load_segment,
    make_segment_file,
    seal,
)
from engine.values.errors import StoreCorrupt
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.disk.files_wrapper import FileWrapper

DIRECTORY = "data/commitlog"
NAME = "00000000000000008192.log"


def made(is_continuation: bool = False) -> tuple[FaultyFiles, Segment]:
    files = FaultyFiles()
    files.make_directory(DIRECTORY)
    segment = Segment(DIRECTORY, 8192, 4096, is_continuation)
    segment.file = make_segment_file(files, segment.path(), segment, 1_700_000_000_000, "0badcafe")
    return files, segment


@pytest.mark.parametrize("is_continuation", [True, False])
def test_a_header_comes_back(is_continuation: bool) -> None:
    files, segment = made(is_continuation)
    found, store_id = load_segment(files, DIRECTORY, NAME)
    assert store_id == "0badcafe"
    assert (found.base, found.capacity, found.limit()) == (8192, 4096, 12288)
    assert found.is_continuation == is_continuation
    assert found.sealed_end == NOT_SEALED
    assert found.path() == segment.path() == f"{DIRECTORY}/{NAME}"


def test_the_file_has_all_its_room_at_once() -> None:
    files, segment = made()
    assert len(files.octets(segment.path())) == layout.SEGMENT_HEADER_BYTES + 4096


def test_a_log_offset_stands_at_its_position() -> None:
    files, segment = made()
    segment.write(b"abc", 8200)
    assert files.octets(segment.path())[4096 + 8 : 4096 + 11] == b"abc"


class CountedFile(FileWrapper):
    """writes: position and size of each."""

    def __init__(self, inner: File, path: str) -> None:
        super().__init__(inner, path)
        self.writes: list[tuple[int, int]] = []

    def pwrite(self, octets: bytes | memoryview, position: int) -> int:
        self.writes.append((position, len(octets)))
        return super().pwrite(octets, position)


def counted(capacity: int) -> tuple[FaultyFiles, Segment, CountedFile]:
    files = FaultyFiles()
    files.make_directory(DIRECTORY)
    segment = Segment(DIRECTORY, 8192, capacity, False)
    file = make_segment_file(files, segment.path(), segment, 1_700_000_000_000, "0badcafe")
    segment.file = found = CountedFile(file, segment.path())
    return files, segment, found


def test_one_small_write_in_many_zeros_the_blocks_behind_it() -> None:
    files, segment, file = counted(1 << 20)
    start = layout.SEGMENT_HEADER_BYTES
    for number in range(3):
        segment.write(bytes([number + 1]) * 1000, 8192 + number * 1000)
    assert file.writes == [(start, 1000), (start + 1000, len(ZEROS)), (start + 1000, 1000), (start + 2000, 1000)]
    behind = 1000 + len(ZEROS) - 100
    segment.write(b"x" * 200, 8192 + behind)  # past the zeros
    assert file.writes[4:] == [(start + behind, 200), (start + behind + 200, len(ZEROS))]
    assert len(files.octets(segment.path())) == start + (1 << 20)


def test_a_large_write_zeros_nothing() -> None:
    _, segment, file = counted(1 << 20)
    segment.write(bytes(SMALL_WRITE_BYTES + 1), 8192)
    assert file.writes == [(layout.SEGMENT_HEADER_BYTES, SMALL_WRITE_BYTES + 1)]


def test_the_zeros_end_with_the_room_of_the_segment() -> None:
    files, segment, file = counted(4096)
    segment.write(b"x" * 4000, 8192)
    assert file.writes[1:] == [(layout.SEGMENT_HEADER_BYTES + 4000, 96)]
    segment.write(b"y" * 96, 8192 + 4000)
    assert files.octets(segment.path())[-100:] == b"x" * 4 + b"y" * 96
    assert len(file.writes) == 3


@given(sizes=st.lists(st.sampled_from([1, 40, 1000, 30_000, SMALL_WRITE_BYTES, 100_000, 300_000])))
def test_zeros_never_cover_what_was_written(sizes: list[int]) -> None:
    files, segment, _ = counted(1 << 20)
    expected = b""
    for number, size in enumerate(sizes):
        octets = bytes([number % 255 + 1]) * size
        if len(expected) + size > 1 << 20:
            break
        segment.write(octets, 8192 + len(expected))
        if number % 3 == 0:
            segment.write(octets, 8192 + len(expected))  # tried again
        expected += octets
    found = files.octets(segment.path())[layout.SEGMENT_HEADER_BYTES :]
    assert found == expected.ljust(1 << 20, b"\0")


def test_a_seal_comes_back() -> None:
    files, segment = made()
    assert segment.file is not None
    seal(segment.file, 9000, 17)
    found, _ = load_segment(files, DIRECTORY, NAME)
    assert found.sealed_end == 9000


@pytest.mark.parametrize("operation", ["preallocate", "pwrite", "fsync"])
def test_a_file_that_cannot_be_made_leaves_nothing(operation: str) -> None:
    files = FaultyFiles()
    files.make_directory(DIRECTORY)
    files.fail(operation, errno.ENOSPC)
    segment = Segment(DIRECTORY, 0, 4096, False)
    with pytest.raises(OSError, match="No space left"):
        make_segment_file(files, segment.path(), segment, 0, "0badcafe")
    assert files.paths() == []


def test_a_file_under_another_base_is_refused() -> None:
    files, segment = made()
    files.rename(segment.path(), f"{DIRECTORY}/00000000000000004096.log")
    with pytest.raises(StoreCorrupt, match="position 16: the header says base 8192"):
        load_segment(files, DIRECTORY, "00000000000000004096.log")


def test_a_name_becomes_durable_with_the_first_sync() -> None:
    files, segment = made()
    assert files.crash().paths() in ([], [segment.path()])
    files, segment = made()
    segment.sync(files)
    assert segment.is_name_durable
    assert files.crash().paths() == [segment.path()]
