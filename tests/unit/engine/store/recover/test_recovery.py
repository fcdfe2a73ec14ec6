"""Opening after every kind of stop."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from crc32c import crc32c

from engine.store.disk.files import File, Files, RealFiles
from engine.store.file_store import FileStore
from engine.store.format import layout
from engine.store.format.file_heads import unpack_checkpoint
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt, StoreError, StoreLocked
from tests.support.disk.crash_points import StoppableFiles, disks_left_by
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.disk.files_wrapper import FilesWrapper
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.many_segments import bodies, check_many, many_segments, report
from tests.support.store.store_home import FileHome, home_with_queue, lane

HEADER = layout.SEGMENT_HEADER_BYTES
FIRST_SEGMENT = "data/commitlog/00000000000000000000.log"


def test_a_new_store() -> None:
    home = FileHome()
    assert report(home).is_new
    assert home.store.recovered() == []
    assert home.files.paths("lock") == ["data/lock"]
    assert home.files.octets("data/lock") == b"4711\n"
    assert home.store.start_count() == 1


def test_after_a_clean_stop_the_log_goes_on_where_it_was() -> None:
    home, queue = home_with_queue()
    home.send(queue, 10)
    home.settle_durably(queue, 0, 3)
    end = home.store.append_offset()
    home.stop()
    home.begin()
    assert report(home).is_clean
    assert home.store.append_offset() == home.store.durable_offset() == end
    assert home.store.start_count() == 2
    (more,) = home.send(queue, 1)
    assert more.log_offset == end
    assert more.queue_offset == 10
    home.flush()
    assert len(bodies(home, queue, 3, 11)) == 8


def test_closing_writes_and_syncs_what_was_only_appended() -> None:
    home, queue = home_with_queue()
    sent = home.send(queue, 10)
    home.stop()
    home.files = home.files.crash()
    home.begin()
    assert report(home).is_clean
    assert bodies(home, queue, 0, 10) == [each.body for each in sent]


def test_closing_twice_does_nothing_more() -> None:
    home = FileHome()
    home.stop()
    operations = home.files.operations
    home.store.close()
    assert home.files.operations == operations


def test_after_a_kill_the_log_goes_on_in_a_new_segment() -> None:
    home, queue = home_with_queue()
    sent = home.send(queue, 10)
    home.store.write()
    home.kill()
    assert not report(home).is_clean
    assert report(home).cut is None
    assert home.store.append_offset() > 8192
    assert bodies(home, queue, 0, 10) == [each.body for each in sent]


def test_records_that_follow_a_slot_that_says_clean_make_the_stop_unclean() -> None:
    home, queue = home_with_queue()
    home.stop()
    clean = bytes(home.files.octets("data/checkpoint"))
    home.begin()
    home.send(queue, 2)
    home.store.write()
    home.files.octets("data/checkpoint")[:] = clean
    home.kill()
    assert not report(home).is_clean
    assert lane(home.store.recovered(), "orders").tail == 2


def torn(damage: bytes) -> None:
    """Damage the log from every octet on that is not durable."""
    home, queue = home_with_queue()
    home.send_durably(queue, 2, 20)
    durable = home.store.durable_offset()
    sent = home.send(queue, 3, 21)
    settlement = home.store.append_offset()
    home.settle(queue, 0, 1)
    home.store.write()
    end = home.store.append_offset()
    ends = [each.log_offset + layout.MESSAGE_HEAD_BYTES + each.size for each in sent]
    disk = home.files.killed()
    whole = {path: bytes(disk.octets(path)) for path in disk.paths()}
    for cut in range(durable, end):
        files = FaultyFiles()
        files.make_directory("data/commitlog")
        for path, octets in whole.items():
            files.create(path).pwrite(octets, 0)
        octets_left = files.octets(FIRST_SEGMENT)
        octets_left[HEADER + cut : HEADER + end] = (damage * (end - cut))[: end - cut]
        is_settlement_whole = octets_left == whole[FIRST_SEGMENT]
        is_torn = any(octets_left[HEADER + layout.padded(cut) : HEADER + end]) and not is_settlement_whole
        home.files = files
        home.begin()
        found = lane(home.store.recovered(), "orders")
        assert found.tail == 2 + sum(1 for each in ends if each <= cut)
        assert found.cursor == (1 if is_settlement_whole else 0)
        assert len(bodies(home, queue, 0, found.tail)) == found.tail
        was_cut = report(home).cut
        if is_torn:
            assert was_cut is not None
            assert was_cut.path == FIRST_SEGMENT
            assert was_cut.position == HEADER + was_cut.offset
            assert was_cut.offset in [durable, *(layout.padded(each) for each in ends)]
            assert was_cut.offset <= min(layout.padded(cut), settlement)
        # The cut is final: another start sees the same, also if octets stood there.
        home.kill()
        assert lane(home.store.recovered(), "orders").tail == found.tail


def test_a_tail_torn_at_every_octet_is_cut_at_the_last_whole_record() -> None:
    torn(b"\0")


def test_a_tail_overwritten_from_every_octet_on_is_cut_at_the_last_whole_record() -> None:
    torn(b"\xa5\x5a\x00\xff\x07")


class Looking(FilesWrapper):
    """Counts how often each directory is listed, and each consume-queue file opened."""

    def __init__(self, inner: Files) -> None:
        super().__init__(inner)
        self.looks: Counter[str] = Counter()

    def list_directory(self, path: str) -> list[str]:
        self.looks[path] += 1
        return super().list_directory(path)

    def open_to_read(self, path: str) -> File:
        self.looks[path] += path.endswith(".cq")
        return super().open_to_read(path)


def test_the_files_of_each_queue_are_looked_at_once() -> None:
    home = FileHome()
    queues = [home.store.open_destination(QUEUE, f"orders.{number}") for number in range(20)]
    for _ in range(5):
        for queue in queues:
            home.send(queue, 1)
        home.flush()
    home.flush()
    home.stop()
    files = Looking(home.files)
    store = FileStore("data", files, HeldWorkers(), home.clock, VirtualTimers(home.clock), home.settings)
    assert store.report.replayed_from > 0
    assert store.report.rebuilt == ""
    for queue in queues:
        assert files.looks[f"data/consumequeue/{queue}/4"] == 1
        assert files.looks[f"data/consumequeue/{queue}/4/{0:020d}.cq"] == 1


def test_only_the_tail_is_replayed() -> None:
    home, queue = many_segments()
    home.kill()
    assert report(home).replayed_records < 60
    assert report(home).rebuilt == ""
    check_many(home, queue)


@pytest.mark.parametrize("is_clean", [True, False])
def test_lost_consume_queues_are_rebuilt(is_clean: bool) -> None:
    home, queue = many_segments()
    if is_clean:
        home.stop()
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.kill()
    assert "consumequeue/0/0: no entry is there, 0 to " in report(home).rebuilt
    assert report(home).replayed_from == 0
    check_many(home, queue)
    home.kill()
    assert report(home).rebuilt == ""
    check_many(home, queue)


def test_one_lost_consume_queue_file_is_rebuilt() -> None:
    home, queue = many_segments()
    home.files.unlink(f"data/consumequeue/{queue}/4/{0:020d}.cq")
    home.kill()
    assert report(home).rebuilt
    check_many(home, queue)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["gone", "empty", "nonsense"])
def test_a_lost_checkpoint_costs_a_rebuild(is_clean: bool, damage: str) -> None:
    home, queue = many_segments()
    starts = home.store.start_count()
    if is_clean:
        home.stop()
    if damage == "gone":
        home.files.unlink("data/checkpoint")
    else:
        octets = home.files.octets("data/checkpoint")
        octets[:] = b"" if damage == "empty" else b"\x55" * len(octets)
    home.kill()
    assert report(home).rebuilt == "no slot of the checkpoint is whole"
    check_many(home, queue)
    assert home.store.start_count() > starts
    home.kill()
    assert report(home).rebuilt == ""
    check_many(home, queue)


def test_without_a_checkpoint_a_torn_tail_is_cut() -> None:
    home, queue = home_with_queue()
    sent = home.send(queue, 4)
    home.flush()
    home.files.octets(FIRST_SEGMENT)[HEADER + sent[3].log_offset + 100] ^= 1
    home.files.unlink("data/checkpoint")
    home.kill()
    was_cut = report(home).cut
    assert was_cut is not None
    assert was_cut.offset == sent[3].log_offset
    assert lane(home.store.recovered(), "orders").tail == 3


def test_an_older_checkpoint_only_makes_the_tail_longer() -> None:
    home, queue = many_segments()
    home.files.settle()
    older = bytes(home.files.octets("data/checkpoint"))
    for number in range(30, 40):
        home.send(queue, 10)
        home.settle_durably(queue, number * 10, 10)
    home.files.octets("data/checkpoint")[:] = older
    home.kill()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (400, 5)
    assert len(bodies(home, queue, 0, 400)) == 400


def test_an_unfinished_transaction_is_cut_from_its_first_record() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 2)
    start = home.store.append_offset()
    home.store.begin()
    sent = home.send(queue, 5)
    home.settle(queue, 0, 1)
    commit = home.store.append_offset()
    home.store.commit()
    home.store.write()
    for offset in (*(each.log_offset for each in sent[1:]), commit):
        files = home.files
        octets = files.octets(FIRST_SEGMENT)
        whole = bytes(octets)
        octets[HEADER + offset :] = bytes(len(octets) - HEADER - offset)
        copy = FaultyFiles()
        copy.make_directory("data/commitlog")
        for path in files.paths():
            copy.create(path).pwrite(bytes(files.octets(path)), 0)
        octets[:] = whole
        home.files = copy
        home.begin()
        found = lane(home.store.recovered(), "orders")
        assert (found.tail, found.cursor) == (2, 0)
        was_cut = report(home).cut
        assert was_cut is not None
        assert was_cut.offset == start
        home.files = files


def test_a_segment_that_was_made_ahead_is_not_used_after_an_unclean_stop() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 25, 200)
    assert home.files.paths(".prepared") == ["data/commitlog/00000000000000008192.log.prepared"]
    home.kill()
    assert home.files.paths(".prepared") == []
    assert home.store.append_offset() > 2 * 8192
    home.kill()
    assert lane(home.store.recovered(), "orders").tail == 25


def test_a_segment_that_was_made_ahead_goes_with_a_clean_stop() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 25, 200)
    home.stop()
    assert home.files.paths(".prepared") == []


def test_no_offset_is_used_twice_although_what_was_written_is_lost() -> None:
    for seed in range(20):
        home = FileHome(seed=seed)
        queue = home.store.open_destination(QUEUE, "orders")
        home.send_durably(queue, 20, 200)
        home.send(queue, 30, 200)  # into the next segment, which a worker has made by now
        home.store.write()
        end = home.store.append_offset()
        assert end > 8192
        home.restart()
        assert home.store.append_offset() >= end


@pytest.mark.parametrize("seed", range(7, 13))
def test_a_start_may_be_stopped_anywhere_and_the_power_cut_after_the_next(seed: int) -> None:
    home = FileHome(files=StoppableFiles(seed))
    queue = home.store.open_destination(QUEUE, "orders")
    home.send_durably(queue, 20, 200)
    home.send(queue, 60, 200)  # over two segments, not synced
    home.store.write()
    files = home.files = home.files.crash()
    assert isinstance(files, StoppableFiles)
    left = disks_left_by(files, home.begin, is_power_cut=False)
    assert len(files.stopped) > 50
    for disk in left:
        home = FileHome(files=disk)
        tail = lane(home.store.recovered(), "orders").tail
        home.send_durably(queue, 3, 200)
        home.restart()
        assert lane(home.store.recovered(), "orders").tail == tail + 3
        assert len(bodies(home, queue, 0, tail + 3)) == tail + 3


def test_a_message_larger_than_a_segment_has_one_of_its_own() -> None:
    home, queue = home_with_queue()
    home.send(queue, 1)
    home.send(queue, 1, 50_000)
    home.send_durably(queue, 1)
    assert len(home.files.paths(".log")) == 3
    home.kill()
    assert [len(body) for body in bodies(home, queue, 0, 3)] == [100, 50_000, 100]


def test_each_segment_opens_with_a_snapshot() -> None:
    home, _ = many_segments()
    for path in home.files.paths(".log"):
        head = layout.RECORD_HEADER.unpack_from(home.files.octets(path), HEADER)
        assert head[2] == layout.SNAPSHOT
        assert head[6] == int(path[-24:-4])


def test_a_store_whose_describing_file_is_lost_keeps_its_name() -> None:
    home = FileHome()
    name = home.store.store_id()
    home.stop()
    home.files.unlink("data/store.json")
    home.begin()
    assert home.store.store_id() == name


def test_a_record_of_the_future_is_refused_also_in_the_tail() -> None:
    home = FileHome()
    home.store.open_destination(QUEUE, "orders")
    home.flush()
    offset = home.store.append_offset()
    home.store.open_consumer(1, {})
    home.store.write()
    octets = home.files.octets(FIRST_SEGMENT)
    start = HEADER + offset
    octets[start + 8] = 77
    (size,) = layout.CRC.unpack_from(octets, start)
    octets[start + 4 : start + 8] = layout.CRC.pack(crc32c(bytes(octets[start + 8 : start + size])))
    home.files = home.files.killed()
    with pytest.raises(StoreCorrupt, match=f"position {start}, log offset {offset}: a record of unknown type 77"):
        home.begin()


def test_a_disk_that_fails_while_opening_is_a_store_error_and_frees_the_lock() -> None:
    home = FileHome()
    home.stop()
    home.files.fail("fsync", 5, "checkpoint")
    with pytest.raises(StoreError, match="Input/output error"):
        home.begin()
    assert not home.files.locks
    home.begin()


def test_a_second_opener_is_refused_and_told_the_holder(tmp_path: Path) -> None:
    def open_store() -> FileStore:
        clock = VirtualClock()
        settings = StoreSettings(segment_bytes=65536)
        return FileStore(str(tmp_path / "data"), RealFiles(), HeldWorkers(), clock, VirtualTimers(clock), settings)

    store = open_store()
    with pytest.raises(StoreLocked, match=rf"is in use by process {RealFiles().process_id()}, which holds .*/lock"):
        open_store()
    store.close()
    open_store().close()


def test_the_checkpoint_says_where_readers_stop() -> None:
    home, _ = many_segments()
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    assert values.durable_offset == home.store.durable_offset()
    assert values.first_offset == 0
    assert values.consume_queue_offset in [int(path[-24:-4]) for path in home.files.paths(".log")]
    assert 0 < values.consume_queue_offset <= values.durable_offset
    assert not values.is_clean
    home.stop()
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    assert values.is_clean
    assert 0 < values.consume_queue_offset < values.durable_offset == home.store.append_offset()
