"""Where messages go that are given up (docs/reference/semantics.md): the strategies, and what is not kept."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.destination import TOPIC
from engine.values.message import Message
from engine.values.options import SubscribeOptions
from engine.values.outcomes import DROPPED, EXPIRED
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient

DLQ = "ActiveMQ.DLQ"


def give_up(world: EngineWorld, to: str = "q", *, is_topic: bool = False, persistent: bool = True) -> FakeClient:
    """Send one message and refuse it for good."""
    client = world.client()
    destinations = world.broker.destinations
    destination = destinations.topic(to) if is_topic else destinations.queue(to)
    world.consumer(client, destination, INDIVIDUAL)
    world.send(b"1", to=destination, persistent=persistent)
    world.refuse(*client.take())
    return client


def last(pattern: str = ">", **values: object) -> EngineWorld:
    return EngineWorld(address(pattern, redelivery__maximum_redeliveries=0, **values))


@pytest.mark.parametrize(
    ("is_topic", "values", "expected"),
    [
        (False, {}, "ActiveMQ.DLQ.Queue.orders.eu"),
        (True, {}, "ActiveMQ.DLQ.Topic.orders.eu"),
        (False, {"queue_prefix": "DLQ."}, "DLQ.orders.eu"),
        (False, {"queue_prefix": "", "queue_suffix": ".dead"}, "orders.eu.dead"),
        (True, {"topic_prefix": "T.", "topic_suffix": ".dead"}, "T.orders.eu.dead"),
    ],
)
def test_individual_dead_letter_queues(is_topic: bool, values: dict[str, str], expected: str) -> None:
    world = last(
        "orders.>",
        dead_letters__strategy="individual",
        **{f"dead_letters__{name}": value for name, value in values.items()},
    )
    give_up(world, "orders.eu", is_topic=is_topic)
    assert world.depth(expected) == 1


def test_a_dead_letter_topic_is_published_to() -> None:
    world = last("t", dead_letters__strategy="individual", dead_letters__use_queue_for_topic_messages=False)
    mourner = world.consuming(world.topic("ActiveMQ.DLQ.Topic.t"))
    give_up(world, "t", is_topic=True)
    assert mourner.bodies() == [b"1"]


def test_discarding_drops_and_counts() -> None:
    world = last(dead_letters__strategy="discard")
    give_up(world)
    assert [record.outcome for record in world.store.settled] == [DROPPED]
    assert (world.stats().dead_lettered, world.stats().depth) == (1, 0)
    assert not world.has_queue(DLQ)


@pytest.mark.parametrize(("is_kept", "depth"), [(True, 1), (False, 0)])
def test_non_persistent_messages_are_kept_unless_switched_off(is_kept: bool, depth: int) -> None:
    world = last(dead_letters__process_non_persistent=is_kept)
    give_up(world, persistent=False)
    queue = world.queue_there(DLQ) if world.has_queue(DLQ) else None
    assert (0 if queue is None else queue.depth) == depth
    assert world.stats().dead_lettered == 1


def test_a_dead_letter_may_expire() -> None:
    world = last("q", dead_letters__expiration_ms=60_000)
    give_up(world)
    operator = world.subscriber(DLQ)
    (delivery,) = operator.take()
    assert delivery.message.expires_ms == world.clock.wall_ms() + 60_000


def expire_one(world: EngineWorld, *, persistent: bool = True) -> None:
    world.send(b"1", expires_ms=world.clock.wall_ms() + 10, persistent=persistent)
    world.advance(11)
    world.subscribe(world.client())


def test_expired_messages_are_dropped_by_default() -> None:
    world = EngineWorld()
    expire_one(world)
    assert (world.stats().expired, world.stats().depth) == (1, 0)
    assert not world.has_queue(DLQ)


def test_expired_messages_become_dead_letters_where_activemq_s_way_is_asked_for() -> None:
    world = EngineWorld(address(">", dead_letters__process_expired=True))
    expire_one(world)
    assert world.stats(DLQ).depth == 1
    assert [record.outcome for record in world.store.settled] == [EXPIRED]


def test_expired_non_persistent_messages_may_be_left_out() -> None:
    world = EngineWorld(address(">", dead_letters__process_expired=True, dead_letters__process_non_persistent=False))
    expire_one(world, persistent=False)
    assert not world.has_queue(DLQ)
    assert (world.stats().expired, world.stats().depth) == (1, 0)
    assert world.memory_used() == 0


def test_artemis_own_expiry_queues() -> None:
    world = EngineWorld(address("q", expiry__strategy="individual"))
    expire_one(world)
    assert world.depth("EXP.q") == 1


def test_what_expires_where_expired_messages_go_is_dropped() -> None:
    world = EngineWorld(address("q", expiry_address="q"))
    expire_one(world)
    assert (world.stats().expired, world.stats().depth) == (1, 0)


# -- no route


def no_route(**values: object) -> EngineWorld:
    return EngineWorld(address("t", dead_letters__send_to_dla_on_no_route=True, dead_letter_address="dead", **values))


def sent_on(world: EngineWorld) -> list[Message]:
    client = world.subscriber("dead", AUTO)
    return [one.message for one in client.handed]


@pytest.mark.parametrize("persistent", [True, False])
def test_what_no_subscription_takes_becomes_a_dead_letter(persistent: bool) -> None:
    world = no_route()
    topic = world.topic("t")
    world.send(b"1", to=topic, persistent=persistent)
    (dead,) = sent_on(world)
    added = dict(line.split(":", 1) for line in dead.annotations.decode().splitlines())
    assert (added["original-destination"], added["dlqCause"]) == ("/topic/t", "no-route")
    assert dead.body == b"1"
    assert topic.fates.dead_lettered_count == 1


def test_it_is_in_the_batch_of_what_was_sent() -> None:
    world = no_route()
    topic = world.topic("t")
    world.send(b"1", to=topic)
    assert [batch.records for batch in world.store.batches] == [3], "the queue's record, the message, its letter"
    transaction = Transaction(world.client(), "tx", TransactionLimits())
    for _ in range(2):
        transaction.add_send(topic, world.message(topic, b"x"))
    world.broker.commit(transaction)
    assert [batch.records for batch in world.store.batches] == [3, 4], "two messages and what becomes of them"


def test_a_retry_to_where_still_nobody_takes_it_moves_it_back_in_one_batch() -> None:
    world = no_route()
    world.send(b"1", to=world.topic("t"))
    world.store.batches.clear()
    one = world.retry(world.queue("dead"), limit=1)
    world.turn()
    world.advance(1_000)
    assert one.moved_count == 1
    assert [batch.records for batch in world.store.batches] == [4], (
        "sent, settled, and dead again in a queue that is new"
    )
    assert world.stats("dead").depth == 1


def test_what_a_subscription_takes_does_not() -> None:
    world = no_route()
    topic = world.topic("t")
    client = world.client()
    selective = world.consumer(client, topic, AUTO, selector="colour = 'red'")
    world.send(b"red", to=topic, headers="colour:red")
    world.send(b"blue", to=topic, headers="colour:blue")
    world.consumer(client, topic, AUTO)
    world.send(b"green", to=topic, headers="colour:green")
    assert [one.body for one in sent_on(world)] == [b"blue"]
    assert selective.acknowledged_count == 1


def test_a_durable_subscription_without_a_consumer_takes_it() -> None:
    world = no_route()
    topic = world.topic("t")
    client = world.client(client_id="me")
    world.consumer(client, topic, subscription="s", is_durable=True)
    world.leave(client)
    world.send(b"1", to=topic)
    assert sent_on(world) == []


def test_without_the_setting_it_is_gone() -> None:
    world = EngineWorld(address("t", dead_letter_address="dead"))
    world.send(b"1", to=world.topic("t"))
    assert sent_on(world) == []


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_dead_letter_of_a_wildcard_s_subscription_names_the_topic_not_the_pattern(is_durable: bool) -> None:
    world = last("news.eu", dead_letters__strategy="individual", redelivery__initial_redelivery_delay_ms=0)
    client = world.client("worker", client_id="w")
    options = SubscribeOptions(
        INDIVIDUAL,
        subscription="s" if is_durable else "",
        is_durable=is_durable,
        redelivery={"maximum_redeliveries": 0},
    )
    topic = world.topic("news.eu")
    world.broker.subscribe(client, Wildcard(TOPIC, "news.>"), options).start()
    world.send(b"1", to=topic)
    world.refuse(*client.take())
    (name,) = world.queue_names()
    assert name == "ActiveMQ.DLQ.Topic.news.eu"
    operator = world.subscriber(name)
    (dead,) = operator.take()
    assert "original-destination:/topic/news.eu\n" in dead.message.annotations.decode()
