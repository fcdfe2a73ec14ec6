"""Freeing what a closed subscription alone kept live, where its entries are on the disk."""

from __future__ import annotations

import errno

from engine.ports.workers import READ_LANE
from engine.store.queues.subscription_release import ENTRIES_AT_ONCE
from engine.store.settings import StoreSettings
from engine.values.destination import TOPIC
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_home import FileHome, message

SIZE = message(1, b"x").size
COUNT = 2 * ENTRIES_AT_ONCE + 10


def live_bytes(home: FileHome, topic: int) -> int:
    return home.store.state_of(topic).live_bytes


def two_subscriptions(home: FileHome) -> tuple[int, int, int]:
    """Return a topic, a subscription that has settled nothing, and one that has settled all but the last."""
    topic = home.store.open_destination(TOPIC, "news")
    slow = home.store.open_subscription(topic, "slow", {})
    fast = home.store.open_subscription(topic, "fast", {})
    for number in range(COUNT):
        home.store.append(message(topic, b"x"))
        if number % 1000 == 0:
            home.flush()
    ranges = [Range(4, 0, COUNT - 1, 0, 0, [SIZE] * (COUNT - 1))]
    home.store.settle(fast, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
    home.flush()
    return topic, slow, fast


def test_it_goes_step_by_step_and_over_a_crash() -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 18))
    topic, slow, _ = two_subscriptions(home)
    home.store.close_destination(slow)
    home.workers.run_one(READ_LANE)
    assert live_bytes(home, topic) == (COUNT - ENTRIES_AT_ONCE) * SIZE
    home.store.write()
    home.store.sync()
    home.workers.run_one(0)
    home.files = home.files.killed()
    home.begin()
    (found,) = [each for each in home.store.recovered() if each.destination_id == topic]
    assert found.live_bytes == (COUNT - ENTRIES_AT_ONCE) * SIZE
    assert slow not in [each.destination_id for each in home.store.recovered()]
    home.workers.run_all()
    assert live_bytes(home, topic) == SIZE
    home.reopen()
    assert READ_LANE not in [lane for _, lane in home.workers.jobs], "nothing is left to be gone through"


def test_it_waits_for_a_disk_that_does_not_answer() -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 18, retry_interval_ms=50))
    topic, slow, _ = two_subscriptions(home)
    home.files.fail("pread", errno.EIO, ".cq")
    home.store.close_destination(slow)
    home.workers.run_all()
    assert live_bytes(home, topic) == COUNT * SIZE
    assert "Input/output error" in home.store.retention_reason()
    home.pass_time(60)
    assert live_bytes(home, topic) == SIZE
    assert home.store.retention_reason() == ""


def test_closing_the_last_one_meanwhile() -> None:
    home = FileHome(StoreSettings(segment_bytes=1 << 18))
    topic, slow, fast = two_subscriptions(home)
    home.store.close_destination(slow)
    home.store.close_destination(fast)
    home.workers.run_all()
    assert live_bytes(home, topic) == 0
