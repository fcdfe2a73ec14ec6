"""Pages of a backlog, blocks of a tail and columns of an export parse records themselves, and say what the cursor says.

The law, for any messages in any lanes: the four find the same messages with the same octets.  After any change of
one octet of a record all four refuse that record, and what stands before it is the same in all of them.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from engine.store.format import layout
from engine.store.format.record import Record
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE
from engine.values.errors import StoreCorrupt
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from spark_bridge.log.blocks import record_of, scan_blocks
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan
from tests.support.store.store_copy import copied
from tests.support.store.store_home import FileHome

# Priority, octets of the body, and how many of the messages before are settled.
SENT = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3_000), st.integers(0, 3)), min_size=1, max_size=40)
Found = tuple[int, int, int, bytes]  # log offset, priority, queue offset, body


def fill(sent: list[tuple[int, int, int]]) -> tuple[FileHome, int]:
    home = FileHome(StoreSettings(segment_bytes=16_384, index_slots=0))
    queue = home.store.open_destination(QUEUE, "orders")
    waiting: list[Message] = []
    for number, (priority, size, settled) in enumerate(sent):
        body = b"%d" % number * size
        headers = b"content-type:text/plain\n" * (number % 3)
        message = Message(queue, STOMP, PERSISTENT, priority, 0, 0, 0, b"", headers, body[:size])
        home.store.append(message)
        waiting.append(message)
        for one in [waiting.pop(0) for _ in range(min(settled, len(waiting)))]:
            run = [Range(one.priority, one.queue_offset, 1, 0, one.size)]
            home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, run)
        home.flush()
    return home, queue


def walked(reader: StoreReader) -> list[Record]:
    return [each for each in reader.scan(0, reader.end().offset) if each.type == layout.MESSAGE]


def walk(reader: StoreReader, found: list[Found]) -> None:
    for record in reader.scan(0, reader.end().offset):
        if record.type == layout.MESSAGE:
            found.append(told(record))


def walk_blocks(reader: StoreReader, found: list[Found]) -> None:
    for _, block in scan_blocks(reader, 0, reader.end().offset):
        records = [record_of(block, row) for row in range(len(block.positions))]
        found += [told(record) for record in records if record.type == layout.MESSAGE]


def told(record: Record) -> Found:
    message = record.message()
    return record.offset, message.priority, message.queue_offset, message.body()


def paged(home: FileHome, queue: int, priority: int, count: int) -> list[Found]:
    """Return the messages of one lane from its first entry on, up to what cannot be read."""
    found: list[Found] = []
    first = 0
    while first < count:
        failures = len(home.listener.page_failures)
        home.store.request(queue, priority, first, count - first, 1 << 20)
        pages = len(home.listener.pages)
        home.workers.run_all()
        if len(home.listener.page_failures) > failures:
            break
        page = home.listener.pages[pages]
        assert page.next_offset > first, "a page that fails says so"
        found += [(one.log_offset, one.priority, one.queue_offset, one.body) for one in page.messages]
        first = page.next_offset
    return found


def exported(reader: StoreReader) -> list[Found]:
    plan = make_plan(reader, parse("orders"), body="binary")
    rows = [row for pieces in plan.partitions for batch in read_pieces(plan, pieces) for row in batch.to_pylist()]
    return sorted((row["log_offset"], row["priority"], row["queue_offset"], row["body"]) for row in rows)


def lanes(records: list[Found]) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, priority, entry, _ in records:
        found[priority] = max(found.get(priority, 0), entry + 1)
    return found


@given(SENT)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_find_the_same_messages(sent: list[tuple[int, int, int]]) -> None:
    home, queue = fill(sent)
    with copied(home.files) as reader:
        by_cursor = [told(record) for record in walked(reader)]
        assert len(by_cursor) == len(sent)
        assert exported(reader) == by_cursor
        by_block: list[Found] = []
        walk_blocks(reader, by_block)
        assert by_block == by_cursor
    by_page: list[Found] = []
    for priority, count in lanes(by_cursor).items():
        by_page += paged(home, queue, priority, count)
    assert sorted(by_page) == by_cursor


@pytest.mark.damages_store("an octet is wrong")
@given(SENT, st.integers(0, 1_000), st.integers(0, 100_000), st.integers(1, 255))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_all_refuse_a_record_of_which_an_octet_is_wrong(
    sent: list[tuple[int, int, int]], which: int, at: int, mask: int
) -> None:
    home, queue = fill(sent)
    with copied(home.files) as reader:
        records = walked(reader)
        sound = [told(record) for record in records]
        bad = records[which % len(records)]
        segment = next(each for each in reader.segments if each.base <= bad.offset < each.limit)
        position = layout.SEGMENT_HEADER_BYTES + bad.offset - segment.base + at % bad.size
        home.files.octets(f"data/commitlog/{segment.path.name}")[position] ^= mask
    with copied(home.files) as reader:
        for by_any in (walk, walk_blocks):
            before: list[Found] = []
            with pytest.raises(StoreCorrupt, match=str(bad.offset)):
                by_any(reader, before)
            assert before == [each for each in sound if each[0] < bad.offset]
        with pytest.raises(StoreCorrupt):
            exported(reader)
    _, priority, entry, _ = told(bad)
    by_page = paged(home, queue, priority, lanes(sound)[priority])
    assert by_page == [each for each in sound if each[1] == priority and each[2] < entry]
