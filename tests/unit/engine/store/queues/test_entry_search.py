"""What the contract does not show of seeking: entries in memory, on their way and in files, and what is gone."""

from __future__ import annotations

import errno

from engine.store.offline import rebuild
from engine.values.destination import QUEUE
from engine.values.message_keys import Keys
from engine.values.stored import SEEK_ENTRY, SEEK_LOG, SEEK_TIME
from tests.support.store.store_home import home_with_queue
from tests.unit.engine.store.space.test_retention import INTERVAL_MS, fill, home_with


def test_each_entry_is_found_wherever_it_is() -> None:
    home, queue = home_with_queue()
    messages = []
    for _ in range(5):
        messages += home.send(queue, 50)
        home.flush()
    messages += home.send(queue, 60)
    home.store.write()  # segments are closed, and their entries not on the disk yet
    for each in messages:
        assert home.seek(queue, SEEK_LOG, each.log_offset) == {4: (each.queue_offset, 0)}
        assert home.seek(queue, SEEK_LOG, each.log_offset - 1) == {4: (each.queue_offset, 0)}
    assert home.seek(queue, SEEK_LOG, messages[-1].log_offset + 1) == {4: (len(messages), 0)}


def test_what_retention_has_dropped_is_told() -> None:
    home = home_with(octets=20_000)
    queue = home.store.open_destination(QUEUE, "orders")
    fill(home, queue)
    home.settle_durably(queue, 0, 300)
    home.pass_time(INTERVAL_MS)
    [(first, kept)] = home.seek(queue, SEEK_TIME, 0).values()
    oldest = home.page(queue, 4, kept, 1).messages[0]
    assert 0 < kept < 300 and oldest.queue_offset == kept
    assert home.page(queue, 4, kept - 1, 1).messages == [], "the one before is gone"
    assert first <= kept
    assert home.seek(queue, SEEK_ENTRY, 5) == {4: (5, kept)}
    assert home.seek(queue, SEEK_LOG, oldest.log_offset) == {4: (kept, kept)}
    home.stop()
    rebuild("data", home.files, home.clock, home.settings, Keys())  # what is gone stands as zeros in its files
    home.begin()
    assert home.seek(queue, SEEK_LOG, oldest.log_offset) == {4: (kept, kept)}


def test_a_disk_that_refuses() -> None:
    home, queue = home_with_queue()
    home.send_durably(queue, 200)
    home.files.fail("pread", errno.EIO, ".cq")
    home.store.seek(queue, SEEK_LOG, 5, 7)
    home.workers.run_all()
    [(reader, reason)] = home.listener.seek_failures
    assert reader == 7 and "Input/output error" in reason
    home.listener.seek_failures.clear()
    assert home.seek(queue, SEEK_LOG, 5) == {4: (0, 0)}
