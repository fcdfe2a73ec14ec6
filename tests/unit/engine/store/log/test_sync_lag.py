"""A disk that takes long to sync: what is not durable stays in memory, so there is a most of it."""

from __future__ import annotations

import errno
from typing import Final

from engine.store.settings import ASYNC, StoreSettings
from tests.support.store.store_home import FileHome, home_with_queue

MOST_BYTES: Final = 8192
MORE: Final = 50  # messages that together are more than that, and not twice that
SLOW: Final = StoreSettings(segment_bytes=65_536, unsynced_bytes=MOST_BYTES)
LONG_MS: Final = 10 * SLOW.retry_interval_ms


def with_a_sync_under_way(count: int = MORE) -> tuple[FileHome, int]:
    home, queue = home_with_queue(SLOW)
    home.flush()
    home.send(queue, count)
    home.store.sync()
    return home, queue


def test_producers_wait_while_a_sync_does_not_come_to_its_end() -> None:
    home, queue = with_a_sync_under_way()
    assert home.store.is_accepting(), "a sync takes its time"
    home.timers.advance(LONG_MS)
    assert not home.store.is_accepting()
    assert len(home.listener.failures) == 1
    assert "has not synced" in home.listener.failures[0]
    home.workers.run_all()
    assert home.store.is_accepting()
    assert home.listener.healed_count == 1
    assert home.listener.durable_offset == home.store.append_offset()
    home.send_durably(queue, 1)
    home.timers.advance(LONG_MS)
    assert len(home.listener.failures) == 1


def test_twice_as_much_is_enough_at_once() -> None:
    home, queue = with_a_sync_under_way()
    assert home.store.is_accepting()
    home.send(queue, MORE)
    home.store.write()
    assert not home.store.is_accepting()
    home.pass_by(LONG_MS)
    assert home.store.is_accepting()
    assert home.listener.durable_offset == home.store.append_offset()


def test_what_came_behind_a_long_sync_is_synced_before_producers_go_on() -> None:
    home, queue = with_a_sync_under_way()
    home.send(queue, MORE)
    home.store.write()
    home.timers.advance(LONG_MS)
    assert not home.store.is_accepting()
    home.workers.run_all()
    assert home.store.is_accepting()
    assert home.listener.durable_offset == home.store.append_offset()


def test_producers_go_on_once_a_checkpoint_that_was_refused_tells_of_it() -> None:
    home, _ = with_a_sync_under_way()
    home.timers.advance(LONG_MS)
    home.files.fail("pwrite", errno.EIO, "checkpoint", count=2)
    home.workers.run_all()
    assert not home.store.is_accepting()
    home.pass_by(LONG_MS)
    assert home.store.is_accepting()
    assert home.listener.durable_offset == home.store.append_offset()


def test_a_little_may_wait_for_however_long() -> None:
    home, _ = with_a_sync_under_way(10)
    home.timers.advance(100 * LONG_MS)
    assert home.store.is_accepting()
    assert home.listener.failures == []


def test_an_asynchronous_sync_does_not_wait_for_its_interval_then() -> None:
    settings = StoreSettings(segment_bytes=65_536, unsynced_bytes=MOST_BYTES, flush=ASYNC, flush_interval_ms=3_600_000)
    home, queue = home_with_queue(settings)
    home.send(queue, 10)
    home.store.sync()
    home.pass_by(LONG_MS)
    assert home.store.durable_offset() < home.store.append_offset()
    home.send(queue, MORE)
    home.store.sync()
    home.pass_by(LONG_MS)
    assert home.store.durable_offset() == home.store.append_offset()
    assert home.listener.failures == []
