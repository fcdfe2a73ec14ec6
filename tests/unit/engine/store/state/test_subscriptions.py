"""Durable subscriptions, closed destinations, readers and live bytes: what engine.ports.Store promises of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.values.destination import QUEUE, SUBSCRIPTION, TOPIC
from engine.values.outcomes import (
    ACKNOWLEDGED,
    CAUSE_CONNECTION_LOST,
    CAUSE_NACK,
    CAUSE_NONE,
    CAUSE_NOT_SELECTED,
    DROPPED,
)
from engine.values.stored import Attempts, DestinationState, Range
from tests.support.fakes import START_WALL_MS
from tests.support.store.store_home import UNLIMITED, FileHome, Home, MemoryHome, lane, message

SIZE = message(1, b"body").size


@pytest.fixture(params=[FileHome, MemoryHome])
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    home: Home = request.param()
    yield home
    home.workers.run_all()
    home.store.close()


def send(home: Home, destination_id: int, count: int, priority: int = 4) -> None:
    for _ in range(count):
        home.store.append(message(destination_id, b"body", priority))


def acknowledge(home: Home, number: int, first: int, count: int, priority: int = 4) -> None:
    ranges = [Range(priority, first, count, 0, count * SIZE, [SIZE] * count)]
    home.store.settle(number, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)


def restart(home: Home) -> None:
    home.reopen()


def state(home: Home, number: int) -> DestinationState:
    (found,) = [each for each in home.store.recovered() if each.destination_id == number]
    return found


def live_bytes(home: Home, number: int) -> int:
    """Return what is live, which a restart must not change."""
    now = home.store.state_of(number).live_bytes
    restart(home)
    assert state(home, number).live_bytes == now
    return now


def test_a_subscription_begins_behind_what_was_published_before_it(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    send(home, topic, 3)
    number = home.store.open_subscription(topic, "mail", {"client_id": "c1", "selector": "a > 1"})
    assert number > topic
    send(home, topic, 2)
    send(home, topic, 1, priority=9)
    now = home.store.state_of(number)
    restart(home)
    found = state(home, number)
    for each in (now, found):
        assert (each.kind, each.name, each.topic_id) == (SUBSCRIPTION, "mail", topic)
        assert each.description == {"client_id": "c1", "selector": "a > 1"}
        assert [(one.priority, one.tail, one.cursor) for one in each.lanes] == [(4, 5, 3), (9, 1, 0)]
    assert home.store.open_destination(QUEUE, "orders") > number


def test_a_retroactive_subscription_begins_where_it_is_told(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    send(home, topic, 3)
    send(home, topic, 2, priority=0)
    number = home.store.open_subscription(topic, "mail", {}, {4: 1})
    restart(home)
    assert [(one.priority, one.tail, one.cursor) for one in state(home, number).lanes] == [(0, 2, 2), (4, 3, 1)]
    assert [one.queue_offset for one in home.page(topic, 4, 1, 10).messages] == [1, 2]
    assert state(home, topic).live_bytes == 0, "what was there before it does not fill the address on its behalf"


def test_a_start_past_the_tail_is_the_tail(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    send(home, topic, 3)
    number = home.store.open_subscription(topic, "mail", {}, {4: 10})
    assert home.store.state_of(number).lanes[0].cursor == 3


def test_what_subscriptions_settle_is_theirs_alone(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    one = home.store.open_subscription(topic, "one", {})
    two = home.store.open_subscription(topic, "two", {})
    send(home, topic, 6)
    acknowledge(home, one, 0, 2)
    acknowledge(home, one, 4, 1)
    home.store.settle(two, 0, DROPPED, CAUSE_NOT_SELECTED, [Range(4, 0, 1, 0, SIZE, (SIZE,))])
    restart(home)
    first, second = state(home, one).lanes[0], state(home, two).lanes[0]
    assert (first.tail, first.cursor, first.settled) == (6, 2, [(4, 1)])
    assert (second.tail, second.cursor, second.settled) == (6, 1, [])
    found = lane([state(home, topic)], "news")
    assert (found.tail, found.cursor) == (6, 6)


def test_attempts_tell_of_the_first_and_the_last_failure(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    queue = home.store.open_destination(QUEUE, "orders")
    number = home.store.open_subscription(topic, "mail", {})
    consumer = home.store.open_consumer(queue, {"client_id": "c1", "address": "10.0.0.1"})
    other = home.store.open_consumer(queue, {"client_id": "c2"})
    for destination_id, failing in ((topic, number), (queue, queue)):
        send(home, destination_id, 2)
        home.store.set_time(START_WALL_MS + 10)
        home.store.fail_attempts(failing, consumer, CAUSE_NACK, 77, [Range(4, 1, 1, 1)])
        home.store.set_time(START_WALL_MS + 20)
        home.store.fail_attempts(failing, other, CAUSE_CONNECTION_LOST, 0, [Range(4, 1, 1, 2)])
    restart(home)
    first_ms = state(home, queue).lanes[0].attempts[1].first_ms
    assert first_ms == START_WALL_MS + 20
    expected = Attempts(2, 0, START_WALL_MS + 10, START_WALL_MS + 20, CAUSE_CONNECTION_LOST, other)
    assert state(home, number).lanes[0].attempts == {1: expected}
    assert home.store.consumer_description(other) == {"client_id": "c2"}
    assert home.store.consumer_description(consumer) == {}, "nothing refers to it any more"
    acknowledge(home, number, 1, 1)
    acknowledge(home, queue, 1, 1)
    restart(home)
    assert state(home, number).lanes[0].attempts == {}
    assert home.store.consumer_description(other) == {}


def test_a_consumer_that_is_open_can_be_asked_for(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    consumer = home.store.open_consumer(queue, {"client_id": "c1"})
    assert home.store.consumer_description(consumer) == {"client_id": "c1"}
    assert home.store.consumer_description(consumer + 1) == {}


def test_closed_consumers_do_not_gather(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 1)
    named = home.store.open_consumer(queue, {"client_id": "named"})
    home.store.fail_attempts(queue, named, CAUSE_NACK, 0, [Range(4, 0, 1, 1)])
    home.store.close_consumer(named)
    first = home.store.open_consumer(queue, {"client_id": "first"})
    home.store.close_consumer(first)
    for number in range(3000):
        home.store.close_consumer(home.store.open_consumer(queue, {"client_id": str(number)}))
    assert home.store.consumer_description(first) == {}
    assert home.store.consumer_description(named) == {"client_id": "named"}


def test_a_closed_subscription_is_gone(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    number = home.store.open_subscription(topic, "mail", {})
    send(home, topic, 3)
    home.store.close_destination(number)
    restart(home)
    assert [each.destination_id for each in home.store.recovered()] == [topic]
    again = home.store.open_subscription(topic, "mail", {})
    assert again > number
    assert home.store.state_of(again).lanes[0].cursor == 3


def test_a_closed_queue_is_gone_and_its_name_free(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 3)
    home.store.close_destination(queue)
    again = home.store.open_destination(QUEUE, "orders")
    assert again > queue
    send(home, again, 1)
    restart(home)
    (found,) = home.store.recovered()
    assert (found.destination_id, found.lanes[0].tail, found.live_bytes) == (again, 1, SIZE)
    home.store.close_destination(again)
    restart(home)
    assert home.store.recovered() == []
    assert home.store.open_destination(QUEUE, "orders") > again, "numbers are never used again"


def test_a_closed_topic_takes_its_subscriptions_along(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    number = home.store.open_subscription(topic, "mail", {})
    send(home, topic, 3)
    home.store.close_destination(topic)
    restart(home)
    assert home.store.recovered() == []
    assert home.store.open_destination(TOPIC, "news") > number


def test_several_readers_ask_for_one_lane_at_a_time(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 6)
    home.flush()
    home.listener.pages.clear()
    for first, reader in ((0, 0), (4, 7), (2, 8)):
        home.store.request(queue, 4, first, 2, UNLIMITED, reader)
    home.workers.run_all()
    assert [(page.reader, page.first, len(page.messages)) for page in home.listener.pages] == [
        (0, 0, 2),
        (7, 4, 2),
        (8, 2, 2),
    ]


def test_live_bytes_of_a_queue(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 5)
    send(home, queue, 2, priority=7)
    assert live_bytes(home, queue) == 7 * SIZE
    acknowledge(home, queue, 1, 2)
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(7, 1, 1, 0, SIZE, (SIZE,))])
    assert live_bytes(home, queue) == 4 * SIZE
    ranges = [Range(4, 0, 1, 0, SIZE), Range(4, 3, 2, 0, 2 * SIZE), Range(7, 0, 1, 0, SIZE)]
    home.store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, ranges)
    assert live_bytes(home, queue) == 0


def test_live_bytes_of_a_topic_last_until_its_last_subscription_has_settled(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    send(home, topic, 3)
    assert live_bytes(home, topic) == 0
    one = home.store.open_subscription(topic, "one", {})
    two = home.store.open_subscription(topic, "two", {})
    send(home, topic, 4)
    assert live_bytes(home, topic) == 4 * SIZE
    acknowledge(home, one, 3, 3)
    assert live_bytes(home, topic) == 4 * SIZE
    acknowledge(home, two, 4, 3)
    assert live_bytes(home, topic) == 2 * SIZE, "entries 3 and 6"
    late = home.store.open_subscription(topic, "late", {}, {4: 0})
    send(home, topic, 1)
    acknowledge(home, late, 0, 7)
    assert live_bytes(home, topic) == 3 * SIZE
    acknowledge(home, one, 6, 2)
    acknowledge(home, two, 3, 1)
    acknowledge(home, two, 7, 1)
    assert live_bytes(home, topic) == SIZE
    acknowledge(home, late, 7, 1)
    assert live_bytes(home, topic) == 0


def test_live_bytes_are_nothing_once_the_last_subscription_is_closed(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    one = home.store.open_subscription(topic, "one", {})
    send(home, topic, 4)
    acknowledge(home, one, 0, 1)
    home.store.close_destination(one)
    assert live_bytes(home, topic) == 0
    home.store.open_subscription(topic, "two", {})
    send(home, topic, 2)
    assert live_bytes(home, topic) == 2 * SIZE


def test_live_bytes_of_a_transaction_that_was_not_committed(home: Home) -> None:
    queue = home.store.open_destination(QUEUE, "orders")
    send(home, queue, 2)
    home.flush()
    home.store.begin()
    send(home, queue, 3)
    acknowledge(home, queue, 0, 2)
    home.store.commit()
    home.restart()
    assert state(home, queue).live_bytes == 2 * SIZE


def test_what_a_closed_subscription_alone_kept_is_freed_and_no_more(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    one = home.store.open_subscription(topic, "one", {})
    send(home, topic, 4)
    two = home.store.open_subscription(topic, "two", {})
    send(home, topic, 6)
    acknowledge(home, one, 2, 1)
    acknowledge(home, two, 5, 3)
    home.store.close_destination(one)
    send(home, topic, 2)
    send(home, topic, 1, priority=8)
    home.workers.run_all()
    assert live_bytes(home, topic) == 6 * SIZE, "4, 8, 9 and the last three"
    acknowledge(home, two, 4, 1)
    acknowledge(home, two, 8, 4)
    acknowledge(home, two, 0, 1, priority=8)
    assert live_bytes(home, topic) == 0


def test_a_topic_without_subscriptions_that_gets_one_again(home: Home) -> None:
    topic = home.store.open_destination(TOPIC, "news")
    one = home.store.open_subscription(topic, "one", {})
    two = home.store.open_subscription(topic, "two", {})
    send(home, topic, 4)
    home.store.close_destination(one)
    home.store.close_destination(two)
    home.store.open_subscription(topic, "three", {})
    send(home, topic, 1)
    home.workers.run_all()
    assert live_bytes(home, topic) == SIZE
