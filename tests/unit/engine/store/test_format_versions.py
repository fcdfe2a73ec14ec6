"""Stores of each version of the format that was ever released: they are read.  Newer ones are refused, and say so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.store.disk.files import RealFiles
from engine.store.file_store import FileStore
from engine.store.format import layout
from engine.store.read.backup import back_up
from engine.store.read.found_message import Bounds
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.read.scheduled_messages import scheduled_in
from engine.store.read.segment_files import read_checkpoint
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import PREPARED_QUEUE, SCHEDULE_QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.stored import Attempts, DestinationState, LaneState
from engine.values.xid import Xid
from gateway.__main__ import main
from gateway.process import exit_codes
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import START_WALL_MS, HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.store_copy import VECTORS, copy_to, unpack_vector
from tests.support.store.store_home import FileHome
from tests.support.store.store_world import RecordingListener

VERSIONS = ("v1", "c123f83")  # samples with the same content, the latter written by that commit
NEWER = layout.NEWEST_VERSION + 1


def opened(data: Path) -> FileStore:
    clock = VirtualClock(START_WALL_MS + 3_600_000)
    settings = StoreSettings(segment_bytes=8192)
    return FileStore(str(data), RealFiles(), HeldWorkers(), clock, VirtualTimers(clock), settings)


def lanes(states: list[DestinationState], name: str) -> dict[int, LaneState]:
    (found,) = [state for state in states if state.name == name]
    return {lane.priority: lane for lane in found.lanes}


def test_there_is_a_sample_of_the_present_version() -> None:
    names = [f"store_v{version}.tar.gz" for version in range(1, layout.NEWEST_VERSION + 1)]
    assert all((VECTORS / name).exists() for name in names), "make one: tests/support/store/frozen_store.py"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gateway_goes_on_with_it(tmp_path: Path, version: str) -> None:
    data = unpack_vector(version, tmp_path)
    assert verify(RealFiles(), str(data)).findings == []
    store = opened(data)
    states = store.recovered()
    assert [state.name for state in states] == ["orders.eu", "ActiveMQ.DLQ", "news", "mail"]
    orders = lanes(states, "orders.eu")
    assert (orders[4].tail, orders[4].cursor, orders[4].settled) == (37, 10, [(11, 1), (15, 1)])
    assert (orders[7].tail, orders[7].cursor) == (4, 0)
    time_ms = START_WALL_MS + 40_000
    assert orders[4].attempts == {12: Attempts(3, 0, time_ms, time_ms, 1, 1)}
    assert store.consumer_description(1)["client_id"] == "worker"
    assert (lanes(states, "mail")[4].tail, lanes(states, "mail")[4].cursor) == (5, 1)
    assert lanes(states, "ActiveMQ.DLQ")[4].tail == 1
    listener = RecordingListener()
    store.attach(listener)
    workers = store._context.workers
    assert isinstance(workers, HeldWorkers)
    store.request(states[0].destination_id, 4, 10, 1, 1 << 20)
    workers.run_all()
    assert listener.pages[0].messages[0].body.startswith(b"order 12 ")
    store.close()
    assert verify(RealFiles(), str(data)).findings == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_finds_everything_in_it(tmp_path: Path, version: str) -> None:
    with StoreQuery(StoreReader(unpack_vector(version, tmp_path))) as query:
        page = query.by_key("k3", Bounds())
        assert [message.body[:9] for message in page.messages] == [b"order %2d " % n for n in range(39, 9, -4)] + [
            b"order 7 .",
            b"order 3 .",
        ]
        assert page.scanned_bytes == 0
        (gone,) = query.by_destination("gone", Bounds()).messages
        assert gone.body == b"nobody's"
        (letter,) = query.by_destination("queue://ActiveMQ.DLQ", Bounds()).messages
        assert letter.is_dead_letter


def test_a_gateway_goes_on_with_sparse_segments(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.SPARSE_VERSION}", tmp_path)
    assert verify(RealFiles(), str(data)).findings == []
    for is_rebuilt in (False, True):
        if is_rebuilt:
            shutil.rmtree(data / "consumequeue")
            (data / "checkpoint").unlink()
        store = opened(data)
        states = store.recovered()
        assert [state.name for state in states] == ["orders.eu", "news", "mail"]
        orders = lanes(states, "orders.eu")[4]
        assert (orders.tail, orders.cursor, orders.settled) == (120, 3, [(4, 27), (32, 88)])
        assert orders.attempts[3].count == 2
        assert (lanes(states, "mail")[4].tail, lanes(states, "mail")[4].cursor) == (1, 0)
        assert states[0].live_bytes == 2 * 308
        listener = RecordingListener()
        store.attach(listener)
        workers = store._context.workers
        assert isinstance(workers, HeldWorkers)
        for number, name in ((states[0].destination_id, b"order 3 "), (states[1].destination_id, b"news")):
            store.request(number, 4, 3 if name != b"news" else 0, 1, 1 << 20)
            workers.run_all()
            assert listener.pages.pop().messages[0].body.startswith(name)
        workers.run_all()
        store.close()
        assert verify(RealFiles(), str(data)).findings == []


def test_a_reader_finds_what_is_left_in_sparse_segments(tmp_path: Path) -> None:
    reader = StoreReader(unpack_vector(f"v{layout.SPARSE_VERSION}", tmp_path))
    assert reader.segments[0].is_sparse
    with StoreQuery(reader) as query:
        page = query.by_key("k3", Bounds())
        assert [message.body[:9] for message in page.messages][-2:] == [b"order 31 ", b"order 3 ."]
        assert [message.body for message in query.by_destination("news", Bounds()).messages] == [b"news"]
    types = [record.type for record in reader.scan(0, reader.end().offset)]
    assert layout.COMMIT in types


def test_a_gateway_goes_on_with_a_schedule(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.SCHEDULE_VERSION}", tmp_path)
    assert verify(RealFiles(), str(data)).findings == []
    pending, listed = scheduled_in(str(data), "queue://orders.eu", 9)
    assert pending == 4
    assert [(one["repeats"], one["fired"]) for one in listed] == [(True, 2), (False, 0), (False, 0), (True, 0)]
    for is_rebuilt in (False, True):
        if is_rebuilt:
            shutil.rmtree(data / "consumequeue")
            (data / "checkpoint").unlink()
        store = opened(data)
        clock = VirtualClock(START_WALL_MS + 10_000)
        broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
        assert BrokerView(broker).schedule.due_times() == [one["due_ms"] for one in listed]
        assert BrokerView(broker).depth("orders.eu") == 3
        store.close()
        assert version_in(data) == layout.SCHEDULE_VERSION


def test_a_gateway_goes_on_with_prepared_transactions(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.PREPARED_VERSION}", tmp_path)
    assert verify(RealFiles(), str(data)).findings == []
    for is_rebuilt in (False, True):
        if is_rebuilt:
            shutil.rmtree(data / "consumequeue")
            (data / "checkpoint").unlink()
        store = opened(data)
        clock = VirtualClock(START_WALL_MS + 10_000)
        broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1 << 20)
        (branch,) = BrokerView(broker).branches.prepared()
        assert (branch.xid, branch.user, branch.prepared_ms) == (Xid(1, b"order", b"1"), "alice", START_WALL_MS + 600)
        assert [message.body for _, message in branch.transaction.sends] == [b"sent 0", b"sent 1", b"sent 2"]
        assert [message.body for _, message in branch.transaction.scheduled] == [b"sent 3"]
        assert [(held.queue.name, held.offsets) for held in branch.held] == [("orders.eu", [2, 3])]
        assert (BrokerView(broker).depth("orders.eu"), BrokerView(broker).depth("out")) == (6, 1)
        store.close()
        assert version_in(data) == layout.PREPARED_VERSION


def test_a_store_says_that_it_has_a_schedule_before_it_has_one(tmp_path: Path) -> None:
    home = FileHome()
    home.send_durably(home.store.open_destination(1, "q"), 3)
    copy_to(tmp_path / "before", home.files)
    assert version_in(tmp_path / "before/data") == layout.FORMAT_VERSION
    home.store.open_destination(1, SCHEDULE_QUEUE)
    home.crash()
    copy_to(tmp_path / "after", home.files)
    assert version_in(tmp_path / "after/data") == layout.SCHEDULE_VERSION
    home.restart()
    assert [state.name for state in home.store.recovered()] == ["q"]


def test_a_version_that_a_store_has_needed_does_not_fall(tmp_path: Path) -> None:
    home = FileHome()
    for name in (PREPARED_QUEUE, SCHEDULE_QUEUE):
        home.store.open_destination(1, name)
    home.crash()
    copy_to(tmp_path / "after", home.files)
    assert version_in(tmp_path / "after/data") == layout.PREPARED_VERSION


def test_a_backup_says_what_its_store_says(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.SCHEDULE_VERSION}", tmp_path)
    back_up(data, tmp_path / "backup")
    assert version_in(tmp_path / "backup") == layout.SCHEDULE_VERSION
    assert scheduled_in(str(tmp_path / "backup"), "", 9) == scheduled_in(str(data), "", 9)


def version_in(directory: Path) -> int:
    """Return the version that the checkpoint says."""
    found = read_checkpoint(directory / "checkpoint")
    assert found is not None
    return found.version


def newer_store_file(data: Path) -> None:
    path = data / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": NEWER}))


def newer_segment(data: Path) -> None:
    change_version(sorted((data / "commitlog").iterdir())[-1], 0, layout.SEGMENT_HEADER.size)


def newer_checkpoint(data: Path) -> None:
    for slot in (0, layout.CHECKPOINT_SLOT_BYTES):
        change_version(data / "checkpoint", slot, layout.CHECKPOINT.size)


def change_version(path: Path, start: int, size: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[start + 8 : start + 12] = pack("<I", NEWER)
    octets[start + size : start + size + 4] = pack("<I", crc32c(bytes(octets[start : start + size])))
    path.write_bytes(octets)


@pytest.mark.parametrize("change", [newer_store_file, newer_segment, newer_checkpoint])
@pytest.mark.damages_store("a file says another version")
def test_a_newer_version_is_refused_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None]
) -> None:
    data = unpack_vector(f"v{layout.FORMAT_VERSION}", tmp_path)
    change(data)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    expected = f"version {NEWER} of the format; supported are 1 to {layout.NEWEST_VERSION}"
    for open_it in (opened, StoreReader):
        with pytest.raises(StoreCorrupt, match=expected):
            open_it(data)
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != "lock"}
    assert after == before, "what is refused is not touched"
    assert main(["run", "--data", str(data)]) == exit_codes.STORE
    assert expected in capsys.readouterr().err


@pytest.mark.damages_store("a file says another version")
def test_a_newer_record_type_is_refused(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.FORMAT_VERSION}", tmp_path)
    path = sorted((data / "commitlog").iterdir())[-1]
    octets = bytearray(path.read_bytes())
    # The record after the snapshot.
    size = int.from_bytes(octets[4096:4100], "little")
    at = 4096 + layout.padded(size)
    octets[at + 8] = 200
    end = at + int.from_bytes(octets[at : at + 4], "little")
    octets[at + 4 : at + 8] = pack("<I", crc32c(bytes(octets[at + 8 : end])))
    path.write_bytes(octets)
    with pytest.raises(StoreCorrupt, match="a record of unknown type 200"):
        opened(data)


def test_a_newer_index_is_made_again(tmp_path: Path) -> None:
    data = unpack_vector(f"v{layout.FORMAT_VERSION}", tmp_path)
    change_version(sorted((data / "index").iterdir())[0], 0, layout.INDEX_HEADER.size)
    with StoreQuery(StoreReader(data)) as query:
        page = query.by_key("k3", Bounds())
    assert (len(page.messages), page.scanned_bytes > 0) == (10, True)
