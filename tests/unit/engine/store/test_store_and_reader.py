"""What FileStore writes, StoreReader reads: also after failed syncs, crashes, torn tails and retention."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from engine.store.format import layout
from engine.store.read.catalog import read_catalog
from engine.store.read.reader import StoreReader
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import PERSISTENT, STOMP, Message
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome, home_with_queue


def read_bodies(reader: StoreReader) -> dict[tuple[str, int], bytes]:
    names = {number: info.name for number, info in read_catalog(reader).destinations.items()}
    found: dict[tuple[str, int], bytes] = {}
    for record in reader.scan(reader.first_offset, reader.end().offset):
        if record.type == layout.MESSAGE:
            fixed = layout.MESSAGE_FIXED.unpack_from(record.data, layout.RECORD_HEADER_BYTES)
            start = layout.MESSAGE_HEAD_BYTES + fixed[0] + fixed[1]
            found[(names[record.destination_id], fixed[9])] = bytes(record.data[start : start + fixed[2]])
    return found


@pytest.mark.parametrize("stop", ["clean", "killed", "running"])
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_reader_sees_what_the_store_keeps(tmp_path: Path, stop: str, is_broken: bool) -> None:
    home = FileHome()
    expected: dict[tuple[str, int], bytes] = {}
    numbers = {name: home.store.open_destination(kind, name) for kind, name in ((QUEUE, "orders"), (TOPIC, "news"))}
    for turn in range(30):
        for name, number in numbers.items():
            for _ in range(4):
                body = b"%d" % turn * 30
                sent = Message(number, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"n:1\n", body)
                home.store.append(sent)
                expected[(name, sent.queue_offset)] = body
        home.settle(numbers["orders"], turn * 4, 2)
        if is_broken and turn in (7, 19):
            home.files.fail("fdatasync", errno.EIO)
        home.flush()
        if is_broken:
            home.pass_time(500)
        if turn == 15:
            home.kill()
    home.workers.run_all()
    if stop == "clean":
        home.stop()
    elif stop == "killed":
        home.kill()
    reader = copy_to(tmp_path, home.files)
    assert read_bodies(reader) == expected
    assert reader.end().offset == home.store.append_offset()
    assert {info.name: info.kind for info in read_catalog(reader).destinations.values()} == {
        "orders": QUEUE,
        "news": TOPIC,
    }
    if is_broken:
        assert any(segment.is_continuation for segment in reader.segments)


def test_a_reader_and_recovery_cut_at_the_same_place(tmp_path: Path) -> None:
    for seed in range(15):
        home = FileHome(seed=seed)
        queue = home.store.open_destination(QUEUE, "orders")
        home.send_durably(queue, 10)
        home.store.begin()
        home.send(queue, 3)
        home.store.commit()
        home.send(queue, 60)
        home.store.write()
        disk = home.files.crash()
        directory = tmp_path / str(seed)
        reader = copy_to(directory, disk)
        end = reader.end().offset
        home.files = disk
        home.begin()
        assert end <= home.file_store.report.replayed_to
        (state,) = home.store.recovered()
        assert sorted(entry for _, entry in read_bodies(reader)) == list(range(state.lanes[0].tail))


def test_a_reader_begins_where_retention_left_off(tmp_path: Path) -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, retention_bytes=0, retention_interval_ms=100))
    for turn in range(20):
        home.send(queue, 10)
        home.settle_durably(queue, turn * 10, 10)
    home.pass_time(100)
    reader = copy_to(tmp_path, home.files)
    assert reader.first_offset > 0
    assert read_bodies(reader)
    assert [info.name for info in read_catalog(reader).destinations.values()] == ["orders"]
