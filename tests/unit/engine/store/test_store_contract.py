"""What engine.ports.Store promises, for every implementation of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.ports.workers import SYNC_LANE
from engine.store.format import layout
from engine.values.destination import QUEUE, TOPIC
from engine.values.message import IN_TRANSACTION, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NACK, CAUSE_NONE
from engine.values.stored import NEVER_MS, SEEK_ENTRY, SEEK_LOG, SEEK_TIME, Attempts, Range, RangeColumns
from tests.support.attributes import attributes
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_home import FileHome, Home, MemoryHome, lane, message


@pytest.fixture(params=[FileHome, MemoryHome])
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    home: Home = request.param()
    yield home
    home.workers.run_all()
    home.store.close()


def test_numbers_of_destinations_stay(home: Home) -> None:
    orders = home.store.open_destination(QUEUE, "orders")
    news = home.store.open_destination(TOPIC, "orders")
    assert orders != news
    assert home.store.open_destination(QUEUE, "orders") == orders
    home.reopen()
    assert home.store.open_destination(TOPIC, "orders") == news
    assert home.store.open_destination(QUEUE, "bills") not in (orders, news)
    assert [(state.destination_id, state.kind, state.name) for state in home.store.recovered()] == [
        (orders, QUEUE, "orders"),
        (news, TOPIC, "orders"),
    ]


def record_bytes(message: Message) -> int:
    return layout.padded(layout.MESSAGE_HEAD_BYTES + message.size)


def test_append_assigns_the_places(home: Home) -> None:
    store = home.store
    queue = store.open_destination(QUEUE, "orders")
    store.set_time(START_WALL_MS + 5)
    start = store.append_offset()
    first, second, urgent = message(queue), message(queue), message(queue, priority=9)
    for each in (first, second, urgent):
        store.append(each)
    assert (first.queue_offset, second.queue_offset, urgent.queue_offset) == (0, 1, 0)
    assert first.log_offset == start
    assert second.log_offset == start + record_bytes(first)
    assert store.append_offset() == urgent.log_offset + record_bytes(urgent)
    assert first.store_time_ms == START_WALL_MS + 5


def test_store_time_never_goes_back(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.set_time(START_WALL_MS + 5)
    home.store.set_time(START_WALL_MS + 3)
    late = message(queue)
    home.store.append(late)
    assert late.store_time_ms == START_WALL_MS + 5


def test_written_then_durable(home: Home) -> None:
    store = home.store
    before = store.durable_offset()
    queue = store.open_destination(QUEUE, "orders")
    store.append(message(queue))
    end = store.append_offset()
    assert store.written_offset() < end
    store.write()
    assert store.written_offset() == end
    assert store.durable_offset() == before
    store.sync()
    assert home.listener.durable_offset == 0
    home.workers.run_all()
    assert home.listener.durable_offset == end
    assert store.durable_offset() == store.confirmed_offset() == end


def test_a_sync_covers_what_was_written_when_it_began(home: Home) -> None:
    store = home.store
    queue = store.open_destination(QUEUE, "orders")
    store.append(message(queue))
    store.write()
    first_end = store.append_offset()
    store.sync()
    store.append(message(queue))
    store.write()
    store.sync()
    home.workers.run_one(SYNC_LANE)
    assert home.listener.durable_offset == first_end
    home.workers.run_one(SYNC_LANE)
    assert home.listener.durable_offset == store.append_offset()
    assert not home.workers.jobs


def test_a_sync_of_nothing_is_no_job(home: Home) -> None:
    home.flush()
    home.store.sync()
    assert not home.workers.jobs


def test_a_message_comes_back_as_it_was(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    sent = message(queue, b"\x00\xff" * 50, priority=7)
    home.store.append(sent)
    home.reopen()
    page = home.page(queue, 7, 0, 10)
    (found,) = page.messages
    came, went = attributes(found), attributes(sent)
    for name in went.keys() - {"wire", "serial"}:
        assert came[name] == went[name], name
    assert (page.destination_id, page.priority, page.first, page.next_offset) == (queue, 7, 0, 1)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_pages_follow_each_other(home: Home, count: int) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    other = home.store.open_destination(QUEUE, "bills")
    for number in range(100):
        home.store.append(message(queue, b"%d" % number))
        home.store.append(message(other, b"x" * number))
        if number % 7 == 0:
            home.flush()
    home.flush()
    bodies: list[bytes] = []
    first = 0
    while first < 100:
        page = home.page(queue, 4, first, count)
        assert page.first == first
        first = page.next_offset
        bodies += [each.body for each in page.messages]
    assert bodies == [b"%d" % number for number in range(100)]
    assert home.page(queue, 4, 100, count).next_offset == 100


def test_a_page_stops_at_its_limit_of_octets(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for _ in range(5):
        home.store.append(message(queue, b"x" * 91))  # 104 with headers and annotations
    home.flush()
    assert len(home.page(queue, 4, 0, 5, 1).messages) == 1
    assert len(home.page(queue, 4, 0, 5, 208).messages) == 2
    assert home.page(queue, 4, 1, 5, 209).next_offset == 4


def test_a_page_holds_only_what_is_written(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.append(message(queue))
    home.store.write()
    home.store.append(message(queue))
    page = home.page(queue, 4, 0, 10)
    assert (page.next_offset, len(page.messages)) == (1, 1)
    page = home.page(queue, 4, 1, 10)
    assert (page.next_offset, page.messages) == (1, [])
    home.store.write()


def test_settled_entries_are_recovered(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    consumer = home.store.open_consumer(queue, {"client_id": "c"})
    for _ in range(10):
        home.store.append(message(queue))
    home.store.settle(queue, consumer, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, 2), Range(4, 5, 1), Range(4, 7, 2)])
    home.reopen()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (10, 2, [(5, 1), (7, 2)])
    home.store.settle(queue, consumer, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 2, 3)])
    home.reopen()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor, found.settled) == (10, 6, [(7, 2)])


def test_runs_are_settled_like_ranges(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    size = message(queue).size
    for _ in range(10):
        home.store.append(message(queue))
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [RangeColumns(4, [7, 0, 5], [2, 1, 1], 4 * size)])
    home.store.fail_attempts(queue, 0, CAUSE_NACK, 0, [Range(4, 2, 1, 1), Range(4, 4, 1, 1)])
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [RangeColumns(4, [4, 1], [1, 1], 2 * size)])
    told = home.store.state_of(queue)
    home.reopen()
    for found in (told, home.store.state_of(queue)):
        (only,) = found.lanes
        assert (only.tail, only.cursor, only.settled, list(only.attempts)) == (10, 2, [(4, 2), (7, 2)], [2])
        assert found.live_bytes == 4 * size


def test_failed_attempts_are_recovered_until_settled(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for _ in range(4):
        home.store.append(message(queue))
    home.store.set_time(START_WALL_MS + 5)
    home.store.fail_attempts(queue, 0, CAUSE_NACK, START_WALL_MS + 9, [Range(4, 0, 2, 1), Range(4, 3, 1, 6)])
    home.store.fail_attempts(queue, 0, CAUSE_NACK, 0, [Range(4, 1, 1, 2)])
    home.settle(queue, 3, 1)
    home.reopen()
    now = START_WALL_MS + 5
    assert lane(home.store.recovered(), "orders").attempts == {
        0: Attempts(1, START_WALL_MS + 9, now, now, CAUSE_NACK, 0),
        1: Attempts(2, 0, now, now, CAUSE_NACK, 0),
    }
    home.settle(queue, 0, 2)
    home.reopen()
    assert lane(home.store.recovered(), "orders").attempts == {}


def test_nothing_of_a_topic_is_pending(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    for _ in range(3):
        home.store.append(message(topic))
    home.reopen()
    found = lane(home.store.recovered(), "news")
    assert (found.tail, found.cursor, found.settled) == (3, 3, [])


def test_lanes_are_recovered_by_priority(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for priority in (4, 0, 9):
        home.store.append(message(queue, priority=priority))
    home.reopen()
    (state,) = home.store.recovered()
    assert [each.priority for each in state.lanes] == [0, 4, 9]


def test_what_was_not_durable_may_be_lost_but_its_offsets_are_not_used_again(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.append(message(queue, b"kept"))
    home.flush()
    home.store.append(message(queue, b"at risk"))
    home.store.write()
    end = home.store.append_offset()
    home.restart()
    assert lane(home.store.recovered(), "orders").tail in (1, 2)
    assert home.page(queue, 4, 0, 1).messages[0].body == b"kept"
    assert home.store.append_offset() >= end


def test_what_was_not_written_is_lost(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    home.store.append(message(queue))
    home.flush()
    home.store.append(message(queue))
    home.restart()
    assert lane(home.store.recovered(), "orders").tail == 1


def test_a_committed_transaction_is_recovered_whole(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for _ in range(3):
        home.store.append(message(queue, b"before"))
    inside = [message(queue, b"inside %d" % number) for number in range(3)]
    home.store.begin()
    for each in inside:
        home.store.append(each)
    home.settle(queue, 0, 3)
    home.store.commit()
    home.reopen()
    found = lane(home.store.recovered(), "orders")
    assert (found.tail, found.cursor) == (6, 3)
    page = home.page(queue, 4, 3, 3)
    assert [each.body for each in page.messages] == [b"inside 0", b"inside 1", b"inside 2"]
    assert all(each.flags & IN_TRANSACTION == 0 for each in page.messages)


def test_an_empty_transaction_leaves_nothing(home: Home) -> None:
    before = home.store.append_offset()
    home.store.begin()
    home.store.commit()
    assert home.store.append_offset() == before


def test_numbers_of_consumers_are_not_used_again(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    first = home.store.open_consumer(queue, {"client_id": "a"})
    home.reopen()
    assert home.store.open_consumer(queue, {"client_id": "b"}) == first + 1


def test_a_start_is_counted_and_the_store_keeps_its_name(home: Home) -> None:
    name, starts = home.store.store_id(), home.store.start_count()
    home.reopen()
    assert home.store.store_id() == name
    assert home.store.start_count() > starts


def test_settled_above_a_gap_of_many_segments(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for number in range(300):
        home.store.append(message(queue, b"x" * 200))
        if number % 10 == 9:
            home.settle_durably(queue, number - 8, 8)
    home.restart()
    found = lane(home.store.recovered(), "orders")
    assert found.tail == 300
    assert found.cursor == 0
    assert found.settled == [(number + 1, 8) for number in range(0, 300, 10)]
    assert [each.queue_offset for each in home.page(queue, 4, 0, 300).messages if each.queue_offset % 10 in (0, 9)] == [
        number for number in range(300) if number % 10 in (0, 9)
    ]


def test_places_are_found_in_each_lane(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    offsets: dict[int, list[int]] = {4: [], 9: []}
    for number in range(40):
        home.store.set_time(START_WALL_MS + 10 * number)
        each = message(topic, priority=9 if number % 4 == 3 else 4)
        home.store.append(each)
        offsets[each.priority].append(each.log_offset)
    assert home.seek(topic, SEEK_ENTRY, 3) == {4: (3, 0), 9: (3, 0)}
    assert home.seek(topic, SEEK_TIME, 0) == {4: (0, 0), 9: (0, 0)}
    assert home.seek(topic, SEEK_TIME, START_WALL_MS + 101) == {4: (9, 0), 9: (2, 0)}  # the eleventh, of priority 9
    assert home.seek(topic, SEEK_TIME, START_WALL_MS + 1_000) == {4: (30, 0), 9: (10, 0)}
    assert home.seek(topic, SEEK_LOG, offsets[9][5]) == {4: (18, 0), 9: (5, 0)}
    assert home.seek(topic, SEEK_LOG, offsets[4][18] - 1) == {4: (18, 0), 9: (6, 0)}


def test_entries_tell_of_the_messages_that_recovery_found(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    sent: list[Message] = []
    for number in range(40):
        one = message(queue, b"x" * (100 + 10 * number), priority=3)
        one.expires_ms = START_WALL_MS + number
        one.tag_hash = number
        home.store.append(one)
        home.store.append(message(queue))
        sent.append(one)
        if number % 10 == 9:
            home.flush()
    home.restart()
    found = home.store.entries(queue, 3, 5, 30)
    wanted = sent[5:35]
    assert found.first == 5
    assert found.places.tolist() == [one.log_offset for one in wanted]
    assert found.sizes.tolist() == [one.size for one in wanted]
    assert found.tags.tolist() == [one.tag_hash for one in wanted]
    assert found.expiries.tolist() == [one.expires_ms for one in wanted]


def test_messages_that_recovery_found_are_read_at_once(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    bodies = [b"%d" % number * 1_000 for number in range(10)]
    for body in bodies:
        home.store.append(message(queue, body))
    home.flush()
    home.restart()
    found = home.store.read_messages(queue, 4, 2, 100)
    assert [one.body for one in found] == bodies[2:]
    assert [one.queue_offset for one in found] == list(range(2, 10))
    assert home.store.read_messages(queue, 4, 10, 1) == []


def test_what_has_expired_is_found_without_its_records(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    for number in range(6):
        sent = message(queue, b"x" * number)
        sent.expires_ms = (0, START_WALL_MS, START_WALL_MS + 1)[number % 3]
        home.store.append(sent)

    def look(first: int, count: int) -> tuple[int, list[tuple[int, int]], int]:
        home.store.look_for_expired(queue, 4, first, count, START_WALL_MS)
        home.workers.run_all()
        return home.listener.expired[-1]

    assert look(0, 100) == (6, [(1, 14), (4, 17)], START_WALL_MS + 1)
    assert look(3, 2) == (5, [(4, 17)], NEVER_MS)
    home.flush()
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 1, 1, 0, 14)])
    home.reopen()
    assert look(2, 100) == (6, [(4, 17)], START_WALL_MS + 1)
