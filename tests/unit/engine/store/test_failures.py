"""Disks that refuse: nothing is lost, nothing is confirmed too early, and everything heals."""

from __future__ import annotations

import errno

import pytest

from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE
from engine.store.format import layout
from engine.store.format.file_heads import unpack_checkpoint
from engine.store.settings import ASYNC, StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from tests.support.store.store_home import UNLIMITED, FileHome, home_with_queue, lane, message

FIRST_SEGMENT = "data/commitlog/00000000000000000000.log"
RETRY_MS = 500


def bodies(home: FileHome, queue: int, first: int, count: int) -> list[bytes]:
    found: list[bytes] = []
    end = first + count
    while first < end:
        page = home.page(queue, 4, first, end - first)
        found += [each.body for each in page.messages]
        first = page.next_offset
    return found


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_failed_write_is_kept_told_once_and_tried_again(error: int) -> None:
    home, queue = home_with_queue()
    home.flush()
    durable = home.store.durable_offset()
    home.files.fail("pwrite", error, ".log", count=2)
    sent = home.send(queue, 3)
    home.store.write()
    home.store.sync()
    sent += home.send(queue, 2)
    home.store.write()
    assert len(home.listener.failures) == 1
    assert home.listener.failures[0].startswith(f"{FIRST_SEGMENT}: ")
    assert not home.store.is_accepting()
    assert home.store.written_offset() == durable
    home.workers.run_all()
    home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 0
    assert len(home.listener.failures) == 1
    home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    assert home.store.is_accepting()
    assert home.listener.durable_offset == home.store.append_offset()
    home.restart()
    assert bodies(home, queue, 0, 5) == [each.body for each in sent]


def test_short_writes_are_no_failure() -> None:
    home, queue = home_with_queue()
    home.files.short_writes = 3
    sent = home.send(queue, 5)
    home.flush()
    assert home.listener.failures == []
    home.restart()
    assert bodies(home, queue, 0, 5) == [each.body for each in sent]


def test_a_full_disk_stops_where_a_new_segment_is_needed_and_loses_nothing() -> None:
    home, queue = home_with_queue()
    home.files.free_bytes = 0
    sent = home.send(queue, 100)
    home.flush()
    assert home.listener.failures == ["data/commitlog/00000000000000008192.log: No space left on device"]
    assert home.store.written_offset() <= 8192
    for _ in range(3):
        home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 0
    home.files.free_bytes = -1
    home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    assert home.store.durable_offset() == home.store.append_offset()
    assert bodies(home, queue, 0, 100) == [each.body for each in sent]


def test_what_follows_a_retry_goes_to_the_medium_at_once() -> None:
    home, queue = home_with_queue()
    home.flush()
    home.files.fail("pwrite", errno.EIO, ".log")
    home.send(queue, 1)
    home.store.write()
    home.timers.advance(RETRY_MS)
    assert home.store.written_offset() == home.store.append_offset()
    home.send(queue, 1)
    home.store.write()
    assert home.store.written_offset() == home.store.append_offset()
    home.workers.run_one(SYNC_LANE)
    assert home.listener.healed_count == 1


def after_a_failed_sync() -> tuple[FileHome, int, int]:
    """Five durable messages, five whose sync failed."""
    home, queue = home_with_queue()
    home.send_durably(queue, 5)
    durable = home.store.durable_offset()
    home.send(queue, 5)
    home.files.fail("fdatasync", errno.EIO)
    home.flush()
    return home, queue, durable


def test_nothing_of_a_failed_sync_is_durable() -> None:
    home, _, durable = after_a_failed_sync()
    assert home.listener.durable_offset == home.store.durable_offset() == durable
    assert home.listener.failures == [f"{FIRST_SEGMENT}: Input/output error"]
    assert home.listener.healed_count == 0


def test_after_a_failed_sync_the_same_octets_go_into_a_continuation() -> None:
    home, queue, durable = after_a_failed_sync()
    home.send(queue, 1)
    home.store.write()
    home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    assert home.listener.durable_offset == home.store.append_offset()
    continuation = f"data/commitlog/{durable:020d}.log"
    assert home.files.paths(".log") == [FIRST_SEGMENT, continuation]
    _, _, flags, base, capacity, _, _ = layout.SEGMENT_HEADER.unpack_from(home.files.octets(continuation))
    assert (flags, base, base + capacity) == (layout.CONTINUATION, durable, 8192)
    end, _ = layout.SEAL.unpack_from(home.files.octets(FIRST_SEGMENT), layout.SEAL_POSITION)
    assert end == durable
    assert len(bodies(home, queue, 0, 11)) == 11
    # The page cache of the broken file holds octets that never reached the disk: they must not be needed.
    home.restart()
    assert lane(home.store.recovered(), "orders").tail == 11
    assert len(bodies(home, queue, 0, 11)) == 11


def test_a_crash_between_a_failed_sync_and_its_repair_loses_nothing_that_was_confirmed() -> None:
    home, queue, _ = after_a_failed_sync()
    home.restart()
    assert lane(home.store.recovered(), "orders").tail >= 5
    assert len(bodies(home, queue, 0, 5)) == 5


def test_a_continuation_may_fail_too() -> None:
    home, queue, _ = after_a_failed_sync()
    home.files.fail("fdatasync", errno.EIO, count=1)
    home.files.fail("create", errno.ENOSPC, "commitlog", count=1)
    for _ in range(5):
        home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    assert len(home.listener.failures) == 1
    home.send_durably(queue, 2)
    home.send(queue, 2)
    home.files.fail("fdatasync", errno.EIO, count=1)
    home.flush()
    for _ in range(3):
        home.pass_time(RETRY_MS)
    assert len(home.files.paths(".log")) == 3
    assert home.store.durable_offset() == home.store.append_offset()
    home.restart()
    assert len(bodies(home, queue, 0, 14)) == 14


def test_a_failed_first_sync_of_a_segment_replaces_it() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 35)
    assert len(home.files.paths(".log")) == 1
    home.send(queue, 10)
    home.files.fail("fdatasync", errno.EIO, "00008192")
    home.flush()
    home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    assert home.files.paths(".log") == [FIRST_SEGMENT, "data/commitlog/00000000000000008192.log"]
    assert len(bodies(home, queue, 0, 45)) == 45
    home.restart()
    assert len(bodies(home, queue, 0, 45)) == 45


def test_a_failed_sync_of_a_full_segment_leaves_its_successor_alone() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 10)
    durable = home.store.durable_offset()
    home.send(queue, 40)
    home.files.fail("fdatasync", errno.EIO)
    home.flush()
    home.pass_time(RETRY_MS)
    assert home.files.paths(".log") == [
        FIRST_SEGMENT,
        f"data/commitlog/{durable:020d}.log",
        "data/commitlog/00000000000000008192.log",
    ]
    assert home.store.durable_offset() == home.store.append_offset()
    home.restart()
    assert len(bodies(home, queue, 0, 50)) == 50


def test_closing_repairs_what_is_broken() -> None:
    home, queue, _ = after_a_failed_sync()
    home.store.close()
    home.files = home.files.crash()
    home.begin()
    assert home.file_store.report.is_clean
    assert len(bodies(home, queue, 0, 10)) == 10


def test_closing_on_a_disk_that_refuses_is_an_error_and_lets_go() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 5)
    home.send(queue, 1)
    home.files.fail("pwrite", errno.EIO, count=9)
    timers = home.timers.pending()
    with pytest.raises(StoreError, match="are not written"):
        home.store.close()
    assert home.timers.pending() == timers, "the event loop is another thread's while the store closes"
    assert not home.files.locks
    home.files.heal()
    home.begin()
    assert not home.file_store.report.is_clean
    assert lane(home.store.recovered(), "orders").tail == 5


def test_a_job_that_ends_after_closing_changes_nothing() -> None:
    home, queue = home_with_queue()
    home.send(queue, 30, 200)
    home.store.write()
    home.store.sync()
    jobs = list(home.workers.jobs)
    home.store.close()
    before = {path: bytes(home.files.octets(path)) for path in home.files.paths(".cq")}
    for job, job_lane in jobs:
        if job_lane == SYNC_LANE:
            job.finish()
    assert home.listener.durable_offset == 0
    assert before == {path: bytes(home.files.octets(path)) for path in home.files.paths(".cq")}


def test_nothing_is_confirmed_before_the_checkpoint_says_so() -> None:
    home, queue = home_with_queue()
    durable = home.store.durable_offset()
    home.files.fail("pwrite", errno.EIO, "checkpoint", count=2)
    home.send_durably(queue, 1)
    assert home.listener.durable_offset == 0
    assert home.store.durable_offset() == home.store.confirmed_offset() == durable
    assert home.listener.failures == ["data/checkpoint: Input/output error"]
    assert not home.store.is_accepting()
    home.pass_time(RETRY_MS)
    assert home.store.confirmed_offset() == durable
    home.pass_time(RETRY_MS)
    assert home.listener.durable_offset == home.store.confirmed_offset() == home.store.append_offset()
    assert home.listener.healed_count == 1
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    assert values.durable_offset == home.store.durable_offset()


def test_a_later_sync_publishes_what_a_failed_checkpoint_held_back() -> None:
    home, queue = home_with_queue()
    home.files.fail("pwrite", errno.EIO, "checkpoint")
    home.send_durably(queue, 1)
    home.send_durably(queue, 1)
    assert home.listener.durable_offset == home.store.append_offset()
    assert home.listener.healed_count == 1


def test_no_segment_is_dropped_before_the_checkpoint_says_so() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, retention_bytes=0, retention_time_ms=0))
    home.send(queue, 200)
    home.settle_durably(queue, 0, 200)
    home.files.fail("pwrite", errno.EIO, "checkpoint", count=99)
    home.pass_time(home.settings.retention_interval_ms)
    assert FIRST_SEGMENT in home.files.paths(".log")
    home.files.heal()
    home.pass_time(2 * home.settings.retention_interval_ms)
    assert FIRST_SEGMENT not in home.files.paths(".log")


def test_what_was_not_dropped_stays_for_who_asks_for_it_meanwhile() -> None:
    home = FileHome(StoreSettings(segment_bytes=8192, retention_bytes=0, retention_time_ms=0))
    topic = home.store.open_destination(TOPIC, "news")
    home.send_durably(topic, 200)
    home.files.fail("pwrite", errno.EIO, "checkpoint")
    home.pass_time(home.settings.retention_interval_ms)
    assert FIRST_SEGMENT in home.files.paths(".log")
    mail = home.store.open_subscription(topic, "mail", {}, {4: 0})
    home.flush()
    assert home.store.state_of(mail).lanes[0].cursor == 0
    home.pass_time(RETRY_MS)
    home.reopen()
    assert lane(home.store.recovered(), "mail").cursor == 0
    assert FIRST_SEGMENT in home.files.paths(".log")
    assert len(bodies(home, topic, 0, 200)) == 200


def test_consume_queues_that_cannot_be_written_are_tried_again() -> None:
    home, queue = home_with_queue()
    home.files.fail("create", errno.EIO, "consumequeue", count=1)
    home.files.fail("fsync", errno.EIO, "consumequeue", count=1, skip=1)
    sent = home.send(queue, 200)
    home.flush()
    assert home.listener.failures == ["data/consumequeue: Input/output error"]
    assert len(bodies(home, queue, 0, 200)) == 200
    for _ in range(3):
        home.pass_time(RETRY_MS)
    assert home.listener.healed_count == 1
    home.restart()
    assert home.file_store.report.rebuilt == ""
    assert bodies(home, queue, 0, 200) == [each.body for each in sent]


def test_a_segment_that_cannot_be_made_ahead_is_made_when_it_is_needed() -> None:
    home, queue = home_with_queue()
    home.files.fail("preallocate", errno.ENOSPC, ".prepared", count=9)
    sent = home.send(queue, 200)
    home.flush()
    assert home.listener.failures == []
    assert bodies(home, queue, 0, 200) == [each.body for each in sent]


def test_a_worker_that_is_late_with_a_segment_does_not_get_in_the_way() -> None:
    home, queue = home_with_queue()
    home.send(queue, 30)
    home.store.write()
    sent = 30
    for _ in range(4):
        home.send(queue, 30)
        home.store.write()
        home.store.sync()
        home.workers.run_all(SYNC_LANE)
        sent += 30
    home.workers.run_all(FILE_LANE)
    assert home.listener.failures == []
    assert len(home.files.paths(".prepared")) <= 1
    assert len(bodies(home, queue, 0, sent)) == sent
    home.restart()
    assert len(bodies(home, queue, 0, sent)) == sent


def test_a_failed_read_is_the_answer_and_may_be_asked_again() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 5)
    for skip, count in ((0, 1), (1, 2)):  # the head of the segment, the records
        home.files.fail("pread", errno.EIO, ".log", count=count, skip=skip)
        home.store.request(queue, 4, 0, 5, UNLIMITED)
        home.workers.run_all(READ_LANE)
        assert len(home.listener.page_failures) == 1
        assert home.listener.pages == []
        home.listener.page_failures.clear()
    assert len(bodies(home, queue, 0, 5)) == 5


def damaged(home: FileHome, entry: int) -> tuple[int, list[bytes], str]:
    """Send five messages and damage one; return their queue, their bodies and the beginning of the answer."""
    queue = home.store.open_destination(QUEUE, "orders")
    sent = home.send(queue, 5)
    home.flush()
    offset = sent[entry].log_offset
    position = layout.SEGMENT_HEADER_BYTES + offset
    home.files.octets(FIRST_SEGMENT)[position + 90] ^= 1
    reason = f"{FIRST_SEGMENT}, position {position}: the record at log offset {offset} is damaged: its checksum"
    return queue, [each.body for each in sent], reason


@pytest.mark.damages_store("octets of records are flipped")
def test_what_is_sound_before_a_damaged_record_is_delivered_then_the_damage_is_told() -> None:
    home = FileHome()
    queue, sent, reason = damaged(home, 3)
    page = home.page(queue, 4, 0, 5)
    assert [each.body for each in page.messages] == sent[:3]
    assert page.next_offset == 3
    home.store.request(queue, 4, 3, 2, UNLIMITED)
    home.workers.run_all(READ_LANE)
    (told,) = home.listener.page_failures
    assert told.startswith(reason)
    assert home.listener.pages == []
    home.listener.page_failures.clear()
    assert [each.body for each in home.page(queue, 4, 4, 1).messages] == sent[4:]


@pytest.mark.damages_store("octets of records are flipped")
def test_damaged_records_are_left_out_and_told_if_asked_for() -> None:
    home = FileHome()
    home.stop()
    home.is_skipping = True
    home.begin()
    queue, sent, reason = damaged(home, 3)
    home.page(queue, 4, 2, 2)
    page = home.page(queue, 4, 0, 5)
    assert [each.body for each in page.messages] == [*sent[:3], sent[4]]
    assert page.next_offset == 5
    (lost,) = home.file_store.report.skipped
    assert (lost.path, lost.reason) == (FIRST_SEGMENT, "entry 3: its checksum does not match")
    ((entry, told),) = home.listener.skipped
    assert entry == 3
    assert told.startswith(reason)


@pytest.mark.damages_store("octets of records are flipped")
def test_each_reader_is_told_of_a_damaged_record_and_the_queue_itself_once() -> None:
    home = FileHome()
    home.stop()
    home.is_skipping = True
    home.begin()
    queue, sent, _ = damaged(home, 3)
    for reader in (5, 0, 5, 0):
        home.store.request(queue, 4, 0, 5, UNLIMITED, reader)
    home.workers.run_all()
    assert [entry for entry, _ in home.listener.skipped] == [3, 3, 3]
    assert home.listener.skipped_readers == [5, 0, 5]
    assert home.listener.skipped_sizes == [message(queue, sent[3]).size] * 3


def test_an_entry_that_leads_past_its_segment_is_damage() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 200)
    octets = home.files.octets(f"data/consumequeue/{queue}/4/{0:020d}.cq")
    octets[2 * layout.ENTRY_BYTES + 11] = 0x7F  # the highest octet of the size
    assert len(home.page(queue, 4, 0, 10).messages) == 2
    home.store.request(queue, 4, 2, 1, UNLIMITED)
    home.workers.run_all(READ_LANE)
    (reason,) = home.listener.page_failures
    assert "past the end of its segment" in reason


def test_what_can_be_read_does_not_wait_for_a_place_that_cannot() -> None:
    home, queue = home_with_queue()
    sent = home.send(queue, 5)
    home.flush()
    home.files.fail("pread", errno.EIO, ".log", count=1, skip=1)  # of all five together, behind the segment's head
    home.files.fail("pread", errno.EIO, ".log", count=9, skip=3)  # of the third and what follows
    page = home.page(queue, 4, 0, 5)
    assert [each.body for each in page.messages] == [each.body for each in sent[:2]]
    home.store.request(queue, 4, page.next_offset, 3, UNLIMITED)
    home.workers.run_all(READ_LANE)
    assert home.listener.page_failures == [f"a file of the store: {OSError(errno.EIO, 'Input/output error').strerror}"]


def test_async_confirms_what_is_written_and_syncs_at_an_interval() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, flush=ASYNC, flush_interval_ms=100))
    durable = home.store.durable_offset()
    home.send(queue, 3)
    home.store.write()
    assert home.listener.durable_offset == home.store.confirmed_offset() == home.store.append_offset()
    home.store.sync()
    assert not home.workers.jobs
    assert home.store.durable_offset() == durable
    home.pass_time(99)
    assert home.store.durable_offset() == durable
    home.pass_time(1)
    assert home.store.durable_offset() == home.store.append_offset()
    home.send(queue, 3)
    home.store.write()
    home.pass_time(100)
    assert home.store.durable_offset() == home.store.append_offset()


def test_async_confirms_nothing_that_could_not_be_written() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, flush=ASYNC))
    home.store.write()
    confirmed = home.store.confirmed_offset()
    home.files.fail("pwrite", errno.EIO, ".log")
    home.send(queue, 3)
    home.store.write()
    assert home.listener.durable_offset == home.store.confirmed_offset() == confirmed
    home.pass_time(RETRY_MS)
    assert home.listener.durable_offset == home.store.confirmed_offset() == home.store.append_offset()
    assert home.listener.healed_count == 1


def test_settlements_go_on_while_the_disk_refuses() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 5)
    home.files.fail("pwrite", errno.EIO, ".log", count=1)
    for entry in range(5):
        home.settle_durably(queue, entry, 1)
    home.pass_time(RETRY_MS)
    home.restart()
    assert lane(home.store.recovered(), "orders").cursor == 5


def test_files_of_full_segments_are_let_go_of() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=4096))
    for _ in range(100):  # one at a time, so that no batch reaches from one segment into the next
        home.send_durably(queue, 1)
    segments = home.file_store._log.files.segments
    assert len(segments) > 5
    assert [segment.file is not None for segment in segments[:-1]] == [False] * (len(segments) - 1)
