"""How entries get to the disk, beside everything else that the same worker does."""

from __future__ import annotations

from engine.ports.workers import FILE_LANE, SYNC_LANE
from engine.store.format.file_heads import unpack_checkpoint
from engine.store.log.log_files import PrepareJob
from engine.store.queues.consume_queue_files import BLOCKS_TOGETHER
from engine.store.queues.queue_flush import TOGETHER, StoreEntriesJob
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from tests.support.store.store_home import FileHome, home_with_queue, message

QUEUE_COUNT = 2 * BLOCKS_TOGETHER + 40
ONE_BY_ONE = 1_000_000  # files from which on they are synced at once


def many_queues(whole_sync_files: int = ONE_BY_ONE) -> tuple[FileHome, list[int]]:
    """A message in each of many queues, and a log that has just rolled; no file of an entry has been written."""
    home = FileHome(StoreSettings(segment_bytes=1 << 18, whole_sync_files=whole_sync_files))
    queues = [home.store.open_destination(QUEUE, f"orders.{number}") for number in range(QUEUE_COUNT)]
    for queue in queues:
        home.store.append(message(queue))
    home.store.append(message(queues[0], bytes(1 << 17)))
    home.store.append(message(queues[0], bytes(1 << 17)))
    home.store.write()
    home.store.sync()
    home.workers.run_all(SYNC_LANE)
    assert len(home.files.paths(".log")) == 2
    assert home.files.paths(".cq") == []
    return home, queues


def jobs_of_entries(home: FileHome) -> int:
    """Let workers do all that is left; return how many of the jobs stored entries."""
    count = 0
    while home.workers.jobs:
        count += isinstance(home.workers.jobs[0][0], StoreEntriesJob)
        home.workers.run_one()
    return count


def consume_queue_offset(home: FileHome) -> int:
    values = unpack_checkpoint(bytes(home.files.octets("data/checkpoint")), "")
    assert values is not None
    return values.consume_queue_offset


def test_a_segment_made_ahead_does_not_wait_for_the_entries_of_all_queues() -> None:
    home, queues = many_queues()
    home.store.append(message(queues[0], bytes(100_000)))
    home.store.append(message(queues[0], bytes(100_000)))
    home.store.write()
    kinds: list[type] = []
    while home.workers.jobs:
        kinds.append(type(home.workers.jobs[0][0]))
        before = len(home.files.paths(".cq"))
        home.workers.run_one(FILE_LANE)
        assert len(home.files.paths(".cq")) - before <= BLOCKS_TOGETHER
    assert kinds.count(StoreEntriesJob) == 3
    last = len(kinds) - 1 - kinds[::-1].index(PrepareJob)
    assert last < len(kinds) - 2
    assert len(home.files.paths(".cq")) == QUEUE_COUNT + 1


def test_the_consume_queue_offset_moves_once_all_queues_are_on_the_disk() -> None:
    home, queues = many_queues()
    for _ in range(2):
        home.workers.run_one(FILE_LANE)
        home.store.append(message(queues[0]))
        home.store.write()
        home.store.sync()
        home.workers.run_all(SYNC_LANE)
        assert consume_queue_offset(home) == 0
    home.workers.run_all()
    home.store.append(message(queues[0]))
    home.flush()
    assert consume_queue_offset(home) == 1 << 18


def test_what_was_closed_meanwhile_is_stored_together() -> None:
    home, queue = home_with_queue()
    for _ in range(10):
        home.send(queue, 50)
        home.store.write()
        home.store.sync()
        home.workers.run_all(SYNC_LANE)
    assert len(home.files.paths(".log")) > 10
    assert jobs_of_entries(home) == 2
    for first in range(0, 500, 50):
        assert home.page(queue, 4, first, 50).next_offset > first
    home.restart()
    assert home.file_store.report.rebuilt == ""


def test_when_too_much_waits_nothing_more_is_accepted_until_it_is_on_its_way() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192, waiting_entries_bytes=10_000))
    while home.store.is_accepting():
        home.send(queue, 50)
        home.store.write()
        home.store.sync()
        home.workers.run_all(SYNC_LANE)
        assert home.store.append_offset() < 1 << 20
    (reason,) = home.listener.failures
    assert reason.startswith("data/consumequeue: entries of ")
    assert home.listener.durable_offset == home.store.append_offset()
    home.workers.run_all()
    assert home.store.is_accepting()
    assert home.listener.healed_count == 1


def test_a_stop_stores_no_entries_and_the_next_start_has_them_all() -> None:
    home, queues = many_queues()
    home.file_store.wind_down()
    home.workers.run_one(FILE_LANE)
    home.workers.run_all()
    stored = home.files.paths(".cq")
    assert len(stored) <= BLOCKS_TOGETHER
    home.store.close()
    assert home.files.paths(".cq") == stored
    assert consume_queue_offset(home) == 0
    home.files = home.files.crash()
    home.begin()
    assert home.file_store.report.is_clean
    assert home.file_store.report.rebuilt == ""
    for queue in queues:
        assert len(home.page(queue, 4, 0, 1).messages) == 1


def test_names_are_synced_once() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 100)
    home.files.fail("sync_directory", 5, "consumequeue", count=99)
    home.send_durably(queue, 100)
    assert home.listener.failures == []
    assert jobs_of_entries(home) == 0


def test_files_of_many_queues_are_synced_at_once() -> None:
    home, queues = many_queues(whole_sync_files=QUEUE_COUNT)
    home.files.fail("fsync", 5, "consumequeue", count=ONE_BY_ONE)
    home.files.fail("sync_directory", 5, "consumequeue", count=ONE_BY_ONE)
    home.workers.run_all()
    assert home.listener.failures == []
    home.files.heal()
    home.store.append(message(queues[0]))
    home.flush()
    assert consume_queue_offset(home) == 1 << 18
    home.restart()
    assert home.file_store.report.rebuilt == ""
    assert home.file_store.report.replayed_from == 1 << 18
    for queue in queues:
        assert len(home.page(queue, 4, 0, 1).messages) == 1


def test_after_a_sync_of_everything_that_failed_each_file_is_written_and_synced() -> None:
    home, queues = many_queues(whole_sync_files=1)
    home.files.fail("syncfs", 5, count=ONE_BY_ONE)  # of somebody else's making: it will not end
    home.workers.run_all()
    assert home.listener.failures == ["data/consumequeue: Input/output error"]
    assert consume_queue_offset(home) == 0
    for _ in queues:  # each file whose octets went with that sync is told of once more
        home.pass_time(1000)
    assert home.store.is_accepting()
    home.store.append(message(queues[0]))
    home.flush()
    assert consume_queue_offset(home) == 1 << 18
    home.restart()
    assert home.file_store.report.rebuilt == ""
    for queue in queues:
        assert len(home.page(queue, 4, 0, 1).messages) == 1


def test_entries_are_gathered_and_let_go_over_several_turns() -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 20, whole_sync_files=1))
    queues = [home.store.open_destination(QUEUE, f"orders.{number}") for number in range(2 * TOGETHER + 40)]
    for queue in queues:
        home.store.append(message(queue))
    home.store.append(message(queues[0], bytes(1 << 19)))
    home.store.append(message(queues[0], bytes(1 << 19)))
    home.flush()
    home.store.append(message(queues[0]))
    home.flush()
    assert home.files.paths(".cq") == []
    home.store.append(message(queues[7]))  # its entry of the segment before is not gathered yet
    home.flush()
    home.pass_time(0)
    assert len(home.files.paths(".cq")) == len(queues) + 1
    home.store.append(message(queues[0]))
    home.flush()
    assert consume_queue_offset(home) == 0
    home.pass_time(0)
    home.store.append(message(queues[0]))
    home.flush()
    assert consume_queue_offset(home) == 1 << 20
    for queue in queues:
        assert len(home.page(queue, 4, 0, 1).messages) == 1


def test_the_entries_of_a_queue_that_was_closed_meanwhile_are_stored_for_readers() -> None:
    home, queues = many_queues()
    home.store.close_destination(queues[5])
    home.store.close_destination(queues[6])
    home.workers.run_all()
    assert len(home.files.paths(".cq")) == QUEUE_COUNT + 1
