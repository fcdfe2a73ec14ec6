"""Plans and what their partitions read, without Spark: columns, states, ranges."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.store.format import layout
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import RangeGone, StoreCorrupt
from engine.values.message import AMQP_1_0, DEAD_LETTER, PERSISTENT, PRIORITY_SHIFT, TEXT
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE, DEAD_LETTERED, DROPPED, EXPIRED
from engine.values.stored import Range
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS
from spark_bridge.log.heads import ENTRY_COLUMNS
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import Plan, make_plan
from tests.support.store.sample_store import DAY_ONE_MS, SampleStore
from tests.support.store.store_copy import copy_to
from tests.support.store.store_home import FileHome

pytestmark = pytest.mark.damages_store("written by hand, without all that a gateway would write")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    with SampleStore(tmp_path / "data", segment_bytes=8192) as sample:
        yield sample


def plan_of(store: SampleStore, pattern: str = ">", **options: Any) -> Plan:
    return make_plan(StoreReader(store.directory), parse(pattern), **options)


def rows_of(plan: Plan, batch_rows: int = 7) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for pieces in plan.partitions:
        for batch in read_pieces(plan, pieces, batch_rows):
            batch.validate(full=True)
            assert list(batch.schema) == [SCHEMAS[plan.table].field(name) for name in plan.columns]
            assert 0 < len(batch) <= batch_rows
            rows.extend(batch.to_pylist())
    return rows


def test_every_column(store: SampleStore) -> None:
    orders = store.destination("orders.eu")
    store.now_ms = DAY_ONE_MS + 123
    offset = store.send(
        orders,
        "zwölf".encode(),
        b"correlation-id:c\\c1\ntype:order\nreply-to:/queue/answers\nx:1\n",
        flags=PERSISTENT | TEXT,
        priority=9,
        expires_ms=DAY_ONE_MS + 1000,
    )
    store.publish(is_clean=True)
    (row,) = rows_of(plan_of(store))
    taken = datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert row == {
        "destination": "queue://orders.eu",
        "destination_kind": "queue",
        "destination_name": "orders.eu",
        "store": "0badcafe",
        "message_id": f"ID:0badcafe-{offset}",
        "log_offset": offset,
        "queue_offset": 0,
        "lane": 9,
        "store_time": taken,
        "date": date(2023, 11, 14),
        "priority": 9,
        "persistent": True,
        "correlation_id": "c:1",
        "type": "order",
        "reply_to": "/queue/answers",
        "content_type": None,
        "sender_message_id": None,
        "user_id": None,
        "group_id": None,
        "group_sequence": None,
        "sent_time": None,
        "expires": datetime(2023, 11, 14, 22, 13, 21, 0, UTC),
        "headers": [("correlation-id", "c:1"), ("type", "order"), ("reply-to", "/queue/answers"), ("x", "1")],
        "properties": [("x", {"type": "string", "boolean": None, "long": None, "double": None, "string": "1"})],
        "body": None,
        "body_text": "zwölf",
        "delivery_state": "pending",
        "delivery_cause": None,
        "dead_letter": False,
        "subscription_states": None,
    }


def test_columns_of_entries_need_no_record(store: SampleStore) -> None:
    orders, prices = store.destination("orders"), store.destination("prices", TOPIC)
    for number in range(50):
        store.send(orders, b"x" * 300, priority=number % 10)
        store.send(prices, b"x" * 300, expires_ms=DAY_ONE_MS + number)
    store.send(orders, flags=PERSISTENT | DEAD_LETTER)
    store.settle(orders, (0, 2), priority=3)
    store.publish(is_clean=True)
    expected = [{name: row[name] for name in row if name in ENTRY_COLUMNS} for row in rows_of(plan_of(store))]
    plan = plan_of(store)
    for path in (store.directory / "commitlog").iterdir():
        octets = path.read_bytes()
        path.write_bytes(octets[: layout.SEGMENT_HEADER_BYTES].ljust(len(octets), b"\xff"))
    assert rows_of(plan.of_table(MESSAGES, sorted(ENTRY_COLUMNS))) == expected
    assert len(expected) == 101
    with pytest.raises(StoreCorrupt):
        rows_of(plan.of_table(MESSAGES, ["priority"]))


def test_the_rarer_values(store: SampleStore) -> None:
    queue = store.destination("q")
    topic = store.destination("t", TOPIC)
    store.send(topic, b"\xff\xfe", flags=TEXT)
    store.send(queue, b"x", b"a:1\n", b"why:dead\na:2\n", flags=DEAD_LETTER | PERSISTENT)
    store.send(queue, b"x", b"\x00\x53not lines", b"why:amqp\n", encoding=AMQP_1_0, expires_ms=1 << 60)
    store.publish(is_clean=True)
    published, dead, foreign = rows_of(plan_of(store))
    assert published["delivery_state"] == "published"
    assert published["destination"] == "topic://t"
    assert (published["body"], published["body_text"]) == (b"\xff\xfe", None)
    assert published["persistent"] is False
    assert dead["dead_letter"] is True
    assert dead["headers"] == [("why", "dead"), ("a", "2")]  # what the gateway added wins
    assert foreign["headers"] == [("why", "amqp"), ("content-type", "application/vnd.amqp-1.0")]
    assert foreign["body"] == b"\x00\x53not linesx"  # malformed, so as it came
    assert foreign["expires"].year == 9999


def test_priority_is_the_sent_one_where_an_address_has_one_lane(store: SampleStore) -> None:
    queue = store.destination("q")
    for sent in (0, 9):
        store.send(queue, b"x", flags=PERSISTENT | (sent + 1) << PRIORITY_SHIFT, priority=4)
    store.send(queue, b"x", priority=7)
    store.publish()
    assert [row["priority"] for row in rows_of(plan_of(store))] == [0, 9, 7]


def test_protocols_in_one_batch(store: SampleStore) -> None:
    queue = store.destination("q")
    text = b"\x00\x53\x77\xa1\x02hi"
    for number in range(20):
        if number % 3:
            store.send(queue, b"hi", b"n:%d\n" % number, flags=PERSISTENT | TEXT)
        else:
            properties = b"\x00\x53\x74\xc1\x07\x02\xa1\x01n\xa1\x01%c" % (65 + number)
            store.send(queue, text, properties, b"by:broker\n", encoding=AMQP_1_0)
    store.publish()
    rows = rows_of(plan_of(store), batch_rows=64)
    assert [row["body_text"] for row in rows] == ["hi"] * 20
    for number, row in enumerate(rows):
        expected = [("n", str(number))] if number % 3 else [("by", "broker"), ("n", chr(65 + number))]
        assert row["headers"] == expected


def test_columns_of_single_headers(store: SampleStore) -> None:
    queue = store.destination("q")
    store.send(
        queue,
        b"{}",
        b"content-type:application/json\namqp-message-id:ID\\c7\nJMSXUserID:ann\n"
        b"JMSXGroupID:g\nJMSXGroupSeq:3\ntimestamp:1700000000123\n",
        priority=7,
    )
    store.send(queue, b"", b"JMSXGroupSeq:third\ntimestamp:0\n")
    store.send(queue, b"", b"JMSXGroupSeq:123456789012345\ntimestamp:-1\n")
    store.publish()
    rows = rows_of(plan_of(store))
    names = ("content_type", "sender_message_id", "user_id", "group_id", "group_sequence", "sent_time", "lane")
    sent_time = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)
    assert [rows[0][name] for name in names] == ["application/json", "ID:7", "ann", "g", 3, sent_time, 7]
    assert [[row[name] for name in names] for row in rows[1:]] == [[None] * 6 + [4]] * 2
    only = rows_of(plan_of(store).of_table(MESSAGES, ["group_sequence", "lane"]))
    assert only[0] == {"group_sequence": 3, "lane": 7}


TEXTS = [  # octets, headers, flags -> is it text
    (b"by a length", b"", 0, True),
    ("zwölf".encode(), b"content-type:Text/Plain; charset=utf-8\n", 0, True),
    (b'{"n":1}', b"a:1\ncontent-type:application/json\n", 0, True),
    (b"{}", b"content-type:application/vnd.x+json\n", 0, True),
    (b"", b"", 0, True),
    (b"octets", b"content-type:application/octet-stream\n", 0, False),
    (b"declared", b"content-type:application/octet-stream\n", TEXT, True),
    (b"a value of octets", b"amqp-body:binary\n", 0, False),
    (b"a\0b", b"", 0, False),
    (b"a\0b", b"content-type:text/plain\n", 0, True),
    (b"\xff\xfe", b"", TEXT, False),
    (b"\xff", b"content-type:text/plain\n", 0, False),
]


@pytest.mark.parametrize("is_clean", [True, False], ids=["from consume queues", "tail scanned"])
@pytest.mark.parametrize("body", ["text", "binary", "both"])
def test_text_is_told_message_by_message(store: SampleStore, is_clean: bool, body: str) -> None:
    queue = store.destination("q")
    for octets, headers, flags, _ in TEXTS * 3:
        store.send(queue, octets, headers, flags=PERSISTENT | flags)
    store.publish(is_clean=is_clean)
    told = [(row["body"], row["body_text"]) for row in rows_of(plan_of(store, body=body))]
    both: list[tuple[bytes | None, str | None]]
    both = [(octets, octets.decode() if is_text else None) for octets, _, _, is_text in TEXTS * 3]
    if body == "text":
        both = [(None if text is not None else octets, text) for octets, text in both]
    if body == "binary":
        both = [(octets, None) for octets, _ in both]
    assert told == both


@pytest.mark.parametrize("partition_bytes", [1 << 26, 4096, 500])
@pytest.mark.parametrize("is_clean", [True, False])
def test_each_message_once_and_in_order(store: SampleStore, partition_bytes: int, is_clean: bool) -> None:
    numbers = [store.destination(f"d{number}") for number in range(3)]
    sent = [store.send(numbers[number % 3], b"x" * (number % 400), priority=number % 4) for number in range(300)]
    store.publish(is_clean=is_clean)
    plan = plan_of(store, partition_bytes=partition_bytes)
    assert [row["log_offset"] for row in rows_of(plan)] == sent
    assert len(plan.partitions) > 1 or partition_bytes > store.offset


def test_only_chosen_destinations(store: SampleStore) -> None:
    eu, us = store.destination("orders.eu"), store.destination("payments.us")
    for number in range(100):
        store.send(eu if number % 10 == 0 else us, b"x" * 100)
    store.publish()
    assert {row["destination_name"] for row in rows_of(plan_of(store, "orders.>"))} == {"orders.eu"}
    assert len(rows_of(plan_of(store, "orders.>"))) == 10
    assert rows_of(plan_of(store, "nothing.here")) == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_states_as_of_the_end(store: SampleStore, is_clean: bool) -> None:
    queue, other = store.destination("q"), store.destination("other")
    for number in range(120):
        store.send(queue, b"x" * 100, priority=4 + number % 2)  # each priority counts from 0
        store.send(other, b"y")
    store.settle(queue, (0, 3), (5, 1))
    store.settle(queue, (10, 2), outcome=DEAD_LETTERED)
    before = store.offset
    store.settle(queue, (3, 2), outcome=EXPIRED)
    for number in range(20, 60):
        store.settle(queue, (number, 1))
        store.send(other, b"y" * 50)
    store.settle(queue, (7, 1), outcome=DROPPED, priority=5)
    store.publish(is_clean=is_clean)
    rows = rows_of(plan_of(store, "q"))
    states = {(row["priority"], row["queue_offset"]): row["delivery_state"] for row in rows}
    expected = {(priority, number): "pending" for priority in (4, 5) for number in range(60)}
    expected |= {(4, number): "acknowledged" for number in [0, 1, 2, 5, *range(20, 60)]}
    expected |= {(4, 10): "dead-lettered", (4, 11): "dead-lettered", (4, 3): "expired", (4, 4): "expired"}
    expected |= {(5, 7): "dropped"}
    assert states == expected
    earlier = {row["delivery_state"] for row in rows_of(plan_of(store, "q", stop=before))}
    assert earlier == {"pending", "acknowledged", "dead-lettered"}
    assert {row["delivery_state"] for row in rows_of(plan_of(store, "other"))} == {"pending"}


def test_consume_queues_that_somebody_removed_cost_no_row(tmp_path: Path) -> None:
    home = FileHome(StoreSettings(segment_bytes=8192))
    queue = home.store.open_destination(QUEUE, "orders")
    home.send_durably(queue, 100, size=200)
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 10, 5, 0, 1_000)])
    home.flush()
    home.stop()
    reader = copy_to(tmp_path, home.files)
    shutil.rmtree(reader.directory / "consumequeue")
    plan = make_plan(StoreReader(reader.directory), parse(">"))
    states = [row["delivery_state"] for row in rows_of(plan)]
    assert (states.count("pending"), states.count("acknowledged")) == (95, 5)


def test_range_from_and_to(store: SampleStore) -> None:
    queue = store.destination("q")
    sent = [store.send(queue, b"x" * 100) for _ in range(200)]
    store.publish()
    rows = rows_of(plan_of(store, start=sent[20] + 1, stop=sent[150]))
    assert [row["log_offset"] for row in rows] == sent[21:150]
    assert rows_of(plan_of(store, start=store.offset)) == []


def test_range_that_is_gone(store: SampleStore) -> None:
    queue = store.destination("q")
    sent = [store.send(queue, b"x" * 100) for _ in range(200)]
    store.drop_first_segment()
    store.publish()
    kept = [offset for offset in sent if offset >= store.first_offset]
    assert [row["log_offset"] for row in rows_of(plan_of(store))] == kept
    with pytest.raises(RangeGone, match="0 to 8192"):
        plan_of(store, start=0)
    plan = plan_of(store)
    store.drop_first_segment()
    with pytest.raises(RangeGone, match="are gone"):
        rows_of(plan)


def test_committed_transaction_is_read_and_its_settlements_count(store: SampleStore) -> None:
    queue = store.destination("q")
    store.send(queue, b"a")
    store.begin()
    store.send(queue, b"b")
    store.settle(queue, (0, 1))
    store.commit()
    store.publish()
    assert [(row["body_text"], row["delivery_state"]) for row in rows_of(plan_of(store))] == [
        ("a", "acknowledged"),
        ("b", "pending"),
    ]


@pytest.mark.parametrize("is_clean", [True, False])
def test_flipped_octet_in_a_body(store: SampleStore, is_clean: bool) -> None:
    queue = store.destination("q")
    offset = [store.send(queue, b"x" * 100) for _ in range(5)][3]
    store.publish(is_clean=is_clean)
    plan = plan_of(store) if is_clean else make_plan(StoreReader(store.directory), parse(">"), stop=store.offset)
    octets = bytearray(store.path.read_bytes())
    octets[layout.SEGMENT_HEADER_BYTES + offset + 120] ^= 1
    store.path.write_bytes(octets)
    with pytest.raises(StoreCorrupt, match=f"log offset {offset} fails its checksum"):
        rows_of(plan)
    unverified = make_plan(StoreReader(store.directory), parse(">"), stop=offset, verify=False)
    assert len(rows_of(unverified)) == 3


def test_entry_that_points_elsewhere(store: SampleStore) -> None:
    queue = store.destination("q")
    offset = [store.send(queue, b"x" * 100) for _ in range(5)][2]
    store.publish(is_clean=True)
    (path,) = (store.directory / "consumequeue" / str(queue) / "4").iterdir()
    octets = bytearray(path.read_bytes())
    layout.ENTRY.pack_into(octets, 2 * layout.ENTRY_BYTES, offset + 8, 180, 1, 4, 1, 0, 0, 0, 0, 0)
    path.write_bytes(octets)
    with pytest.raises(StoreCorrupt, match=f"no such record at log offset {offset + 8}"):
        rows_of(plan_of(store))


def test_entries_left_empty_by_a_loss(store: SampleStore) -> None:
    queue = store.destination("q")
    sent = [store.send(queue, b"x" * 100) for _ in range(30)]
    store.publish(is_clean=True)
    (path,) = (store.directory / "consumequeue" / str(queue) / "4").iterdir()
    octets = bytearray(path.read_bytes())
    octets[10 * layout.ENTRY_BYTES : 20 * layout.ENTRY_BYTES] = bytes(10 * layout.ENTRY_BYTES)
    path.write_bytes(octets)
    assert [row["log_offset"] for row in rows_of(plan_of(store))] == sent[:10] + sent[20:]
    rows = rows_of(plan_of(store, start=sent[15], stop=sent[22]))
    assert [row["log_offset"] for row in rows] == sent[20:22]


def test_small_segments_share_a_partition(store: SampleStore) -> None:
    queue = store.destination("q")
    for _ in range(300):
        store.send(queue, b"x" * 100)
    store.publish()
    plan = plan_of(store, partition_bytes=3 * 8192)
    assert [len(pieces) for pieces in plan.partitions[:-1]] == [3] * (len(plan.partitions) - 1)
