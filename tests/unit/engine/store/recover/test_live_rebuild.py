"""What is derived is made again while the store is open: nothing is lost, and nobody has to stop."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE
from engine.values.message import KEYED, PERSISTENT, STOMP, TEXT, Message
from engine.values.message_keys import Keys
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_world import RecordingListener

SETTINGS = StoreSettings(segment_bytes=8192, index_slots=8, index_entries=20)


class Open:
    """A store on the real disk that is open, with some full segments."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.workers = HeldWorkers()
        self.listener = RecordingListener()
        self.store = FileStore(
            str(directory), RealFiles(), self.workers, self.clock, self.timers, SETTINGS, keys=Keys()
        )
        self.store.attach(self.listener)
        self.queue = self.store.open_destination(QUEUE, "orders")
        self.count = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            headers = b"keys:k%d\n" % (self.count % 7)
            flags = PERSISTENT | TEXT | KEYED
            body = b"x" * 150
            self.store.append(Message(self.queue, STOMP, flags, 4, 0, 0, 0, b"", headers, body))
            self.count += 1
            if self.count % 10 == 0:
                self.settle_down()
        self.settle_down()

    def settle_down(self) -> None:
        self.store.write()
        self.store.sync()
        self.workers.run_all()
        self.timers.advance(1_000)
        self.workers.run_all()

    def check(self) -> None:
        """Stop, and find everything as it should be."""
        assert self.store.retention_reason() == ""
        self.store.request(self.queue, 4, 0, 10_000, 1 << 30)
        self.workers.run_all()
        assert self.listener.page_failures == []
        assert [one.queue_offset for one in self.listener.pages.pop().messages] == list(range(self.count))
        with StoreQuery(StoreReader(self.directory), Keys()) as query:
            page = query.by_key("k3", Bounds(limit=1000))
        assert len(page.messages) == len(range(3, self.count, 7))
        self.store.close()
        result = verify(RealFiles(), str(self.directory), Keys())
        assert (result.findings, result.index_entry_count) == ([], self.count)


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    found = Open(tmp_path / "data")
    found.send(100)
    return found


def _spoil(opened: Open, what: str) -> None:
    queues = opened.directory / "consumequeue"
    if what == "deleted":
        shutil.rmtree(queues)
        for path in (opened.directory / "index").iterdir():
            path.unlink()
    else:
        for path in [*queues.rglob("*.cq"), *(opened.directory / "index").iterdir()]:
            octets = bytearray(path.read_bytes())
            octets[len(octets) // 2] ^= 255
            path.write_bytes(octets)


@pytest.mark.parametrize("what", ["deleted", "spoilt", "sound"])
def test_it_is_made_again(opened: Open, what: str) -> None:
    if what != "sound":
        _spoil(opened, what)
    rebuilding = opened.store.rebuild_derived()
    assert not rebuilding.is_done()
    opened.workers.run_all()
    opened.timers.advance(1_000)
    opened.workers.run_all()
    assert rebuilding.is_done() and rebuilding.reason == "" and rebuilding.record_count > 60
    opened.send(40)
    opened.check()


def test_while_messages_come(opened: Open) -> None:
    _spoil(opened, "spoilt")
    rebuilding = opened.store.rebuild_derived()
    while not rebuilding.is_done():
        opened.workers.run_one()
        for _ in range(3):
            headers = b"keys:k%d\n" % (opened.count % 7)
            opened.store.append(Message(opened.queue, STOMP, PERSISTENT | TEXT | KEYED, 4, 0, 0, 0, b"", headers, b"y"))
            opened.count += 1
        opened.store.write()
        opened.store.sync()
        opened.timers.advance(1_000)
    assert rebuilding.reason == ""
    opened.settle_down()
    opened.check()


@pytest.mark.damages_store("a segment is spoilt")
def test_a_log_that_is_damaged_is_told(opened: Open) -> None:
    path = sorted((opened.directory / "commitlog").glob("*.log"))[1]
    octets = bytearray(path.read_bytes())
    octets[4096 + 2000] ^= 255
    path.write_bytes(octets)
    rebuilding = opened.store.rebuild_derived()
    opened.workers.run_all()
    assert rebuilding.is_done() and path.name in rebuilding.reason
    opened.store.close()
