"""What a reader knows of destinations and durable subscriptions, wherever in the log they are told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.read.catalog import Catalog, read_catalog
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome

INTERVAL_MS = 1_000


def a_home(retention_bytes: int = 1 << 50) -> FileHome:
    return FileHome(
        StoreSettings(segment_bytes=8192, retention_bytes=retention_bytes, retention_interval_ms=INTERVAL_MS)
    )


def fill(home: FileHome, queue: int, count: int) -> None:
    for _ in range(count // 10):
        home.send_durably(queue, 10)


def names(catalog: Catalog) -> list[str]:
    return [info.name for info in catalog.destinations.values()]


def test_records_below_and_above_what_the_system_queue_lists(tmp_path: Path) -> None:
    home = a_home()
    queue = home.store.open_destination(QUEUE, "orders")
    topic = home.store.open_destination(TOPIC, "news")
    gone = home.store.open_destination(QUEUE, "gone")
    home.send(topic, 3)
    early = home.store.open_subscription(topic, "early", {"client_id": "c1"}, {4: 1})
    closed = home.store.open_subscription(topic, "closed", {})
    fill(home, queue, 300)
    home.store.close_destination(closed)
    home.store.close_destination(gone)
    fill(home, queue, 100)
    before = home.store.append_offset()
    late = home.store.open_subscription(topic, "late", {})
    last = home.store.open_destination(QUEUE, "last")
    home.flush()
    reader = copy_to(tmp_path, home.files)
    assert 8192 < reader.entries_offset < before
    catalog = read_catalog(reader)
    assert list(catalog.destinations) == [queue, topic, gone, last]
    assert list(catalog.subscriptions) == [early, late]
    info = catalog.subscriptions[early]
    assert (info.topic_id, info.name, info.description, info.starts) == (topic, "early", {"client_id": "c1"}, {4: 1})
    assert list(read_catalog(reader, before).subscriptions) == [early]
    assert "last" not in names(read_catalog(reader, before))


def test_what_is_older_than_the_log_is_in_its_first_snapshot(tmp_path: Path) -> None:
    home = a_home(20_000)
    queue = home.store.open_destination(QUEUE, "orders")
    topic = home.store.open_destination(TOPIC, "news")
    subscription = home.store.open_subscription(topic, "mail", {})
    closed = home.store.open_destination(QUEUE, "closed")
    fill(home, queue, 200)
    home.store.close_destination(closed)
    fill(home, queue, 100)
    home.settle_durably(queue, 0, 300)
    home.pass_time(INTERVAL_MS)
    reader = copy_to(tmp_path, home.files)
    assert reader.first_offset > 0
    catalog = read_catalog(reader)
    assert names(catalog) == ["orders", "news"], "nothing of the closed one is left"
    assert catalog.subscriptions[subscription].starts == {}


def test_a_closed_topic_closes_its_subscriptions(tmp_path: Path) -> None:
    home = a_home()
    topic = home.store.open_destination(TOPIC, "news")
    home.store.open_subscription(topic, "mail", {})
    home.store.close_destination(topic)
    home.flush()
    assert read_catalog(copy_to(tmp_path, home.files)).subscriptions == {}


@pytest.mark.damages_store("an octet of a record is flipped")
def test_a_damaged_record(tmp_path: Path) -> None:
    home = a_home()
    queue = home.store.open_destination(QUEUE, "orders")
    fill(home, queue, 300)
    octets = home.files.octets("data/commitlog/00000000000000000000.log")
    octets[octets.index(b'"orders"') + 2] ^= 1
    with pytest.raises(StoreCorrupt, match="00000000000000000000.log: record at log offset .* is damaged"):
        read_catalog(copy_to(tmp_path, home.files))
