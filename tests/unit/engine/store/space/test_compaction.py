"""A segment that few live messages keep becomes a sparse one: what goes, what stays, what every reader sees of it."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.ports.workers import READ_LANE
from engine.store.format import layout
from engine.store.log.segment import Segment, load_segment
from engine.store.read.backup import _Copy, _Dropped, _identities, back_up
from engine.store.read.catalog import read_catalog
from engine.store.read.found_message import Bounds
from engine.store.read.message_history import FAILED, SENT, biography
from engine.store.read.query import StoreQuery
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.space.disk_usage import space_of
from engine.store.space.sparse_segment import Choice, Kept, Thinning
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import RangeGone
from engine.values.message import KEYED, PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.disk.crash_points import StoppableFiles, disks_left_by
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import THINNING, UNLIMITED, FileHome, lane

INTERVAL_MS = 1_000
HOUR_MS = 3_600_000


def home_with(
    octets: int = 0,
    time_ms: int = 1 << 50,
    percent: int = 60,
    min_age_ms: int = 0,
    bytes_per_second: int = 1 << 30,
    index_slots: int = 0,
    files: FaultyFiles | None = None,
) -> FileHome:
    return FileHome(
        replace(
            THINNING,
            retention_time_ms=time_ms,
            retention_bytes=octets,
            compaction_live_percent=percent,
            compaction_min_age_ms=min_age_ms,
            compaction_bytes_per_second=bytes_per_second,
            index_slots=index_slots,
        ),
        files=files,
    )


def fill(home: FileHome, destination: int, count: int = 300) -> int:
    """Send messages; return the size of each."""
    size = 0
    for _ in range(count // 10):
        size = home.send(destination, 10)[0].size
        home.flush()
    return size


def filled(home: FileHome, alive: int = 5) -> tuple[int, int]:
    """Send 300 messages and settle all but one; return the queue and the size of each."""
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    home.settle(queue, 0, alive, size)
    home.settle_durably(queue, alive + 1, 299 - alive, size)
    return queue, size


def pass_by(home: FileHome, milliseconds: int = 4 * INTERVAL_MS) -> None:
    home.pass_by(milliseconds)


def loaded(files: FaultyFiles) -> list[Segment]:
    names = [path.rpartition("/")[2] for path in files.paths(".log")]
    return [load_segment(files, "data/commitlog", name)[0] for name in names]


def sparse(files: FaultyFiles) -> list[bool]:
    return [segment.is_sparse for segment in loaded(files)]


def delete_queues(files: FaultyFiles) -> None:
    for path in files.paths(".cq"):
        files.unlink(path)


def test_one_live_message_keeps_itself_and_little_else() -> None:
    home = home_with()
    queue, size = filled(home)
    before = {path: len(home.files.octets(path)) for path in home.files.paths(".log")}
    (alive,) = home.page(queue, 4, 5, 1).messages
    pass_by(home)
    assert sparse(home.files) == [True, True, False]  # that of the message, the empty ones in one, and the last
    for path in home.files.paths(".log")[:-1]:
        assert len(home.files.octets(path)) < before[path]
    (again,) = home.page(queue, 4, 5, 1).messages
    assert (again.body, again.log_offset) == (alive.body, alive.log_offset)
    page = home.page(queue, 4, 0, 300)
    assert page.messages[0].queue_offset == 5
    assert page.next_offset == 300
    home.stop()
    assert verify(home.files, "data").findings == []
    delete_queues(home.files)
    home.begin()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (300, 5, [(6, 294)])
    assert home.page(queue, 4, 5, 1).messages[0].body == alive.body
    assert home.store.state_of(queue).live_bytes == size
    home.stop()
    assert verify(home.files, "data").findings == []


def test_when_the_live_one_is_settled_its_segment_and_all_behind_it_go() -> None:
    home = home_with()
    queue, size = filled(home)
    pass_by(home)
    home.settle_durably(queue, 5, 1, size)
    pass_by(home)
    assert len(home.files.paths(".log")) == 1
    home.restart()
    assert lane(home.store.recovered(), "orders").cursor == 300


def test_a_sparse_segment_is_thinned_again() -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    home.settle(queue, 1, 49, size)
    home.settle_durably(queue, 60, 240, size)
    pass_by(home)
    first, second = loaded(home.files)[:2]
    assert (first.message_count, second.message_count) == (1, 10)
    before = len(home.files.octets(second.path()))
    home.settle_durably(queue, 50, 9, size)
    pass_by(home)
    assert loaded(home.files)[1].message_count == 1
    assert len(home.files.octets(second.path())) < before
    assert [each.queue_offset for each in home.page(queue, 4, 0, 300).messages if each.queue_offset < 200] == [0, 59]
    home.stop()
    assert verify(home.files, "data").findings == []


def test_what_retention_would_keep_stays_whole() -> None:
    home = home_with(octets=1 << 50, time_ms=HOUR_MS)
    filled(home)
    pass_by(home)
    assert True not in sparse(home.files)
    pass_by(home, HOUR_MS // 36)
    assert True not in sparse(home.files)
    home.pass_time(HOUR_MS)
    pass_by(home)
    assert True in sparse(home.files)


def test_young_segments_stay_whole() -> None:
    home = home_with(min_age_ms=HOUR_MS)
    filled(home)
    pass_by(home)
    assert True not in sparse(home.files)
    home.pass_time(HOUR_MS)
    pass_by(home)
    assert True in sparse(home.files)


def test_a_segment_with_much_that_is_live_stays_whole() -> None:
    home = home_with(percent=20)
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    for entry in range(0, 300, 2):
        home.settle(queue, entry, 1, size)
    home.flush()
    pass_by(home)
    assert True not in sparse(home.files)


def test_zero_percent_thins_nothing() -> None:
    home = home_with(percent=0)
    filled(home)
    pass_by(home)
    assert True not in sparse(home.files)


def test_it_reads_so_many_octets_a_second() -> None:
    home = home_with(bytes_per_second=8192)
    filled(home)
    pass_by(home, INTERVAL_MS + 2_500)
    assert 1 <= sum(sparse(home.files)) <= 3


def test_settlements_and_attempts_of_what_is_left_stay_and_others_go(tmp_path: Path) -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    other = home.store.open_destination(QUEUE, "bills")
    home.send(other, 1)
    home.store.fail_attempts(other, 0, CAUSE_NACK, 0, [Range(4, 0, 1, 1)])
    for entry in range(300):
        (sent,) = home.send(queue, 1)
        home.settle_durably(queue, entry, 1, sent.size)
    pass_by(home)
    reader = copy_to(tmp_path, home.files)
    last = reader.segments[-1].base
    left: dict[int, int] = {}
    for record in reader.scan(0, reader.end().offset):
        if record.offset < last:
            left[record.type] = left.get(record.type, 0) + 1
    count = len(reader.segments) - 1
    # A settlement at the beginning of a segment may name a message that stood at the end of the one before.
    assert left.pop(layout.SETTLEMENT, 0) <= count
    assert left == {layout.SNAPSHOT: count, layout.DESTINATION: 2, layout.MESSAGE: 1, layout.ATTEMPTS: 1}


def test_readers_find_what_is_left_and_say_what_is_gone(tmp_path: Path) -> None:
    home = home_with(index_slots=8)
    queue = home.store.open_destination(QUEUE, "orders")
    sent: list[Message] = []
    for number in range(200):
        headers = b"keys:k%d\n" % (number % 10)
        sent.append(Message(queue, STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"", headers, b"%d" % number))
        home.store.append(sent[-1])
        home.flush()
    home.store.fail_attempts(queue, 0, CAUSE_NACK, 0, [Range(4, 33, 1, 1)])
    for entry in range(200):
        if entry != 33:
            home.settle(queue, entry, 1, sent[entry].size)
    home.flush()
    pass_by(home)
    home.stop()
    reader = copy_to(tmp_path, home.files)
    assert [segment.is_sparse for segment in reader.segments][:2] == [True, True]
    with StoreQuery(reader) as query:
        assert query.by_id(f"ID:{reader.store_id}-{sent[33].log_offset}").body == b"33"
        with pytest.raises(RangeGone, match=f"log offset {sent[34].log_offset} is gone: retention has removed it"):
            query.by_id(f"ID:{reader.store_id}-{sent[34].log_offset}")
        kept = [each.body for each in query.by_key("k3", Bounds()).messages]
        assert kept[-1] == b"33"
        assert len(kept) < 20
        found = query.by_destination("orders", Bounds(limit=1000)).messages
        assert found[-1].queue_offset == 33
        assert next(query.in_order("orders", Bounds())).body == b"33"
    assert [info.name for info in read_catalog(reader).destinations.values()] == ["orders"]
    life = biography(reader, f"ID:{reader.store_id}-{sent[33].log_offset}")
    assert [event.kind for event in life.events] == [SENT, FAILED]
    space = space_of(reader, True)
    assert [pin.messages for pin in space.segments[0].pins] == [1]
    for path in (tmp_path / "data" / "index").iterdir():
        path.unlink()
    with StoreQuery(StoreReader(reader.directory)) as query:
        assert [each.body for each in query.by_key("k3", Bounds()).messages] == kept


def test_an_export_reads_what_is_left(tmp_path: Path) -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    for first, count in ((0, 5), (6, 90), (98, 202)):
        home.settle(queue, first, count, size)
    home.flush()
    sent = [home.page(queue, 4, entry, 1).messages[0].log_offset for entry in (5, 96, 97)]
    reader = copy_to(tmp_path / "before", home.files)
    planned = make_plan(reader, parse("orders"))
    pass_by(home, 8 * INTERVAL_MS)
    assert sparse(home.files)[:4] == [True, True, True, True]
    assert len(sparse(home.files)) < len(reader.segments)
    later = make_plan(copy_to(tmp_path / "after", home.files), parse("orders"), verify=True)
    log = tmp_path / "after" / "data" / "commitlog"  # while an export is under way
    for path in log.iterdir():
        shutil.copy(path, tmp_path / path.name)
        os.replace(tmp_path / path.name, reader.directory / "commitlog" / path.name)
    gone = [each.path for each in reader.segments if not (log / each.path.name).exists()]
    assert len(gone) >= 2
    for path in gone:
        path.unlink()
    last = reader.segments[-1].base
    for plan in (planned, replace(later, directory=reader.directory, partitions=planned.partitions)):
        batches = [batch for pieces in plan.partitions for batch in read_pieces(plan, pieces)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [row["log_offset"] for row in rows if row["log_offset"] < last] == sent
        assert [row["body_text"].split()[0] for row in rows][:3] == ["5", "6", "7"]


def test_an_index_that_is_made_again_goes_through_sparse_segments(tmp_path: Path) -> None:
    home = home_with(index_slots=8)
    queue = home.store.open_destination(QUEUE, "orders")
    for number in range(200):
        home.store.append(
            Message(queue, STOMP, PERSISTENT | KEYED, 4, 0, 0, 0, b"", b"keys:k%d\n" % number, b"%d" % number)
        )
        home.flush()
    home.settle(queue, 0, 33)
    home.settle_durably(queue, 34, 166)
    pass_by(home)
    home.stop()
    for path in home.files.paths(".ix"):
        home.files.unlink(path)
    home.begin()
    pass_by(home)
    home.stop()
    with StoreQuery(copy_to(tmp_path, home.files)) as query:
        page = query.by_key("k33", Bounds())
        assert [each.body for each in page.messages] == [b"33"]
        assert page.scanned_bytes == 0


def test_a_transaction_of_which_something_is_left(tmp_path: Path) -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    for _ in range(2):  # of the second nothing is left
        home.store.begin()
        home.send(queue, 10)
        home.store.commit()
    size = fill(home, queue)
    home.settle(queue, 0, 4, size)
    home.settle_durably(queue, 5, 315, size)
    pass_by(home)
    home.stop()
    assert verify(home.files, "data").findings == []
    reader = copy_to(tmp_path, home.files)
    first = [record.type for record in reader.scan(0, reader.segments[1].base)]
    assert first == [layout.SNAPSHOT, layout.DESTINATION, layout.MESSAGE, layout.COMMIT]
    delete_queues(home.files)
    home.begin()
    assert home.page(queue, 4, 4, 1).messages[0].body.startswith(b"4 ")


def test_a_subscription_keeps_what_it_has_not_settled() -> None:
    home = home_with()
    topic = home.store.open_destination(TOPIC, "news")
    mail = home.store.open_subscription(topic, "mail", {})
    screen = home.store.open_subscription(topic, "screen", {})
    size = fill(home, topic)
    for number, entry in ((mail, 7), (screen, 150)):
        for first, end in ((0, entry), (entry + 1, 300)):
            sizes = [size] * (end - first)
            home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, end - first, 0, 0, sizes)])
    home.flush()
    pass_by(home)
    page = home.page(topic, 4, 0, 300)
    assert [each.queue_offset for each in page.messages][:2] == [7, 150]
    assert home.store.live_bytes(topic) == 2 * size
    home.store.close_destination(mail)
    home.flush()
    home.flush()
    pass_by(home)
    assert home.page(topic, 4, 0, 300).messages[0].queue_offset == 150
    home.stop()
    assert verify(home.files, "data").findings == []
    delete_queues(home.files)
    home.begin()
    assert home.store.live_bytes(topic) == size


def test_a_subscription_that_looks_back_needs_nothing_of_what_was_taken_out() -> None:
    home = home_with()
    orders = home.store.open_destination(QUEUE, "orders")
    home.send(orders, 1)  # which keeps the first segment
    topic = home.store.open_destination(TOPIC, "news")
    mail = home.store.open_subscription(topic, "mail", {})
    size = fill(home, topic)
    sizes = [size] * 200
    home.store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 200, 0, 0, sizes)])
    home.flush()
    pass_by(home)
    home.store.open_subscription(topic, "screen", {}, {4: 0})
    home.flush()
    assert home.page(topic, 4, 0, 300).messages[0].queue_offset > 0
    home.stop()
    assert verify(home.files, "data").findings == []


def test_what_was_asked_for_before_is_read_from_either_file() -> None:
    home = home_with()
    queue, _ = filled(home)
    home.page(queue, 4, 0, 1)  # so that the old file is open
    home.store.request(queue, 4, 0, 300, UNLIMITED)
    pages = home.workers.jobs.popleft()
    pass_by(home)
    assert True in sparse(home.files)
    pages[0].run()
    pages[0].finish()
    home.workers.run_all(READ_LANE)
    assert home.listener.page_failures == []
    assert 5 in [each.queue_offset for each in home.listener.pages[-1].messages]


@pytest.mark.parametrize("how", ["power", "kill"])
def test_a_stop_between_any_two_operations_loses_nothing(how: str) -> None:
    files = StoppableFiles(1)
    home = home_with(files=files)
    queue, size = filled(home)
    (alive,) = home.page(queue, 4, 5, 1).messages
    left = disks_left_by(files, lambda: pass_by(home), is_power_cut=how == "power")
    assert len(files.stopped) > 50
    seen = set()
    for number, disk in enumerate(left):
        seen.add(sum(sparse(disk)))
        assert verify(disk, "data").findings == []
        if number % 3 == 0:
            delete_queues(disk)
        home = home_with(files=disk)
        assert home.files.paths(".sparse") == []
        found = lane(home.store.recovered(), "orders")
        assert (found.tail, found.cursor, found.settled) == (300, 5, [(6, 294)])
        (again,) = home.page(queue, 4, 5, 1).messages
        assert (again.body, again.log_offset) == (alive.body, alive.log_offset)
        assert home.store.state_of(queue).live_bytes == size
        pass_by(home)
        assert sparse(disk)[:2] == [True, True]
    assert {0, 1, 2} <= seen


@pytest.mark.parametrize("operation", ["create", "pwrite", "fsync", "rename", "sync_directory"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_leaves_the_segment_and_is_asked_again(operation: str, error: int) -> None:
    home = home_with()
    queue, _ = filled(home)
    path = "commitlog" if operation == "sync_directory" else ".log" if operation == "rename" else ".sparse"
    home.files.fail(operation, error, path)
    reasons = set()
    for _ in range(15):
        home.pass_time(100)
        reasons.add(home.store.retention_reason())
    assert len(reasons) == 2
    assert home.store.is_accepting()
    assert home.page(queue, 4, 5, 1).messages[0].queue_offset == 5
    pass_by(home)
    assert home.store.retention_reason() == ""
    assert sparse(home.files)[:2] == [True, True]
    assert home.files.paths(".sparse") == []


@pytest.mark.damages_store("an octet of a record is flipped")
def test_a_damaged_record_that_has_to_stay_keeps_the_segment_as_it_is() -> None:
    home = home_with()
    queue, _ = filled(home)
    (alive,) = home.page(queue, 4, 5, 1).messages
    path = home.files.paths(".log")[0]
    home.files.octets(path)[layout.SEGMENT_HEADER_BYTES + alive.log_offset + 90] ^= 1
    pass_by(home)
    assert sparse(home.files)[0] is False
    assert True in sparse(home.files)


def test_nothing_goes_whose_settlement_is_not_durable() -> None:
    home = home_with()
    queue = home.store.open_destination(QUEUE, "orders")
    size = fill(home, queue)
    home.settle(queue, 0, 5, size)
    home.settle(queue, 6, 294, size)
    home.store.write()
    pass_by(home)
    assert True not in sparse(home.files)
    home.flush()
    pass_by(home)
    assert True in sparse(home.files)


@pytest.mark.damages_store("an octet of a table is flipped")
def test_a_damaged_table_is_refused_and_found() -> None:
    home = home_with()
    filled(home)
    pass_by(home)
    home.stop()
    path = home.files.paths(".log")[0]
    head = home.files.octets(path)
    position = int.from_bytes(head[1024:1032], "little")
    head[position + 3] ^= 1
    (finding, *_) = verify(home.files, "data").findings
    assert f"position {position}: the checksum of the table does not match" in str(finding)


def first_sequence(home: FileHome, place: int) -> int:
    """Return the sequence of a segment's first record."""
    head = home.files.octets(home.files.paths(".log")[place])[layout.SEGMENT_HEADER_BYTES :]
    return int(layout.RECORD_HEADER.unpack_from(head)[7])


def test_zeros_where_records_were_keep_the_segment_as_it_is() -> None:
    home = home_with()
    queue, _ = filled(home)
    (alive,) = home.page(queue, 4, 20, 1).messages
    octets = home.files.octets(home.files.paths(".log")[0])
    position = layout.SEGMENT_HEADER_BYTES + alive.log_offset
    octets[position:] = bytes(len(octets) - position)
    pass_by(home)
    assert sparse(home.files)[0] is False
    assert True in sparse(home.files)


@pytest.mark.damages_store("a live message is taken out")
def test_a_sparse_segment_that_lacks_a_live_message_is_a_finding() -> None:
    home = home_with(percent=0)
    queue, _ = filled(home)
    home.stop()
    segment = loaded(home.files)[0]
    choice = Choice({}, {})
    choice.lanes[(queue << layout.LANE_SHIFT) | 4] = Kept(0, 300, ((1 << 300) - 1) & ~(1 << 5))
    thinning = Thinning(home.files, [segment], [segment.limit()], choice, 1 << 30, first_sequence(home, 1))
    while not thinning.is_read:
        thinning.step(1000)
    thinning.finish(0, home.store.store_id())
    thinning.put_in_place()
    (needed, total) = verify(home.files, "data").findings
    assert "entry 5 of orders is needed and missing" in str(needed)
    assert "its messages come to 0" in str(total)


@pytest.mark.damages_store("a segment of another store is put in")
def test_a_backup_begins_anew_when_a_segment_becomes_sparse_meanwhile(tmp_path: Path) -> None:
    home = home_with(percent=0)
    filled(home)
    home.stop()
    dense = tmp_path / "dense"
    copy_to(dense, home.files)
    home.settings = home_with().settings
    home.begin()
    pass_by(home)
    home.stop()
    copy_to(tmp_path, home.files)
    (made_sparse, *_) = sorted((tmp_path / "data" / "commitlog").glob("*.log"))
    source = dense / "data"
    before = _identities(source)
    os.rename(made_sparse, source / "commitlog" / made_sparse.name)
    copy = _Copy(StoreReader(source), tmp_path / "copy", before)
    with pytest.raises(_Dropped):
        copy.run()
    made = back_up(source, tmp_path / "again")
    assert made.linked_files > 0
    assert [segment.is_sparse for segment in StoreReader(tmp_path / "again").segments][:2] == [True, False]
