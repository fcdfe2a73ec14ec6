from __future__ import annotations

import errno

import pytest

from engine.store.format import layout
from engine.store.log.segment import NOT_SEALED, Segment, load_segment, make_segment_file, seal
from engine.values.errors import StoreCorrupt
from tests.support.disk.faulty_files import FaultyFiles

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
