"""Messages found by id, key and destination in stores that a real store wrote."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.read.found_message import Bounds, Page
from engine.store.read.query import PAGE_BYTES, StoreQuery, UnknownDestination
from engine.store.read.reader import StoreReader
from engine.store.read.records import UnknownMessage
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import RangeGone, StoreCorrupt
from engine.values.message import AMQP_1_0, KEYED, PERSISTENT, PRIORITY_SHIFT, STOMP, Message
from engine.values.message_keys import KeyReader, Keys
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome

INTERVAL_MS = 200


def settings(slots: int = 8, entries: int = 20) -> StoreSettings:
    return StoreSettings(segment_bytes=8192, index_slots=slots, index_entries=entries)


class Shop:
    """A store with a queue ``orders``, a queue ``bills`` and a topic of the same name as the first."""

    def __init__(self, home: FileHome) -> None:
        self.home = home
        self.orders = home.store.open_destination(QUEUE, "orders")
        self.bills = home.store.open_destination(QUEUE, "bills")
        self.news = home.store.open_destination(TOPIC, "orders")
        self.bodies = 0

    def send(
        self, headers: str = "", destination: int = 0, priority: int = 4, size: int = 0, flags: int = 0
    ) -> Message:
        body = b"%d" % self.bodies
        self.bodies += 1
        message = Message(
            destination or self.orders,
            STOMP,
            PERSISTENT | KEYED | flags,
            priority,
            0,
            0,
            0,
            b"",
            headers.encode(),
            body.ljust(size),
        )
        self.home.store.set_time(self.home.clock.wall_ms())
        self.home.store.append(message)
        return message

    def pass_time(self, milliseconds: int = 1_000) -> None:
        self.home.flush()
        self.home.pass_time(milliseconds)

    def query(self, directory: Path, keys: Keys | None = None) -> StoreQuery:
        self.home.flush()
        return StoreQuery(copy_to(directory, self.home.files), keys)


@pytest.fixture(params=["no-index", "indexed"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """Answers must be the same, however much of the log the index covers."""
    return Shop(FileHome(settings(0 if request.param == "no-index" else 8)))


def bodies(page: Page) -> list[int]:
    return [int(message.body) for message in page.messages]


def stopped(shop: Shop) -> None:
    shop.home.flush()
    shop.home.stop()


def test_by_id_is_the_message_itself(shop: Shop, tmp_path: Path) -> None:
    for _ in range(100):
        shop.send(size=200)
    wanted = shop.send("correlation-id:c\\c1\nkeys:k1 k2\nother:x\n", shop.bills, 7)
    with shop.query(tmp_path) as query:
        found = query.by_id(f"ID:{shop.home.store.store_id()}-{wanted.log_offset}")
    assert (found.destination, found.priority, found.queue_offset) == ("queue://bills", 7, 0)
    assert (found.body, found.headers) == (b"100", wanted.headers)
    assert found.keys == ["c:1", "k1", "k2"]
    assert (found.store_time_ms, found.is_persistent) == (wanted.store_time_ms, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID:ffffffff-0", "is not an id of this store"),
        ("ID:host-35263-1795898157933-0:1:2:1:1", "'why message' also finds a message by the id"),
        ("ID:{store}-3-n2", "was not logged"),
        ("ID:{store}-99999999", "not in the store yet"),
        ("ID:{store}-0", "no message is"),
        ("ID:{store}-3", "no message is"),
    ],
)
def test_ids_that_name_nothing_are_refused_with_what_is_there(tmp_path: Path, text: str, expected: str) -> None:
    shop = Shop(FileHome(settings()))
    shop.send()
    with shop.query(tmp_path) as query, pytest.raises(UnknownMessage, match=expected):
        query.by_id(text.replace("{store}", shop.home.store.store_id()))


def test_a_message_that_retention_dropped_is_told_as_gone(tmp_path: Path) -> None:
    shop = Shop(FileHome(replace(settings(), retention_bytes=0, retention_interval_ms=100)))
    first = shop.send("keys:old\n", size=100)
    for _ in range(200):
        shop.send("keys:new\n", size=100)
    shop.home.store.settle(shop.orders, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 201, 0, 0)])
    shop.pass_time(5_000)
    for _ in range(30):
        shop.send("keys:new\n", size=100)
    shop.pass_time()
    with shop.query(tmp_path) as query:
        with pytest.raises(RangeGone, match="retention has dropped it"):
            query.by_id(f"ID:{shop.home.store.store_id()}-{first.log_offset}")
        assert query.by_key("old", Bounds()).messages == []
        kept = bodies(query.by_key("new", Bounds(limit=300)))
    assert kept == list(range(230, 230 - len(kept), -1))
    assert 30 < len(kept) < 230
    begins = [int(path.name[:-3]) for path in sorted((tmp_path / "data" / INDEX_DIRECTORY).iterdir())]
    assert begins[1] > first.log_offset + 8192, "index files of what is gone are gone, but for the one at the edge"


def test_by_key_newest_first_with_every_key_of_a_message(shop: Shop, tmp_path: Path) -> None:
    for number in range(60):
        shop.send(f"correlation-id:c{number % 3}\nkeys:even odd{number}\n" if number % 2 else "", size=50)
        if number == 30:
            shop.pass_time()
    with shop.query(tmp_path) as query:
        assert bodies(query.by_key("c0", Bounds())) == [57, 51, 45, 39, 33, 27, 21, 15, 9, 3]
        assert bodies(query.by_key("odd7", Bounds())) == [7]
        assert bodies(query.by_key("even", Bounds(limit=3))) == [59, 57, 55]
        assert query.by_key("c", Bounds()).messages == [], "a key is compared as a whole"


def test_keys_of_one_hash_slot_and_of_one_hash_are_told_apart_by_their_text(tmp_path: Path) -> None:
    shop = Shop(FileHome(settings(slots=1)))
    # One hash, 0x9842b951, for both.
    for key in ("order-1341549", "order-2030973", "other", "order-1341549"):
        shop.send(f"keys:{key}\n")
    stopped(shop)
    with StoreQuery(copy_to(tmp_path, shop.home.files)) as query:
        page = query.by_key("order-1341549", Bounds())
    assert (bodies(page), page.scanned_bytes) == ([3, 0], 0)


def test_pages_follow_each_other_without_a_gap(shop: Shop, tmp_path: Path) -> None:
    for _ in range(50):
        shop.send("keys:k\n", size=60)
        if shop.bodies == 35:
            shop.pass_time()
    seen: list[int] = []
    before = Bounds().before
    with shop.query(tmp_path) as query:
        while before:
            page = query.by_key("k", Bounds(limit=7, before=before))
            seen += bodies(page)
            before = page.next_before
    assert seen == list(range(49, -1, -1))


def test_times_bound_an_answer_inclusively(shop: Shop, tmp_path: Path) -> None:
    for _ in range(10):
        shop.send("keys:k\n", size=600)  # a second and a segment's tenth each
        shop.pass_time()
    bounds = Bounds(START_WALL_MS + 3_000, START_WALL_MS + 6_000)
    with shop.query(tmp_path) as query:
        assert bodies(query.by_key("k", bounds)) == [6, 5, 4, 3]
        assert bodies(query.by_destination("queue://orders", bounds)) == [6, 5, 4, 3]


def test_a_destination_is_searched_in_all_its_lanes(shop: Shop, tmp_path: Path) -> None:
    for number in range(90):
        shop.send("", (shop.orders, shop.bills, shop.news)[number % 3], 4 + number % 2, size=200)
    with shop.query(tmp_path) as query:
        assert bodies(query.by_destination("bills", Bounds(limit=4))) == [88, 85, 82, 79]
        assert bodies(query.by_destination("bills", Bounds(limit=100))) == list(range(88, 0, -3))
        both = bodies(query.by_destination("orders", Bounds(limit=4)))
        assert both == [89, 87, 86, 84], "a bare name is a queue's and a topic's"
        # Entry 3 and 4 of each lane of the topic: bodies 2, 8, 14... have priority 4, bodies 5, 11, 17... priority 5.
        ranged = query.by_destination("topic://orders", Bounds(from_entry=3, to_entry=4))
        assert bodies(ranged) == [29, 26, 23, 20]
        with pytest.raises(UnknownDestination, match="'nobody'"):
            query.by_destination("nobody", Bounds())


@pytest.mark.damages_store("its consume queues are removed")
@pytest.mark.parametrize("gone", ["data/consumequeue/", "data/consumequeue/0/", "data/consumequeue/1/5/"])
def test_queues_that_somebody_removed_are_not_taken_for_empty(shop: Shop, tmp_path: Path, gone: str) -> None:
    for number in range(90):
        shop.send("", (shop.orders, shop.bills)[number % 2], 4 + number % 3, size=200)
    stopped(shop)
    reader = copy_to(tmp_path, shop.home.files)
    assert reader.entries_offset > 0
    shutil.rmtree(tmp_path / gone)
    with StoreQuery(StoreReader(reader.directory)) as query:
        assert bodies(query.by_destination("orders", Bounds(limit=100))) == list(range(88, -1, -2))
        assert bodies(query.by_destination("bills", Bounds(limit=4))) == [89, 87, 85, 83]


def test_pages_of_a_destination_follow_each_other(shop: Shop, tmp_path: Path) -> None:
    for number in range(100):
        shop.send("", priority=4 + number % 3, size=150)
    seen: list[int] = []
    before = Bounds().before
    with shop.query(tmp_path) as query:
        while before:
            page = query.by_destination("orders", Bounds(limit=9, before=before))
            seen += bodies(page)
            before = page.next_before
    assert seen == list(range(99, -1, -1))


def test_all_of_a_destination_in_order(shop: Shop, tmp_path: Path) -> None:
    for number in range(60):
        shop.send("", (shop.orders, shop.bills)[number % 2], size=300)
        shop.pass_time(10)
    with shop.query(tmp_path) as query:
        assert [int(each.body) for each in query.in_order("bills", Bounds())] == list(range(1, 60, 2))
        bounds = Bounds(START_WALL_MS + 200, START_WALL_MS + 400)
        assert [int(each.body) for each in query.in_order("bills", bounds)] == list(range(21, 41, 2))
        assert [int(each.body) for each in query.in_order("bills", Bounds(from_entry=28))] == [57, 59]


def test_a_key_may_be_asked_for_in_one_destination(shop: Shop, tmp_path: Path) -> None:
    for number in range(8):
        shop.send("keys:k\n", (shop.orders, shop.bills)[number % 2])
    with shop.query(tmp_path) as query:
        assert bodies(query.by_key("k", Bounds(), "queue://bills")) == [7, 5, 3, 1]


def test_a_key_in_one_destination_is_found_behind_a_page_of_others(shop: Shop, tmp_path: Path) -> None:
    for number in range(50):
        shop.send("keys:k\n", shop.bills if number in (3, 7) else shop.orders)
        if number == 5:
            shop.pass_time()
    with shop.query(tmp_path) as query:
        assert bodies(query.by_key("k", Bounds(limit=2), "queue://bills")) == [7, 3]


def test_what_the_index_covers_is_not_scanned(tmp_path: Path) -> None:
    shop = Shop(FileHome(settings()))
    for _ in range(100):
        shop.send("keys:k\n", size=100)
    shop.pass_time()
    end = shop.home.store.durable_offset()
    last = shop.send("keys:k\n")
    with shop.query(tmp_path / "running") as query:
        page = query.by_key("k", Bounds(limit=1))
    # Nobody holds the copy, so its growing file is not to be trusted.
    assert bodies(page) == [100]
    assert page.scanned_bytes > shop.home.store.durable_offset() - last.log_offset
    stopped(shop)
    with StoreQuery(copy_to(tmp_path / "stopped", shop.home.files)) as query:
        page = query.by_key("k", Bounds(limit=200))
    assert (len(page.messages), page.scanned_bytes) == (101, 0)
    assert page.until_offset > end


def test_other_encodings_bring_a_reader_of_their_keys(tmp_path: Path) -> None:
    class Words(KeyReader):
        def keys(self, headers: bytes) -> tuple[str, str]:
            return "", headers.decode()

    home = FileHome(settings(0))
    shop = Shop(home)
    home.store.append(Message(shop.orders, AMQP_1_0, PERSISTENT, 4, 0, 0, 0, b"", b"a b", b"1"))
    with shop.query(tmp_path / "with", Keys({AMQP_1_0: Words()})) as query:
        assert bodies(query.by_key("b", Bounds())) == [1]
    with shop.query(tmp_path / "without") as query:
        assert query.by_key("b", Bounds()).messages == []


@pytest.mark.parametrize("limit", [0, 10_001])
def test_limits_of_a_page(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit is {limit}, allowed is 1 to 10000"):
        Bounds(limit=limit)


def test_a_page_ends_once_its_messages_are_large(tmp_path: Path) -> None:
    shop = Shop(FileHome(replace(settings(), segment_bytes=4 * PAGE_BYTES)))
    for _ in range(5):
        shop.send(size=PAGE_BYTES // 2)
    found, before = [], Bounds().before
    with shop.query(tmp_path) as query:
        while before:
            page = query.by_destination("queue://orders", Bounds(before=before))
            before = page.next_before
            found.append(bodies(page))
    assert found == [[4, 3], [2, 1], [0]]


def test_the_priority_that_was_sent_is_known_beside_the_lane(shop: Shop, tmp_path: Path) -> None:
    plain = shop.send("", priority=7)
    unordered = shop.send("", flags=9 + 1 << PRIORITY_SHIFT)
    with shop.query(tmp_path) as query:
        prefix = f"ID:{shop.home.store.store_id()}-"
        found = [query.by_id(f"{prefix}{one.log_offset}") for one in (plain, unordered)]
    assert [(one.priority, one.jms_priority) for one in found] == [(7, 7), (4, 9)]


@pytest.mark.damages_store("octets of a message are changed")
def test_what_is_damaged_is_left_out_and_told(shop: Shop, tmp_path: Path) -> None:
    messages = [shop.send("keys:k\n", size=600) for _ in range(40)]
    stopped(shop)
    directory = copy_to(tmp_path, shop.home.files).directory
    segment = directory / "commitlog/00000000000000000000.log"
    octets = bytearray(segment.read_bytes())
    octets[octets.index(b"3   ")] ^= 1
    segment.write_bytes(octets)
    with StoreQuery(StoreReader(directory)) as query:
        page = query.by_destination("orders", Bounds(limit=100))
        assert (len(page.messages), page.damaged) == (39, [messages[3].log_offset])
        with pytest.raises(StoreCorrupt, match=f"record at log offset {messages[3].log_offset} is damaged"):
            query.by_id(f"ID:{shop.home.store.store_id()}-{messages[3].log_offset}")
    if shop.home.settings.index_slots:
        with StoreQuery(StoreReader(directory)) as query:
            page = query.by_key("k", Bounds(limit=100))
            assert (len(page.messages), page.damaged) == (39, [messages[3].log_offset])
