"""What the log writes, octet by octet."""

from __future__ import annotations

import json

import pytest
from crc32c import crc32c

from engine.destination import QUEUE
from engine.message import IN_TRANSACTION, PERSISTENT, STOMP, TEXT, Message
from engine.outcomes import ACKNOWLEDGED, CAUSE_CONNECTION_LOST, CAUSE_NONE
from engine.store import format as layout
from engine.stored import Range
from tests.support.store_home import FileHome
from tests.support.store_world import START_WALL_MS

FIRST_SEGMENT = "data/commitlog/00000000000000000000.log"


def records(home: FileHome, start: int) -> list[bytes]:
    """Return the records from a log offset on, checked."""
    octets = bytes(home.files.octets(FIRST_SEGMENT))[layout.SEGMENT_HEADER_BYTES :]
    found: list[bytes] = []
    while True:
        size, crc = layout.SIZE_AND_CRC.unpack_from(octets, start)
        if size == 0:
            return found
        record = octets[start : start + size]
        assert crc == crc32c(record[8:])
        assert layout.RECORD_HEADER.unpack_from(record)[6] == start
        assert not any(octets[start + size : start + layout.padded(size)])
        found.append(record)
        start += layout.padded(size)


def test_a_message() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.set_time(START_WALL_MS + 7)
    start = home.store.append_offset()
    sent = Message(queue, STOMP, PERSISTENT | TEXT, 9, 101, 102, 103, b"n:a\n", b"h:b\nx:y\n", b"body!")
    home.store.append(sent)
    home.flush()
    (record,) = records(home, start)
    size, _, record_type, encoding, flags, destination, offset, sequence, time_ms = layout.RECORD_HEADER.unpack_from(
        record
    )
    assert (size, record_type, encoding, flags) == (97, layout.MESSAGE, STOMP, PERSISTENT | TEXT)
    assert (destination, offset, sequence, time_ms) == (queue, start, 3, START_WALL_MS + 7)
    fixed = layout.MESSAGE_FIXED.unpack_from(record, layout.RECORD_HEADER_BYTES)
    assert fixed == (4, 8, 5, 9, 0, 0, 101, 102, 103, 0)
    assert record[80:] == b"n:a\nh:b\nx:y\nbody!"


@pytest.mark.parametrize("size", range(16))
def test_records_begin_at_multiples_of_eight(size: int) -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.send(queue, 3, size)
    assert home.store.append_offset() % 8 == 0
    home.flush()
    assert len(records(home, 0)) == 5


def test_settlements_and_attempts() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.send(queue, 10)
    start = home.store.append_offset()
    home.store.fail_attempts(queue, 6, CAUSE_CONNECTION_LOST, 99, [Range(4, 8, 1, 3)])
    home.store.settle(queue, 6, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 2), Range(4, 5, 1)])
    assert home.store.append_offset() == start + home.store.settlement_bytes(1) + home.store.settlement_bytes(2)
    home.flush()
    attempts, settlement = records(home, start)
    assert (attempts[8], settlement[8]) == (layout.ATTEMPTS, layout.SETTLEMENT)
    assert layout.SETTLEMENT_FIXED.unpack_from(attempts, 40) == (0, 6, 0, CAUSE_CONNECTION_LOST, 0, 1, 99)
    assert list(layout.RANGE.iter_unpack(attempts[64:])) == [(8, 1, 4, 0, 3)]
    assert layout.SETTLEMENT_FIXED.unpack_from(settlement, 40) == (0, 6, ACKNOWLEDGED, CAUSE_NONE, 0, 2, 0)
    assert list(layout.RANGE.iter_unpack(settlement[64:])) == [(0, 2, 4, 0, 0), (5, 1, 4, 0, 0)]


def test_metadata() -> None:
    home = FileHome()
    start = home.store.append_offset()
    queue = home.store.open_destination(QUEUE, "größe")
    home.store.open_consumer(queue, {"client_id": "ä", "address": "127.0.0.1:5"})
    home.flush()
    destination, consumer = records(home, start)
    assert json.loads(destination[40:]) == {"id": queue, "kind": QUEUE, "name": "größe"}
    assert json.loads(consumer[40:]) == {
        "id": 1,
        "destination": queue,
        "client_id": "ä",
        "address": "127.0.0.1:5",
    }
    assert layout.RECORD_HEADER.unpack_from(destination)[5] == layout.RECORD_HEADER.unpack_from(consumer)[5] == queue


def test_a_transaction() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    start = home.store.append_offset()
    home.store.begin(1000)
    home.send(queue, 2)
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 1)])
    home.store.commit()
    home.send(queue, 1)
    home.flush()
    first, second, settlement, commit, after = (layout.RECORD_HEADER.unpack_from(r) for r in records(home, start))
    assert [each[4] & IN_TRANSACTION for each in (first, second, settlement)] == [IN_TRANSACTION] * 3
    assert [each[4] & IN_TRANSACTION for each in (commit, after)] == [0, 0]
    assert layout.COMMIT_FIXED.unpack_from(records(home, start)[3], 40) == (first[7], 3, 0)


def test_a_transaction_stays_in_one_segment() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.send(queue, 30)
    home.store.begin(4000)
    inside = home.send(queue, 10, 300)
    home.store.commit()
    home.flush()
    assert inside[0].log_offset > 8192
    assert len({each.log_offset // 8192 for each in inside}) == 1


def test_the_system_queue_lists_every_record_that_is_no_message() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.send(queue, 3)
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 1)])
    home.send(queue, 100)  # rolls
    home.flush()
    entries = list(layout.ENTRY.iter_unpack(bytes(home.files.octets(f"data/consumequeue/0/0/{0:020d}.cq"))))
    assert [(entry[4], entry[6]) for entry in entries[:3]] == [
        (layout.SNAPSHOT, 0),
        (layout.DESTINATION, queue),
        (layout.SETTLEMENT, queue),
    ]


def test_entries_name_their_records() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    sent = Message(queue, STOMP, PERSISTENT, 2, 101, 102, 103, b"", b"", b"body")
    home.store.append(sent)
    home.send(queue, 100)  # rolls
    home.flush()
    octets = bytes(home.files.octets(f"data/consumequeue/{queue}/2/{0:020d}.cq"))
    assert list(layout.ENTRY.iter_unpack(octets)) == [
        (sent.log_offset, 84, PERSISTENT, 2, layout.MESSAGE, 0, 101, 102, 103, sent.store_time_ms)
    ]


def test_a_batch_that_ends_inside_a_transaction_is_our_own_fault() -> None:
    home = FileHome()
    home.store.begin(100)
    with pytest.raises(AssertionError, match="inside a transaction"):
        home.store.write()
    with pytest.raises(AssertionError, match="do not nest"):
        home.store.begin(100)


def test_a_transaction_larger_than_its_reserve_is_our_own_fault() -> None:
    home = FileHome()
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.begin(100)
    with pytest.raises(AssertionError, match="larger than what was reserved"):
        home.send(queue, 100)
