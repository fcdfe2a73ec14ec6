"""Messages found by the id that their sender gave them, in a log that a real store wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from engine.store.read.sender_id_search import FOUND_MAX, Searched, SenderIdSearch
from engine.values.destination import QUEUE
from engine.values.message import OPENWIRE, PERSISTENT, STOMP, Message
from engine.values.sender_ids import SenderIds
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, FileHome

EVERYTHING = 1 << 30


def reader_of(home: FileHome, directory: Path) -> StoreReader:
    home.flush()
    return copy_to(directory, home.files)


class InHeader(SenderIds):
    """The id is the line ``id:``; a body may have the same octets."""

    def octets(self, sender_id: str) -> list[bytes]:
        return [f"id:{sender_id}".encode()]

    def has(self, headers: bytes, sender_id: str) -> bool:
        return f"id:{sender_id}" in headers.decode().split("\n")


class Log:
    def __init__(self, home: FileHome | None = None) -> None:
        self.home = home or FileHome()
        self.queue = self.home.store.open_destination(QUEUE, "orders")

    def send(self, sender_id: str = "other", body: bytes = b"body", encoding: int = STOMP) -> Message:
        headers = f"id:{sender_id}\n".encode()
        message = Message(self.queue, encoding, PERSISTENT, 4, 0, 0, 0, b"", headers, body)
        self.home.store.append(message)
        return message

    def fill(self, count: int) -> None:
        for _ in range(count):
            self.send(body=b"x" * 1_000)
            self.home.flush()

    def search(
        self, directory: Path, before: int = EVERYTHING, most: int = EVERYTHING, is_left: bool = False
    ) -> Searched:
        reader = reader_of(self.home, directory)
        return SenderIdSearch(reader, "wanted", {STOMP: InHeader()}, lambda: is_left, most).run(before)


def test_the_newest_comes_first_across_segments(tmp_path: Path) -> None:
    log = Log()
    old = log.send("wanted")
    log.fill(30)  # segments of 8 KiB
    middle, close = log.send("wanted"), log.send("wanted")
    log.fill(30)
    found = log.search(tmp_path)
    assert found.places == [close.log_offset, middle.log_offset, old.log_offset]
    assert found.is_whole and found.from_offset == 0


@pytest.mark.parametrize(
    ("sender_id", "body", "encoding"),
    [("wanted2", b"", STOMP), ("other", b"id:wanted", STOMP), ("wanted", b"", OPENWIRE)],
    ids=["longer", "in-a-body", "another-encoding"],
)
def test_other_messages_are_not_taken_for_it(tmp_path: Path, sender_id: str, body: bytes, encoding: int) -> None:
    log = Log()
    log.send(sender_id, body, encoding)
    assert log.search(tmp_path) == Searched([], 0, log.home.store.append_offset(), True)


def test_a_search_goes_on_where_the_limit_has_ended_it(tmp_path: Path) -> None:
    log = Log()
    old = log.send("wanted")
    log.fill(60)
    log.send("other", b"id:wanted")
    calls = 0
    at = EVERYTHING
    while True:
        found = log.search(tmp_path / str(calls), at, 20_000)
        calls += 1
        if found.is_whole:
            break
        assert found.places == [] and found.from_offset < found.to_offset
        at = found.from_offset
    assert found.places == [old.log_offset]
    assert calls > 2


def test_what_is_looked_at_counts_for_the_limit(tmp_path: Path) -> None:
    log = Log()
    for _ in range(200):
        log.send("other", b"id:wanted")
        log.home.flush()
    assert not log.search(tmp_path, most=100_000).is_whole, "the log itself has less"


def test_so_many_messages_are_enough(tmp_path: Path) -> None:
    log = Log()
    messages = [log.send("wanted") for _ in range(FOUND_MAX + 2)]
    found = log.search(tmp_path)
    assert found.places == [each.log_offset for each in reversed(messages)][:FOUND_MAX]


def test_who_has_left_is_not_searched_for(tmp_path: Path) -> None:
    log = Log()
    log.fill(30)
    found = log.search(tmp_path, is_left=True)
    assert not found.is_whole and found.places == []


def test_a_thinned_segment_has_what_is_left(tmp_path: Path) -> None:
    log = Log(FileHome(THINNING))
    gone, kept = log.send("wanted"), log.send("wanted")
    log.fill(30)
    log.home.settle(log.queue, 0, 1, gone.size)
    log.home.settle_durably(log.queue, 2, 30, 1_020)
    log.home.pass_by(20_000)
    reader = reader_of(log.home, tmp_path)
    assert any(segment.is_sparse for segment in reader.segments)
    found = SenderIdSearch(reader, "wanted", {STOMP: InHeader()}, lambda: False).run()
    assert found.places == [kept.log_offset]


@pytest.mark.damages_store
def test_a_damaged_record_hides_no_other(tmp_path: Path) -> None:
    log = Log()
    log.home.flush()
    first, damaged, last = log.send("wanted"), log.send("wanted"), log.send("wanted")
    reader = reader_of(log.home, tmp_path)
    segment = reader.segments[0]
    octets = bytearray(segment.path.read_bytes())
    place = octets.rfind(b"id:wanted", 0, octets.rfind(b"id:wanted"))
    octets[place - 60 : place] = bytes(60)
    segment.path.write_bytes(octets)
    found = SenderIdSearch(reader, "wanted", {STOMP: InHeader()}, lambda: False).run()
    assert damaged.log_offset not in found.places
    assert found.places == [last.log_offset, first.log_offset]
