"""What takes space, and what keeps it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.store.read.reader import StoreReader
from engine.store.settings import StoreSettings
from engine.store.space.disk_usage import Space, space_of
from engine.values.destination import QUEUE, TOPIC
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome, message


def space(home: FileHome, directory: Path) -> Space:
    home.flush()
    home.pass_time(1_000)
    return space_of(copy_to(directory, home.files), True)


def pins(found: Space) -> list[dict[str, int]]:
    return [{pin.owner: pin.messages for pin in segment.pins} for segment in found.segments]


def test_each_segment_tells_who_needs_it(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    orders = home.store.open_destination(QUEUE, "orders")
    bills = home.store.open_destination(QUEUE, "bills")
    home.send(orders, 1, 3_000)
    home.send(bills, 1, 3_000)
    home.send(orders, 4, 3_000)
    found = space(home, tmp_path / "before")
    assert pins(found) == [{"queue://orders": 1, "queue://bills": 1}, {"queue://orders": 2}, {"queue://orders": 2}]
    assert found.segments[0].pins[0].bytes > 3_000
    assert [segment.is_current for segment in found.segments] == [False, False, True]
    home.store.settle(orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 3, 0, 9_000)])
    home.store.settle(bills, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 1, 0, 3_000)])
    found = space(home, tmp_path / "after")
    assert pins(found) == [{}, {}, {"queue://orders": 2}]
    assert found.log_disk_bytes == sum(segment.disk_bytes for segment in found.segments) > 0


def test_the_store_knows_the_size_of_its_log_files(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    orders = home.store.open_destination(QUEUE, "orders")
    home.send(orders, 1, 3_000)
    few = home.store.log_disk_bytes()
    home.send(orders, 6, 3_000)
    home.flush()
    many = home.store.log_disk_bytes()
    copy_to(tmp_path, home.files)
    assert many == sum(path.stat().st_size for path in tmp_path.rglob("commitlog/*.log")) > few > 0


@pytest.mark.damages_store("its consume queues are removed")
def test_removed_consume_queues_do_not_make_messages_needless(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    home.send(home.store.open_destination(QUEUE, "orders"), 5, 3_000)
    found = space(home, tmp_path)
    shutil.rmtree(tmp_path / "data/consumequeue")
    assert pins(space_of(StoreReader(tmp_path / "data"), True)) == pins(found)


def test_a_durable_subscription_pins_what_it_has_not_settled(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    news = home.store.open_destination(TOPIC, "news")
    home.send(news, 1, 3_000)
    mail = home.store.open_subscription(news, "mail", {"client_id": "m"})
    home.store.open_subscription(news, "archive", {"client_id": "a"})
    home.send(news, 3, 3_000)
    home.store.settle(mail, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 1, 2, 0, 0, [3_000, 3_000])])
    owners = [sorted(each) for each in pins(space(home, tmp_path))]
    assert owners == [["topic://news for archive"], ["topic://news for archive", "topic://news for mail"]]


def test_so_does_one_that_looks_back(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    news = home.store.open_destination(TOPIC, "news")
    home.send(news, 3, 3_000)
    late = home.store.open_subscription(news, "late", {"client_id": "l"}, {4: 1})
    home.store.settle(late, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 1, 1, 0, 0, [3_000])])
    owners = [sorted(each) for each in pins(space(home, tmp_path))]
    assert owners == [[], ["topic://news for late"]]


def test_without_why_nothing_is_gone_through(tmp_path: Path) -> None:
    home = FileHome()
    home.store.append(message(home.store.open_destination(QUEUE, "orders")))
    home.flush()
    found = space_of(copy_to(tmp_path, home.files), False)
    assert (found.told_why, pins(found)) == (False, [{}])
