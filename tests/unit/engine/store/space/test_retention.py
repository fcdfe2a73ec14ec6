"""What may be dropped, and what never."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE
from engine.store.format.file_heads import unpack_checkpoint
from engine.store.settings import StoreSettings
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreError
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_home import UNLIMITED, FileHome, lane

INTERVAL_MS = 1_000
HOUR_MS = 3_600_000


def home_with(time_ms: int = 1 << 50, octets: int = 1 << 50) -> FileHome:
    return FileHome(
        StoreSettings(
            segment_bytes=8192, retention_time_ms=time_ms, retention_bytes=octets, retention_interval_ms=INTERVAL_MS
        )
    )


def queue_with(**options: Any) -> tuple[FileHome, int]:
    """Return such a home and its queue "orders"."""
    home = home_with(**options)
    return home, home.store.open_destination(QUEUE, "orders")


def fill(home: FileHome, destination: int, count: int = 300) -> None:
    for _ in range(count // 10):
        home.send_durably(destination, 10)


def bases(home: FileHome) -> list[int]:
    return [int(path[-24:-4]) for path in home.files.paths(".log")]


def test_a_segment_that_was_given_up_and_is_there_again_leaves_no_gap() -> None:
    home, queue = queue_with(octets=20_000)
    fill(home, queue)
    first = home.files.paths(".log")[0]
    octets = bytes(home.files.octets(first))
    home.settle_durably(queue, 0, 300)
    home.pass_time(INTERVAL_MS)
    home.files.create(first).pwrite(octets, 0)  # as one that is renamed into its place after that
    assert bases(home)[0] == 0 and bases(home)[1] > 8192
    home.files = home.files.killed()
    found = verify(home.files, "data").findings
    assert not [finding for finding in found if "should follow" in finding.text]
    home.begin()
    assert bases(home)[0] > 8192


def test_consumed_segments_go_when_the_log_is_too_long() -> None:
    home, queue = queue_with(octets=20_000)
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    before = bases(home)
    home.pass_time(INTERVAL_MS)
    end = home.store.append_offset()
    left = bases(home)
    assert left == before[-len(left) :]
    assert left[0] > 0
    assert end - left[0] <= 20_000
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    assert values.first_offset == left[0]
    assert home.file_store._open_files.dropped == set(), "nobody looks for what has gone any more"
    home.restart()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (300, 300)


def test_segments_go_at_once_also_where_the_log_never_stands_still() -> None:
    home = home_with(octets=20_000)
    news = home.store.open_destination(TOPIC, "news")
    fill(home, news)
    for _ in range(INTERVAL_MS // 10 * 2):
        home.send(news, 1)  # not durable before the next one comes
        home.pass_time(10)
        home.flush()
        home.send(news, 1)
    assert home.store.append_offset() - bases(home)[0] <= 20_000 + 2 * 8192


def test_a_segment_goes_when_its_last_record_is_old_enough() -> None:
    home, queue = queue_with(time_ms=HOUR_MS)
    fill(home, queue, 100)
    home.settle_durably(queue, 0, 100)
    home.pass_time(HOUR_MS // 2)
    assert bases(home)[0] == 0
    home.store.set_time(home.clock.wall_ms())
    fill(home, queue, 100)
    home.settle_durably(queue, 100, 100)
    kept = bases(home)
    home.pass_time(HOUR_MS // 2 + 2 * INTERVAL_MS)
    left = bases(home)
    assert 0 < left[0] <= 16384
    assert left == kept[-len(left) :]


def test_one_live_message_keeps_its_segment_and_all_after_it() -> None:
    home, queue = queue_with(octets=0)
    fill(home, queue)
    home.settle(queue, 0, 120)
    home.settle_durably(queue, 121, 179)
    home.pass_time(INTERVAL_MS)
    left = bases(home)
    assert left[0] > 0
    (alive,) = home.page(queue, 4, 120, 1).messages
    assert left[0] <= alive.log_offset < left[1]
    home.pass_time(5 * INTERVAL_MS)
    assert bases(home) == left
    home.settle_durably(queue, 120, 1)
    home.pass_time(INTERVAL_MS)
    assert len(bases(home)) == 1


def test_a_live_message_of_another_queue_counts_as_well() -> None:
    home, queue = queue_with(octets=0)
    other = home.store.open_destination(QUEUE, "bills")
    home.send(other, 1)
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    home.pass_time(INTERVAL_MS)
    assert bases(home)[0] == 0
    home.settle_durably(other, 0, 1)
    home.pass_time(INTERVAL_MS)
    assert len(bases(home)) == 1


def test_messages_of_topics_keep_nothing() -> None:
    home = home_with(octets=0)
    topic = home.store.open_destination(TOPIC, "news")
    fill(home, topic)
    home.pass_time(INTERVAL_MS)
    assert len(bases(home)) == 1


def test_a_settlement_that_is_not_durable_frees_nothing() -> None:
    home, queue = queue_with(octets=0)
    fill(home, queue)
    home.settle(queue, 0, 300)
    home.store.write()
    home.timers.advance(INTERVAL_MS)
    for job_lane in (FILE_LANE, READ_LANE, FILE_LANE):
        home.workers.run_all(job_lane)
    assert bases(home)[0] == 0
    home.restart()
    found = lane(home.store.recovered(), "orders")
    settled = set(range(found.cursor))
    assert settled in (set(), set(range(300)))
    if not settled:
        assert len(home.page(queue, 4, 0, 300).messages) > 0


def test_the_segment_that_recovery_starts_at_stays() -> None:
    home, queue = queue_with(octets=0)
    home.send(queue, 300)
    home.settle(queue, 0, 300)
    home.store.write()
    home.store.sync()
    home.workers.run_all(SYNC_LANE)  # the consume queues are not on the disk yet
    home.timers.advance(INTERVAL_MS)
    assert bases(home)[0] == 0
    home.workers.run_all()
    home.pass_time(INTERVAL_MS)
    assert len(bases(home)) == 1


def test_a_continuation_goes_with_its_predecessor() -> None:
    home, queue = queue_with(octets=0)
    home.send_durably(queue, 5)
    home.send(queue, 5)
    home.files.fail("fdatasync", errno.EIO)
    home.flush()
    home.pass_time(600)
    fill(home, queue, 290)
    home.settle_durably(queue, 0, 299)
    assert len(bases(home)) > 3
    home.pass_time(2 * INTERVAL_MS)
    left = bases(home)
    assert left[0] >= 8192
    home.restart()
    assert lane(home.store.recovered(), "orders").tail == 300


def test_a_page_of_what_is_dropped_meanwhile_leaves_it_out() -> None:
    home, queue = queue_with(octets=0)
    fill(home, queue)
    home.settle_durably(queue, 0, 299)
    home.store.request(queue, 4, 0, 300, UNLIMITED)
    home.timers.advance(INTERVAL_MS)
    home.workers.run_all(FILE_LANE)
    assert bases(home)[0] > 0
    home.workers.run_all(READ_LANE)
    first = 0
    got: list[int] = []
    while True:
        page = home.listener.pages.pop()
        got += [each.queue_offset for each in page.messages]
        assert page.next_offset > first
        first = page.next_offset
        if first == 300:
            break
        page = home.page(queue, 4, first, 300)
        home.listener.pages.append(page)
    assert got[-1] == 299
    assert home.listener.page_failures == []


@pytest.mark.damages_store("a segment is gone or spoilt")
def test_a_segment_that_somebody_else_removed_is_a_failure_not_a_gap() -> None:
    home, queue = queue_with()
    fill(home, queue)
    home.files.unlink("data/commitlog/00000000000000000000.log")
    home.store.request(queue, 4, 0, 10, UNLIMITED)
    home.workers.run_all()
    assert len(home.listener.page_failures) == 1


def test_a_failed_removal_is_tried_again_at_the_next_start() -> None:
    home, queue = queue_with(octets=0)
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    home.files.fail("unlink", errno.EIO, ".log", count=1)
    home.pass_time(INTERVAL_MS)
    assert bases(home)[0] == 0
    assert home.listener.failures == []
    home.stop()
    home.begin()
    assert bases(home)[0] > 0


@pytest.mark.parametrize(("operation", "path"), [("fsync", "checkpoint"), ("unlink", ".log")])
def test_what_a_failed_removal_has_left_goes_before_the_next_segment(operation: str, path: str) -> None:
    home, queue = queue_with(octets=20_000)
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    before = bases(home)
    home.files.fail(operation, errno.EIO, path)
    home.pass_time(INTERVAL_MS)
    assert bases(home) == before
    assert home.store.retention_reason()
    home.pass_time(INTERVAL_MS)
    assert home.store.retention_reason() == ""
    assert bases(home) == before[-len(bases(home)) :]


@pytest.mark.damages_store("a segment is gone or spoilt")
def test_a_snapshot_that_cannot_be_read_keeps_everything() -> None:
    home, queue = queue_with(octets=0)
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    home.files.octets("data/commitlog/00000000000000008192.log")[4096 + 60] ^= 1
    home.pass_time(3 * INTERVAL_MS)
    assert bases(home)[0] == 0


@pytest.mark.parametrize("is_clean", [True, False])
def test_dropped_entries_stay_dropped_after_a_rebuild(is_clean: bool) -> None:
    home, queue = queue_with(octets=20_000)
    fill(home, queue)
    home.settle_durably(queue, 0, 290)
    home.pass_time(INTERVAL_MS)
    if is_clean:
        home.stop()
    for path in home.files.paths(".cq"):
        home.files.unlink(path)
    home.kill()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (300, 290)
    assert [each.queue_offset for each in home.page(queue, 4, 290, 10).messages] == list(range(290, 300))
    got = []
    first = 0
    while first < 300:
        page = home.page(queue, 4, first, 300)
        got += [each.queue_offset for each in page.messages]
        first = page.next_offset
    assert got == list(range(got[0], 300))
    assert got[0] > 0


def test_a_durable_subscription_keeps_what_it_has_not_settled() -> None:
    home = home_with(octets=20_000)
    topic = home.store.open_destination(TOPIC, "news")
    number = home.store.open_subscription(topic, "mail", {})
    fill(home, topic)
    home.pass_time(INTERVAL_MS)
    assert bases(home)[0] == 0
    home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 100, 0, 0, [1] * 100)])
    home.flush()
    home.pass_time(INTERVAL_MS)
    assert bases(home)[0] > 0
    home.restart()
    (state,) = [each for each in home.store.recovered() if each.destination_id == number]
    assert (state.lanes[0].cursor, state.lanes[0].tail) == (100, 300)
    page = home.page(topic, 4, 100, 10)
    assert [each.queue_offset for each in page.messages] == list(range(100, 110))
    home.store.close_destination(number)
    home.flush()
    home.pass_time(INTERVAL_MS)
    assert home.store.append_offset() - bases(home)[0] <= 20_000


def test_a_retroactive_subscription_begins_where_the_log_does() -> None:
    home = home_with(octets=20_000)
    topic = home.store.open_destination(TOPIC, "news")
    fill(home, topic)
    home.pass_time(INTERVAL_MS)
    assert bases(home)[0] > 0
    home.restart()
    number = home.store.open_subscription(topic, "mail", {}, {4: 0})
    first = home.store.state_of(number).lanes[0].cursor
    assert 0 < first < 300
    home.flush()
    page = home.page(topic, 4, 0, 300)
    assert [each.queue_offset for each in page.messages] == list(range(first, 300))
    sizes = [each.size for each in page.messages]
    home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, first, 300 - first, 0, 0, sizes)])
    assert home.store.state_of(number).lanes[0].cursor == 300
    home.stop()
    assert verify(home.files, "data").findings == []


def test_a_retroactive_subscription_when_the_disk_does_not_answer() -> None:
    home = home_with(octets=20_000)
    topic = home.store.open_destination(TOPIC, "news")
    fill(home, topic)
    home.pass_time(INTERVAL_MS)
    home.files.fail("pread", errno.EIO, ".log")
    with pytest.raises(StoreError, match="Input/output error"):
        home.store.open_subscription(topic, "mail", {}, {4: 0})
    assert home.store.state_of(home.store.open_subscription(topic, "mail", {})).lanes[0].cursor == 300


def test_a_late_subscription_does_not_keep_what_came_before_it() -> None:
    home = home_with(octets=20_000)
    topic = home.store.open_destination(TOPIC, "news")
    fill(home, topic)
    home.store.open_subscription(topic, "mail", {})
    home.flush()
    home.pass_time(INTERVAL_MS)
    assert home.store.append_offset() - bases(home)[0] <= 20_000


def test_a_closed_queue_keeps_nothing_and_its_files_go_with_its_segments() -> None:
    home, queue = queue_with(octets=20_000)
    other = home.store.open_destination(QUEUE, "bills")
    fill(home, queue)
    home.store.close_destination(queue)
    home.reopen()
    assert f"data/consumequeue/{queue}/4/{0:020d}.cq" in home.files.paths(".cq"), "readers of the log may still ask"
    for turn in range(4):
        fill(home, other, 100)
        home.settle_durably(other, turn * 100, 100)
        home.pass_time(INTERVAL_MS)
    assert home.store.append_offset() - bases(home)[0] <= 20_000
    assert home.files.list_directory("data/consumequeue") == ["0", str(other)]


def test_a_power_cut_after_a_removal_leaves_a_checkpoint_that_knows_of_it() -> None:
    # Several: which unsynced writes survive is the disk's choice.
    for seed in range(10):
        home = FileHome(StoreSettings(segment_bytes=8192, retention_bytes=0, retention_interval_ms=INTERVAL_MS), seed)
        queue = home.store.open_destination(QUEUE, "orders")
        fill(home, queue)
        home.settle_durably(queue, 0, 300)
        home.pass_time(INTERVAL_MS)
        (only,) = bases(home)
        home.crash()
        values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
        assert values is not None
        assert values.first_offset == only > 0
