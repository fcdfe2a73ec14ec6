"""What the log writes, octet by octet."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from crc32c import crc32c

from engine.store.format import layout
from engine.store.log.segment import Segment, load_segment
from engine.store.settings import StoreSettings
from engine.store.state.snapshot import DRAFT_LAST_BYTES
from engine.store.verify.store_check import verify
from engine.values.destination import QUEUE
from engine.values.message import IN_TRANSACTION, PERSISTENT, STOMP, TEXT, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_CONNECTION_LOST, CAUSE_NONE
from engine.values.stored import Range
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_home import FileHome, home_with_queue, lane, message

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
    home, queue = home_with_queue()
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
    home, queue = home_with_queue()
    home.send(queue, 3, size)
    assert home.store.append_offset() % 8 == 0
    home.flush()
    assert len(records(home, 0)) == 5


def test_settlements_and_attempts() -> None:
    home, queue = home_with_queue()
    home.send(queue, 10)
    start = home.store.append_offset()
    home.store.fail_attempts(queue, 6, CAUSE_CONNECTION_LOST, 99, [Range(4, 8, 1, 3)])
    home.store.settle(queue, 6, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 2), Range(4, 5, 1)])
    head = layout.RECORD_HEADER_BYTES + layout.SETTLEMENT_FIXED_BYTES
    sizes = [layout.padded(head + layout.RANGE_BYTES * count) for count in (1, 2)]
    assert home.store.append_offset() == start + sum(sizes)
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
    assert json.loads(consumer[40:]) == {"id": 1, "destination": queue, "client_id": "ä", "address": "127.0.0.1:5"}
    assert layout.RECORD_HEADER.unpack_from(destination)[5] == layout.RECORD_HEADER.unpack_from(consumer)[5] == queue


def test_a_transaction() -> None:
    home, queue = home_with_queue()
    start = home.store.append_offset()
    home.store.begin()
    home.send(queue, 2)
    home.settle(queue, 0, 1)
    home.store.commit()
    home.send_durably(queue, 1)
    first, second, settlement, commit, after = (layout.RECORD_HEADER.unpack_from(r) for r in records(home, start))
    assert [each[4] & IN_TRANSACTION for each in (first, second, settlement)] == [IN_TRANSACTION] * 3
    assert [each[4] & IN_TRANSACTION for each in (commit, after)] == [0, 0]
    assert layout.COMMIT_FIXED.unpack_from(records(home, start)[3], 40) == (first[7], 3, 0)


def test_the_system_queue_lists_every_record_that_is_no_message() -> None:
    home, queue = home_with_queue()
    home.send(queue, 3)
    home.settle(queue, 0, 1)
    home.send(queue, 100)  # rolls
    home.flush()
    entries = list(layout.ENTRY.iter_unpack(bytes(home.files.octets(f"data/consumequeue/0/0/{0:020d}.cq"))))
    assert [(entry[4], entry[6]) for entry in entries[:3]] == [
        (layout.SNAPSHOT, 0),
        (layout.DESTINATION, queue),
        (layout.SETTLEMENT, queue),
    ]


def test_entries_name_their_records() -> None:
    home, queue = home_with_queue()
    sent = Message(queue, STOMP, PERSISTENT, 2, 101, 102, 103, b"", b"", b"body")
    home.store.append(sent)
    home.send(queue, 100)  # rolls
    home.flush()
    octets = bytes(home.files.octets(f"data/consumequeue/{queue}/2/{0:020d}.cq"))
    assert list(layout.ENTRY.iter_unpack(octets)) == [
        (sent.log_offset, 84, PERSISTENT, 2, layout.MESSAGE, 255 - PERSISTENT, 101, 102, 103, sent.store_time_ms)
    ]


def test_a_batch_that_ends_inside_a_transaction_is_our_own_fault() -> None:
    home = FileHome()
    home.store.begin()
    with pytest.raises(AssertionError, match="inside a transaction"):
        home.store.write()
    with pytest.raises(AssertionError, match="do not nest"):
        home.store.begin()


def test_a_transaction_that_its_segment_has_no_room_for_gets_one_of_its_own() -> None:
    home, queue = home_with_queue()
    before = home.send(queue, 20)
    home.store.begin()
    start = home.store.append_offset()
    inside = home.send(queue, 100, 300)  # 40,000 octets, five segments' worth
    home.store.commit()
    after = home.send(queue, 30)
    home.flush()
    own, limit = _segment(home, start)
    assert own.is_continuation and limit == own.limit() and limit < after[29].log_offset
    assert [home.page(queue, 4, first, 1).messages[0].body for first in (19, 20, 119, 122)] == [
        before[19].body,
        inside[0].body,
        inside[99].body,
        after[2].body,
    ]
    home.kill()
    assert lane(home.store.recovered(), "orders").tail == 150
    home.crash()
    assert verify(home.files.killed(), "data").findings == []


@pytest.mark.parametrize("count", range(40, 70))
def test_a_commit_record_is_in_the_segment_of_its_transaction_wherever_that_ends(count: int) -> None:
    """Settlements, which nobody had counted: of one that ends just before the end of a segment, and its neighbours."""
    home, queue = home_with_queue()
    sent = home.send(queue, 40, 8)
    home.store.begin()
    for entry in range(count):
        if entry < len(sent):
            home.store.settle(
                queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, entry, 1, 0, sent[entry].size, (sent[entry].size,))]
            )
        else:
            home.store.append(message(queue, b"x"))
    home.store.commit()
    home.flush()
    home.kill()
    assert lane(home.store.recovered(), "orders").cursor == min(count, len(sent))


def test_of_a_transaction_in_a_segment_of_its_own_a_power_cut_leaves_all_or_nothing() -> None:
    for cut in range(0, 14_000, 104):
        home = FileHome()
        queue = home.store.open_destination(QUEUE, "orders")
        home.send_durably(queue, 30)
        home.store.begin()
        home.send(queue, 100)
        home.store.commit()
        start = home.store.append_offset()
        home.store.write()
        (path,) = [path for path in home.files.paths(".log") if _flags(home, path) == b"\x01"]
        octets = home.files.octets(path)
        octets[layout.SEGMENT_HEADER_BYTES + cut :] = bytes(len(octets) - layout.SEGMENT_HEADER_BYTES - cut)
        home.kill()
        assert lane(home.store.recovered(), "orders").tail == 30 and home.store.append_offset() >= start
        home.send_durably(queue, 3)
        home.stop()
        assert verify(home.files, "data").findings == []


def test_transactions_after_one_that_did_not_fit_begin_a_new_segment_in_time() -> None:
    home, queue = home_with_queue(StoreSettings(segment_bytes=65_536))
    for _ in range(300):
        home.store.begin()
        home.send(queue, 10, 300)
        home.store.commit()
        home.flush()
    flags = [_flags(home, path) for path in home.files.paths(".log")]
    assert len(flags) > 18 and flags.count(b"\x01") == 0, "what is usual is known before it fails to fit"


@pytest.mark.parametrize("is_transaction", [False, True])
def test_a_snapshot_larger_than_a_segment_is_not_told_again_by_every_record(is_transaction: bool) -> None:
    home = FileHome(StoreSettings(segment_bytes=4096))
    for number in range(200):
        queue = home.store.open_destination(QUEUE, f"queue.{number}")
    home.flush()
    start = home.store.append_offset()
    for _ in range(300):
        if is_transaction:
            home.store.begin()
        home.send(queue, 1, 100)
        if is_transaction:
            home.store.commit()
        home.flush()
    sent_bytes = 300 * 300
    assert home.store.append_offset() - start < 3 * sent_bytes, "at most as much again for snapshots, and a start"
    home.kill()
    assert lane(home.store.recovered(), f"queue.{199}").tail == 300


def test_the_file_of_a_segment_with_a_large_snapshot_is_made_ahead_all_the_same() -> None:
    home = FileHome(StoreSettings(segment_bytes=4096))
    for number in range(200):
        queue = home.store.open_destination(QUEUE, f"queue.{number}")
    home.flush()
    home.send_durably(queue, 200, 100)
    prepared = 0
    for _ in range(300):
        home.send_durably(queue, 1, 100)
        for ahead in home.files.paths(".prepared"):
            home.send_durably(queue, 100, 100)
            assert ahead.removesuffix(".prepared") in home.files.paths(".log"), "what was made ahead is used"
            assert ahead not in home.files.paths(".prepared")
            prepared += 1
    assert prepared


@pytest.mark.parametrize("has_own", [False, True])
def test_a_roll_tells_only_of_what_has_changed_in_the_last_records(has_own: bool) -> None:
    """Of queues with holes in what is settled, too, and behind a transaction that had to have its own segment."""
    home = FileHome(StoreSettings(segment_bytes=512 << 10))
    chance = random.Random(7)
    queues = [home.store.open_destination(QUEUE, f"queue.{number}") for number in range(400)]
    for queue in queues:
        home.send(queue, 20, 8)
        home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 10, 1, 0, 8, (8,))])
        home.flush()
    state = home.file_store._log.state
    segments = len(home.files.paths(".log"))
    told: list[int] = []
    for number in range(6_000):
        touched = sum(lane.is_touched for lane in state.lanes.values())
        if has_own and number % 2_500 == 2_000:
            home.store.begin()
            home.send(queues[0], 60, 8 << 10)
            home.store.commit()
        else:
            home.send(chance.choice(queues), 1, 8)
        home.flush()
        if state.generation != segments:
            segments = state.generation
            told.append(touched)
    assert len(told) > 2
    assert max(told[1:]) <= 2 * DRAFT_LAST_BYTES // layout.MESSAGE_HEAD_BYTES // 2, told


@pytest.mark.parametrize("seed", range(6))
def test_transactions_in_segments_of_their_own_are_followed_by_a_roll_before_long(seed: int) -> None:
    """A start replays everything from the last snapshot on, and retention drops nothing without one."""
    chance = random.Random(seed)
    home, queue = home_with_queue(StoreSettings(segment_bytes=8192))
    for _ in range(150):
        home.store.begin()
        home.send(queue, chance.randint(1, 60), 100)
        home.store.commit()
        home.send_durably(queue, chance.randint(0, 3), 100)
    segments = [
        load_segment(home.files, "data/commitlog", path.rpartition("/")[2])[0] for path in home.files.paths(".log")
    ]
    bases = [segment.base for segment in segments if not segment.is_continuation]
    own_count = len(segments) - len(bases)
    assert 0 < own_count <= home.store.append_offset() // (8192 // 4), "each is made on the engine's thread"
    assert max(after - before for before, after in itertools.pairwise(bases)) < 6 * 8192
    home.stop()
    assert verify(home.files, "data").findings == []


def _segment(home: FileHome, base: int) -> tuple[Segment, int]:
    """Return the segment that begins at ``base``, and where the next one does."""
    names = [path.rpartition("/")[2] for path in home.files.paths(".log")]
    segments = [load_segment(home.files, "data/commitlog", name)[0] for name in names]
    (place,) = [place for place, segment in enumerate(segments) if segment.base == base]
    return segments[place], segments[place + 1].base


def _flags(home: FileHome, path: str) -> bytes:
    """Return the lowest octet of the flags in a segment's header."""
    return bytes(home.files.octets(path)[12:13])
