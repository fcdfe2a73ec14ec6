"""Large messages are written in pieces, one in each turn; what comes after them in the log waits."""

from __future__ import annotations

import errno

import pytest

from engine.store.settings import ASYNC, StoreSettings
from engine.values.message import Message
from engine.values.pieces import PIECE_BYTES
from tests.support.store.store_home import FileHome, home_with_queue

FIRST_SEGMENT = "data/commitlog/00000000000000000000.log"
RETRY_MS = 1_000
ROOMY = StoreSettings(segment_bytes=16 * PIECE_BYTES)


def begin_writing(pieces: int = 3) -> tuple[FileHome, int, list[Message], int]:
    """Send a message between two small ones; return the home, the queue, all three, and what was durable before."""
    home, queue = home_with_queue(ROOMY)
    home.flush()
    durable = home.store.durable_offset()
    sent = [*home.send(queue, 1), *home.send(queue, 1, pieces * PIECE_BYTES), *home.send(queue, 1)]
    home.store.write()
    return home, queue, sent, durable


def bodies(home: FileHome, queue: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < 3:
        found += [one.body for one in home.page(queue, 4, len(found), 3 - len(found)).messages]
    return found


def test_each_turn_writes_a_piece() -> None:
    home, queue, sent, durable = begin_writing()
    for _ in range(4):
        assert home.store.written_offset() == durable
        home.store.write()  # other turns write nothing beside it
        home.timers.fire_due()
    assert home.store.written_offset() == home.store.append_offset()
    assert bodies(home, queue) == [one.body for one in sent]


def test_more_is_written_if_much_waits() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=128 * PIECE_BYTES))
    home.send(queue, 1, 96 * PIECE_BYTES)
    home.store.write()
    turns = 0
    while home.store.written_offset() < home.store.append_offset():
        home.timers.fire_due()
        turns += 1
    assert turns == 32


def test_nothing_is_confirmed_before_all_of_it_is_durable() -> None:
    home, queue, sent, durable = begin_writing()
    home.store.sync()
    home.workers.run_all()
    assert home.listener.durable_offset <= durable
    home.timers.advance(0)
    home.store.sync()
    home.workers.run_all()
    assert home.listener.durable_offset == home.store.append_offset()
    home.restart()
    assert bodies(home, queue) == [one.body for one in sent]


def test_a_kill_inside_it_cuts_it_off() -> None:
    home, queue, sent, durable = begin_writing()
    home.timers.fire_due()
    home.kill()
    assert home.file_store.report.cut is not None
    assert home.file_store.report.replayed_to >= durable
    home.flush()
    assert [one.body for one in home.page(queue, 4, 0, 3).messages] == [sent[0].body]


def test_a_piece_that_the_disk_refuses_is_written_later() -> None:
    home, queue, sent, durable = begin_writing()
    home.files.fail("pwrite", errno.ENOSPC, ".log", count=1)
    home.timers.fire_due()
    assert home.listener.failures[0].startswith(f"{FIRST_SEGMENT}: ")
    assert home.store.written_offset() == durable
    home.pass_time(RETRY_MS)
    home.pass_time(0)
    assert home.store.is_accepting()
    assert bodies(home, queue) == [one.body for one in sent]


def test_it_is_written_anew_if_its_file_is_replaced() -> None:
    home, queue = home_with_queue(ROOMY)
    home.flush()
    sent = home.send(queue, 1)
    home.files.fail("fdatasync", errno.EIO, ".log", count=1)
    home.store.sync()
    sent += [*home.send(queue, 1, 3 * PIECE_BYTES), *home.send(queue, 1)]
    home.store.write()
    home.timers.fire_due()
    home.workers.run_all()
    home.pass_time(RETRY_MS)
    home.pass_time(0)
    home.flush()
    assert home.store.durable_offset() == home.store.append_offset()
    home.restart()
    assert bodies(home, queue) == [one.body for one in sent]


def test_a_store_that_is_closed_writes_all_of_it() -> None:
    home, queue, sent, _ = begin_writing()
    home.stop()
    home.begin()
    assert bodies(home, queue) == [one.body for one in sent]


def test_an_asynchronous_store_confirms_what_is_written() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=16 * PIECE_BYTES, flush=ASYNC))
    home.send(queue, 1, 3 * PIECE_BYTES)
    home.store.write()
    before = home.listener.durable_offset
    home.timers.advance(0)
    assert before < home.listener.durable_offset == home.store.append_offset()


@pytest.mark.damages_store("it flips a bit of a record")
def test_a_flaw_of_a_large_record_is_found() -> None:
    home, queue, _, _ = begin_writing()
    home.flush()
    home.files.octets(FIRST_SEGMENT)[2 * PIECE_BYTES] ^= 1
    home.store.request(queue, 4, 1, 1, 1 << 40)
    home.workers.run_all()
    assert home.listener.page_failures


@pytest.mark.parametrize("fills_before", [0, 14 * PIECE_BYTES], ids=["in its segment", "in a segment of its own"])
def test_a_large_transaction_is_written_in_pieces(fills_before: int) -> None:
    home, queue = home_with_queue(ROOMY)
    sent = home.send(queue, 1, fills_before)
    home.flush()
    durable = home.store.durable_offset()
    sent += home.send(queue, 1)
    home.store.begin()
    sent += home.send(queue, 6 * 64, PIECE_BYTES // 64)
    home.store.commit()
    sent += home.send(queue, 1)
    home.store.write()
    turns = 1
    while home.store.written_offset() < home.store.append_offset():
        home.timers.fire_due()
        turns += 1
    assert turns == 7
    home.flush()
    assert home.store.durable_offset() > durable
    home.restart()
    found: list[bytes] = []
    while len(found) < len(sent):
        found += [one.body for one in home.page(queue, 4, len(found), len(sent) - len(found)).messages]
    assert found == [one.body for one in sent]


def test_a_kill_inside_a_large_transaction_cuts_off_all_of_it() -> None:
    home, queue = home_with_queue(ROOMY)
    home.flush()
    sent = home.send(queue, 1)
    home.store.begin()
    home.send(queue, 6 * 64, PIECE_BYTES // 64)
    home.store.commit()
    home.store.write()
    home.timers.fire_due()
    home.kill()
    home.flush()
    assert [one.body for one in home.page(queue, 4, 0, 3).messages] == [one.body for one in sent]
