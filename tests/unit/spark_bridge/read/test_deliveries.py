"""The table of deliveries against what the store itself says of each message, for histories at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.store.format import layout
from engine.store.read.catalog import read_catalog
from engine.store.read.message_history import FAILED, SENT, biography
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import StoreCorrupt
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_EXHAUSTED,
    CAUSE_EXPIRED,
    CAUSE_NACK,
    CAUSE_NONE,
    CAUSE_PURGED,
    DEAD_LETTERED,
    DROPPED,
    EXPIRED,
)
from engine.values.stored import Range
from spark_bridge.arrow.schema import DELIVERIES, MESSAGES, SCHEMAS
from spark_bridge.log.lost import Lost
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.store_copy import copy_to
from tests.support.store.store_history import History as StoreHistory
from tests.support.store.store_home import FileHome
from tests.support.store.thin_history import ThinHistory

Row = dict[str, Any]
ENDS = [
    (ACKNOWLEDGED, CAUSE_NONE),
    (ACKNOWLEDGED, CAUSE_NONE),
    (DEAD_LETTERED, CAUSE_EXHAUSTED),
    (DEAD_LETTERED, CAUSE_NACK),
    (EXPIRED, CAUSE_EXPIRED),
    (DROPPED, CAUSE_PURGED),
]
BY_THE_GATEWAY = (CAUSE_EXPIRED, CAUSE_PURGED)


class History:
    """A queue and a topic with durable subscriptions: messages fail, some several times, and are settled."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.home = FileHome(StoreSettings(segment_bytes=8192))
        self.store = self.home.store
        self.queue = self.store.open_destination(QUEUE, "orders")
        self.topic = self.store.open_destination(TOPIC, "news")
        self.mail = self.store.open_subscription(self.topic, "c1:mail", {})
        self.closed = self.store.open_subscription(self.topic, "c1:closed", {})
        self.sent: list[Message] = []
        self.failed: dict[tuple[int, int], int] = {}
        self.waiting: list[tuple[int, Message]] = []
        self.consumers: dict[int, list[int]] = {self.queue: [], self.mail: [], self.closed: []}
        for number, owner in enumerate(self.consumers):
            self.connect(owner, number)

    def connect(self, owner: int, number: int) -> None:
        described = {"client_id": f"client-{number}", "address": f"10.0.0.1:{number}", "login": "", "subscription": "7"}
        self.consumers[owner].append(self.store.open_consumer(owner, described))

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.store.set_time(self.home.clock.wall_ms() + 10 * number)
            chance = self.random.random()
            if chance < 0.4:
                self.send()
            elif chance < 0.6:
                self.fail()
            elif chance < 0.65:
                self.connect(self.random.choice([*self.consumers]), 100 + number)
            else:
                self.settle()
            if number % 7 == 0:
                self.home.flush()
        self.home.flush()

    def send(self) -> None:
        to = self.random.choice((self.queue, self.topic))
        message = Message(to, STOMP, PERSISTENT, self.random.choice((4, 4, 7)), 0, 0, 0, b"", b"", b"x" * 150)
        self.store.append(message)
        self.sent.append(message)
        owners = [self.queue] if to == self.queue else [self.mail, self.closed]
        self.waiting += [(owner, message) for owner in owners if owner in self.consumers]

    def fail(self) -> None:
        if not self.waiting:
            return
        owner, message = self.random.choice(self.waiting)
        count = self.failed[owner, message.log_offset] = self.failed.get((owner, message.log_offset), 0) + 1
        due_ms = self.random.choice((0, self.home.clock.wall_ms() + 1_000_000))
        failed = [Range(message.priority, message.queue_offset, 1, count)]
        self.store.fail_attempts(owner, self.random.choice(self.consumers[owner]), CAUSE_NACK, due_ms, failed)

    def settle(self) -> None:
        if not self.waiting:
            return
        owner, message = self.waiting.pop(self.random.randrange(len(self.waiting)))
        outcome, cause = self.random.choice(ENDS)
        count = 0
        if outcome == DEAD_LETTERED:
            count = self.failed.get((owner, message.log_offset), 0) + 1
        settled = [Range(message.priority, message.queue_offset, 1, count, message.size, (message.size,))]
        consumer = 0 if cause in BY_THE_GATEWAY else self.random.choice(self.consumers[owner])
        self.store.begin()
        self.store.settle(owner, consumer, outcome, cause, settled)
        self.store.commit()

    def close(self) -> None:
        """End one of the subscriptions; the records about it stay."""
        self.store.close_destination(self.closed)
        del self.consumers[self.closed]
        self.waiting = [(owner, message) for owner, message in self.waiting if owner != self.closed]


def rows_of(reader: StoreReader, **options: Any) -> Iterator[Row]:
    plan = make_plan(reader, parse(">"), tables=(DELIVERIES,), **options)
    for pieces in plan.partitions:
        for batch in read_pieces(plan, pieces, 5):
            batch.validate(full=True)
            assert batch.schema == SCHEMAS[DELIVERIES]
            assert 0 < len(batch) <= 5
            yield from batch.to_pylist()


def told(row: Row) -> tuple[Any, ...]:
    """Return what a row and an event of the store's own history have in common."""
    consumer = {
        name: row[column]
        for name, column in (("client_id", "client_id"), ("address", "address"), ("subscription", "subscription_id"))
        if row[column]
    }
    due = row["next_attempt"]
    return (
        row["log_offset"],
        int(row["store_time"].timestamp() * 1000 + 0.5),
        row["subscription"] or row["destination"],
        row["outcome"],
        row["cause"] or "none",
        row["attempt"],
        int(due.timestamp() * 1000 + 0.5) if due else 0,
        consumer,
    )


def expected(reader: StoreReader, message: Message) -> list[tuple[Any, ...]]:
    """Return the same from ``penstock why``: the attempt of an end is one more than have failed."""
    life = biography(reader, f"ID:{reader.store_id}-{message.log_offset}")
    failed: dict[str, int] = {}
    found: list[tuple[Any, ...]] = []
    for event in life.events:
        if event.kind == SENT:
            continue
        attempt: int | None = failed.get(event.owner, 0) + 1
        if event.kind == FAILED:
            failed[event.owner] = event.count
        if event.cause in ("expired", "purged"):
            attempt = None
        outcome = event.outcome or "failed"
        found.append(
            (event.offset, event.time_ms, event.owner, outcome, event.cause, attempt, event.due_ms, event.consumer)
        )
    return found


def by_message(rows: list[Row]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row["message_offset"], []).append(told(row))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("partition_bytes", [1 << 26, 3_000])
def test_each_row_is_what_the_store_says_of_the_message(tmp_path: Path, seed: int, partition_bytes: int) -> None:
    history = History(seed)
    history.run(150)
    reader = copy_to(tmp_path, history.home.files)
    assert 0 < reader.entries_offset < reader.end().offset
    rows = list(rows_of(reader, partition_bytes=partition_bytes))
    found = by_message(rows)
    assert None not in found
    for message in history.sent:
        assert found.pop(message.log_offset, []) == expected(reader, message)
    assert found == {}
    sent = {message.log_offset: message for message in history.sent}
    for row in rows:
        message = sent[row["message_offset"]]
        assert row["message_id"] == f"ID:{reader.store_id}-{message.log_offset}"
        assert (row["queue_offset"], row["lane"]) == (message.queue_offset, message.priority)
        took_ms = round(1000 * (row["store_time"] - row["message_time"]).total_seconds())
        assert row["time_in_queue_ms"] == took_ms
        assert row["destination_name"] == ("orders" if message.destination_id == history.queue else "news")


@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up_wherever_they_are_cut(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    cuts = [0]
    for _ in range(4):
        history.run(40)
        cuts.append(history.store.append_offset())
    reader = copy_to(tmp_path, history.home.files)
    whole = list(rows_of(reader))
    parts = [list(rows_of(reader, start=start, stop=stop)) for start, stop in pairwise(cuts)]
    assert all(parts)
    assert [row for part in parts for row in part] == whole


def test_a_closed_subscription_keeps_its_rows(tmp_path: Path) -> None:
    history = History(1)
    history.run(100)
    before = len(list(rows_of(copy_to(tmp_path / "a", history.home.files))))
    history.close()
    history.run(100)
    reader = copy_to(tmp_path / "b", history.home.files)
    rows = list(rows_of(reader))
    assert {row["subscription"] for row in rows} == {None, "c1:mail", "c1:closed"}
    assert before < len(rows)
    for row in rows[:before]:
        assert row["destination"] == ("topic://news" if row["subscription"] else "queue://orders")


@pytest.mark.damages_store("one of its records is damaged on purpose")
@pytest.mark.parametrize("kind", [layout.ATTEMPTS, layout.SETTLEMENT, layout.CONSUMER])
@pytest.mark.parametrize("tables", [(DELIVERIES,), (DELIVERIES, MESSAGES)], ids=["alone", "beside messages"])
def test_a_damaged_record_is_an_error_or_counted_once(tmp_path: Path, kind: int, tables: tuple[str, ...]) -> None:
    history = History(2)
    history.run(150)
    reader = copy_to(tmp_path, history.home.files)
    whole = list(rows_of(reader))
    # Consumers of the first segment: the snapshot of a later one has their descriptions, too.
    first = reader.segments[0 if kind == layout.CONSUMER else 2].base
    record = next(one for one in reader.scan(first, reader.entries_offset) if one.type == kind)
    segment = next(each for each in reader.segments if each.base <= record.offset < each.limit)
    with open(segment.path, "r+b") as file:
        place = layout.SEGMENT_HEADER_BYTES + record.offset - segment.base + record.size - 1
        file.seek(place)
        (octet,) = file.read(1)
        file.seek(place)
        file.write(bytes([octet ^ 1]))
    with pytest.raises(StoreCorrupt, match=f"log offset {record.offset}"):
        list(rows_of(reader))
    plan = make_plan(reader, parse(">"), skip_damaged=True, tables=tables)
    lost = Lost(list(plan.damaged))
    rows = [
        row
        for table in tables
        for pieces in plan.partitions
        for batch in read_pieces(plan.of_table(table), pieces, lost=lost)
        for row in (batch.to_pylist() if table == DELIVERIES else [])
    ]
    hidden = [] if kind == layout.CONSUMER else [row for row in whole if row["log_offset"] == record.offset]
    assert len(rows) == len(whole) - len(hidden)
    assert {row["log_offset"] for row in rows} == {row["log_offset"] for row in whole if row not in hidden}
    damaged = [(one.destination, one.records, one.from_offset) for one in lost.damaged]
    assert damaged == [("", 1, record.offset)]
    unknown = [row for row in rows if row["consumer"] is not None and row["client_id"] is None]
    assert bool(unknown) == (kind == layout.CONSUMER)


@pytest.mark.parametrize("history", [ThinHistory, StoreHistory])
@pytest.mark.parametrize("seed", range(3))
def test_rows_agree_after_crashes_and_in_thinned_segments(
    tmp_path: Path, history: type[StoreHistory], seed: int
) -> None:
    left = history(seed)
    left.run(60)
    reader = copy_to(tmp_path, left.files)
    records = [*reader.scan(reader.oldest_offset, reader.end().offset)]
    catalog = read_catalog(reader)
    # The store says nothing of closed subscriptions.
    is_told = {
        record.offset: record.destination_id in {*catalog.destinations, *catalog.subscriptions} for record in records
    }
    found = by_message([row for row in rows_of(reader, partition_bytes=2_000) if is_told[row["log_offset"]]])
    messages = [record for record in records if record.type == layout.MESSAGE]
    for record in messages:
        life = biography(reader, f"ID:{reader.store_id}-{record.offset}")
        events = [(event.offset, event.outcome or "failed") for event in life.events if event.kind != SENT]
        assert [(row[0], row[3]) for row in found.get(record.offset, [])] == events
    assert any(record.offset in found for record in messages)
