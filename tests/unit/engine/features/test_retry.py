"""Dead letters go back: all, some, at a rate; and what fails again is not taken twice by the same run."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import INDIVIDUAL
from engine.features.retry import HELD_MAX, SKIPPED_BYTES, Retry
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC, TOPIC
from engine.values.errors import InvalidSelector
from engine.values.message import DEAD_LETTER, Message, split_annotations
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_RETRIED
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer

DLQ = "ActiveMQ.DLQ"


def world_with_dead(count: int, to: str = "q", **values: object) -> EngineWorld:
    """A world in which ``count`` messages have died on a queue."""
    world, client = world_with_client(address("q", redelivery__maximum_redeliveries=0, **values))
    world.consumer(client, to)
    world.send(*[b"%d" % number for number in range(count)], to=to)
    world.refuse(*client.take())
    world.leave(client)
    assert world.stats(DLQ).depth == count
    return world


def retry(world: EngineWorld, selector: str = "", rate: int = 0, limit: int = 0) -> Retry:
    return world.retry(world.queue(DLQ), selector, rate, limit)


def run(world: EngineWorld, one: Retry, ms: int = 1_000) -> Retry:
    world.turn()
    world.advance(ms)
    return one


def test_all_go_back_to_where_they_came_from() -> None:
    world = world_with_dead(5)
    done = run(world, retry(world))
    assert (done.is_done, done.moved_count, done.failure) == (True, 5, "")
    assert (world.stats(DLQ).depth, world.stats().depth) == (0, 5)
    client = world.subscriber()
    assert [handed.body for handed in client.handed] == [b"%d" % number for number in range(5)]
    assert all(handed.delivery_count == 1 and not handed.is_redelivered for handed in client.handed)
    assert client.consumers and world.broker.clients, "the retry has left"
    assert len(world.broker.clients) == 1


def test_what_goes_back_carries_only_how_often_it_was_retried() -> None:
    world, client = world_with_consumer(address("q", redelivery__maximum_redeliveries=0))
    queue = world.queue("q")
    world.broker.send(queue, Message(queue.destination_id, 1, 1, 7, 1, 2, 0, b"kept:a\\cb\n", b"h:1\n", b"body"))
    world.turn()
    for count in ("1", "2"):
        world.refuse(*client.take())
        run(world, retry(world))
        (message,) = [handed.message for handed in client.handed]
        found = dict(split_annotations(message.annotations))
        assert set(found) == {"dlqRetryCount", "dlqRetriedMessageId", "kept"}
        assert (found["dlqRetryCount"], found["kept"]) == (count, "a:b")
        assert not message.flags & DEAD_LETTER
        assert (message.body, message.headers, message.priority) == (b"body", b"h:1\n", 7)


def test_a_copy_of_a_virtual_topic_keeps_the_topic_by_which_it_came() -> None:
    name = "Consumer.A.VirtualTopic.Orders"
    world, client = world_with_client(address(name, redelivery__maximum_redeliveries=0))
    world.consumer(client, world.queue(name))
    world.send(b"1", to=world.topic("VirtualTopic.Orders"))
    for _ in range(2):
        world.refuse(*client.take())
        run(world, retry(world))
        (message,) = [handed.message for handed in client.handed]
        found = split_annotations(message.annotations)
        assert [value for key, value in found if key == "original-destination"] == ["/topic/VirtualTopic.Orders"]


def test_the_move_is_one_batch_with_its_cause() -> None:
    world = world_with_dead(1)
    world.store.batches.clear()
    world.store.settled.clear()
    run(world, retry(world))
    (record,) = world.store.settled
    assert (record.outcome, record.cause) == (ACKNOWLEDGED, CAUSE_RETRIED)
    (batch,) = world.store.batches
    assert batch.records >= 2


def test_only_what_the_selector_matches() -> None:
    world, client = world_with_consumer(address("q", redelivery__maximum_redeliveries=0))
    queue = world.queue("q")
    for number in range(6):
        headers = b"colour:%b\n" % (b"red" if number % 2 else b"blue")
        world.broker.send(queue, Message(queue.destination_id, 1, 1, 4, 0, 0, 0, b"", headers, b"%d" % number))
    world.turn()
    world.refuse(*client.take())
    world.leave(client)
    done = run(world, retry(world, "colour = 'red'"))
    assert (done.is_done, done.moved_count) == (True, 3)
    assert (world.stats(DLQ).depth, world.stats().depth) == (3, 3)


def test_one_by_its_id() -> None:
    world = world_with_dead(3)
    client = world.subscriber(DLQ)
    wanted = world.broker.message_id(client.take()[1].message)
    world.leave(client)
    done = run(world, retry(world, f"JMSMessageID = '{wanted}'"))
    assert (done.moved_count, world.stats().depth) == (1, 1)


def test_a_rate_spreads_them_over_time() -> None:
    world = world_with_dead(50)
    one = retry(world, rate=20)
    run(world, one, 1_000)
    assert one.moved_count == 20
    run(world, one, 1_500)
    assert (one.moved_count, one.is_done) == (50, True)


def test_a_rate_below_a_tick() -> None:
    world = world_with_dead(3)
    one = retry(world, rate=2)
    run(world, one, 1_000)
    assert one.moved_count == 2


def test_a_limit_leaves_the_rest() -> None:
    world = world_with_dead(5)
    done = run(world, retry(world, limit=2))
    assert (done.is_done, done.moved_count, world.stats(DLQ).depth) == (True, 2, 3)


def test_what_dies_again_meanwhile_is_left() -> None:
    world = world_with_dead(10)
    killer = world.consuming()
    one = retry(world, rate=50)
    for _ in range(20):
        run(world, one, 100)
        world.refuse(*killer.take())
    assert (one.is_done, one.moved_count) == (True, 10)
    assert world.stats(DLQ).depth == 10


def test_a_message_without_an_origin_stays() -> None:
    world = world_with_dead(1)
    world.send(b"stray", to=DLQ)
    done = run(world, retry(world))
    assert (done.is_done, done.moved_count, done.skipped_count) == (True, 1, 1)
    assert world.stats(DLQ).depth == 1


def test_any_number_of_messages_without_an_origin_keeps_nobody_waiting() -> None:
    world = EngineWorld(address("q", redelivery__maximum_redeliveries=0))
    world.send(*[b"stray"] * (2 * HELD_MAX + 1), to=DLQ)
    client = world.consuming()
    world.send(b"dead")
    world.refuse(*client.take())
    world.leave(client)
    one = run(world, retry(world), 10_000)
    assert (one.is_done, one.failure, one.moved_count, one.skipped_count) == (True, "", 1, 2 * HELD_MAX + 1)
    assert (world.stats(DLQ).depth, world.stats(DLQ).in_flight, world.stats().depth) == (2 * HELD_MAX + 1, 0, 1)


def test_what_it_skips_has_a_limit() -> None:
    world = EngineWorld()
    megabyte = b"x" * 1024 * 1024
    for _ in range(SKIPPED_BYTES // len(megabyte) + 1):
        world.send(megabyte, to=DLQ)
    one = run(world, retry(world), 10_000)
    assert one.is_done and "name no original destination" in one.failure
    assert world.stats(DLQ).in_flight == 0


def test_a_bad_selector_is_refused_and_leaves_nobody_behind() -> None:
    world = world_with_dead(1)
    with pytest.raises(InvalidSelector):
        retry(world, "colour = ")
    assert world.broker.clients == {}


def test_stopping_gives_back_what_it_holds() -> None:
    world = world_with_dead(5)
    one = retry(world, rate=1)
    world.turn()
    one.stop("asked to")
    world.turn()
    client = world.subscriber(DLQ, INDIVIDUAL)
    assert len(client.handed) == 5
    assert (one.is_done, one.failure) == (True, "asked to")


@pytest.mark.parametrize("kind", [TEMP_QUEUE, TEMP_TOPIC, TOPIC])
def test_what_died_where_nothing_is_kept_stays_among_the_dead(kind: int) -> None:
    world, client = world_with_client(address("#", redelivery__maximum_redeliveries=0))
    if kind == TOPIC:
        source: Queue | Topic = world.topic("ActiveMQ.Advisory.Queue")
    else:
        source = world.broker.open_temporary(client, kind)
    world.consumer(client, source)
    world.send(b"x", to=source, persistent=False)
    world.refuse(*client.take())
    world.leave(client)
    queues = set(world.queue_names())
    done = run(world, retry(world))
    assert (done.is_done, done.moved_count, done.skipped_count) == (True, 0, 1)
    assert world.stats(DLQ).depth == 1
    assert set(world.queue_names()) == queues


def test_a_dead_letter_that_names_a_pattern_stays() -> None:
    world = EngineWorld()
    queue = world.queue(DLQ)
    origin = b"original-destination:/topic/news.>\n"
    world.broker.send(queue, Message(queue.destination_id, 1, 1, 4, 0, 0, 0, origin, b"", b"1"))
    done = run(world, retry(world))
    assert (done.is_done, done.moved_count, done.skipped_count) == (True, 0, 1)
    assert world.topic_names() == [], "no topic is made whose name no client could use"
