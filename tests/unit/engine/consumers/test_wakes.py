"""Consumers that rest until there is room, and those whose rate is used up: buckets and the gates of the engine."""

from __future__ import annotations

import pytest

from engine.consumers.composite_consumer import JOIN_STEPS
from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.turn_steps import QUEUE_STEPS, TURN_STEPS
from engine.consumers.wakes import WAKE_STEPS
from engine.consumers.window_limits import TokenBucket
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import CompositeSource
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient

MANY = 1_200


def with_queues(count: int) -> EngineWorld:
    world = EngineWorld()
    for number in range(count):
        world.queue(f"q.{number}")
    return world


def subscribe_to_all(world: EngineWorld, client: FakeClient, prefetch: int = 1) -> Consumer:
    return world.consumer(client, world.source(QUEUE, "q.>"), INDIVIDUAL, prefetch)


def joined(world: EngineWorld) -> int:
    return sum(len(queue.consumers) for queue in world.queues())


def test_a_wildcard_subscription_comes_and_goes_some_queues_a_turn() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    world.turn()
    assert 0 < joined(world) < MANY, "what is left goes on in the next turns"
    world.finish_turns()
    assert joined(world) == MANY
    world.unsubscribe(consumer)
    assert 0 < joined(world) < MANY
    world.finish_turns()
    assert joined(world) == 0
    assert client.consumers == {}
    assert world.most_steps() <= TURN_STEPS + JOIN_STEPS


def test_nothing_comes_once_it_is_closed_though_some_of_it_is_still_there() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client, 100)
    world.finish_turns()
    world.unsubscribe(consumer)
    left = [queue.name for queue in world.queues() if queue.consumers]
    assert left
    world.send(b"late", to=left[-1])
    world.finish_turns()
    assert client.handed == []
    assert world.stats(left[-1]).depth == 1


def test_a_connection_that_is_lost_twice_over_closes_each_once() -> None:
    world = with_queues(MANY)
    client = world.client()
    subscribe_to_all(world, client)
    world.lose(client)  # before all have joined
    world.finish_turns()
    assert joined(world) == 0
    assert client.consumers == {}


def test_a_new_queue_is_joined_by_many_some_a_turn() -> None:
    world = EngineWorld()
    for _ in range(MANY):
        world.consumer(world.client(), world.source(QUEUE, "q.>"), INDIVIDUAL, 1)
    world.turn()
    queue = world.queue("q.new")
    world.turn()
    assert 0 < len(queue.consumers) < MANY
    world.finish_turns()
    assert len(queue.consumers) == MANY
    assert world.most_steps() <= TURN_STEPS + JOIN_STEPS


def test_a_queue_that_comes_while_a_wildcard_joins_is_joined_once() -> None:
    world = with_queues(MANY)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    queue = world.queue("q.new")
    world.finish_turns()
    assert len(queue.consumers) == 1
    assert consumer.siblings is not None
    assert len(consumer.siblings.members) == MANY + 2, "each queue's, and the lead"


def test_a_message_of_many_queues_wakes_one_consumer_of_a_shared_window() -> None:
    world = with_queues(MANY)
    client = world.client()
    subscribe_to_all(world, client)
    world.finish_turns()
    for number in range(MANY):
        world.broker.send(queue := world.queue(f"q.{number}"), world.message(queue, b"%d" % number))
    world.turn()
    came = []
    step_count = 0
    for _ in range(MANY):
        world.count_steps_anew()
        held = client.take()
        assert len(held) == 1
        came.append(int(held[0].message.body))
        world.acknowledge(held[0])
        step_count += world.most_steps()
    assert sorted(came) == list(range(MANY)), "each queue has its turn"
    most = (2 * WAKE_STEPS + QUEUE_STEPS) * MANY
    assert step_count <= most, "each is woken for its message in a round of its own, and once more finds nothing"


def test_a_window_that_opens_finds_the_one_queue_with_a_message_among_many() -> None:
    world = with_queues(50)
    client = world.client()
    subscribe_to_all(world, client)
    world.send(b"first", to="q.3")
    [held] = client.take()
    for number in range(50):
        world.send(b"gone", to=f"q.{number}", expires_ms=world.broker.wall_ms + 10)
    world.send(b"stays", to="q.49")
    world.advance(20)
    world.acknowledge(held)
    assert [one.message.body for one in client.take()] == [b"stays"]


def test_a_socket_that_drains_wakes_what_waited_for_it_and_nobody_else() -> None:
    world = with_queues(MANY)
    client = world.client()
    for number in range(MANY):
        world.consumer(client, f"q.{number}", AUTO)
    world.turn()
    client.is_output_full = True
    world.send(b"x", to="q.7")
    world.count_steps_anew()
    world.drain_output(client)
    assert client.bodies() == [b"x"]
    assert world.most_steps() == WAKE_STEPS


def test_what_shares_a_window_waits_for_the_socket_too() -> None:
    world = with_queues(3)
    client = world.client()
    subscribe_to_all(world, client)
    client.is_output_full = True
    for number in range(3):
        world.send(b"x", to=f"q.{number}")
    assert client.handed == []
    for _ in range(3):
        world.drain_output(client)
        client.is_output_full = True
        [held] = client.take()
        world.acknowledge(held)
        assert client.handed == []


def test_closing_while_the_socket_takes_nothing_leaves_nobody_behind() -> None:
    world = with_queues(3)
    client = world.client()
    consumer = subscribe_to_all(world, client)
    client.is_output_full = True
    world.send(b"x", to="q.1")
    world.unsubscribe(consumer)
    assert not client.resting
    assert world.subscriber("q.1", AUTO).bodies() == [b"x"]


def test_one_closing_gives_back_what_each_of_its_queues_had() -> None:
    world = with_queues(3)
    client = world.client()
    destinations = world.broker.destinations
    source = CompositeSource([destinations.queue(f"q.{number}") for number in range(3)])
    consumer = world.consumer(client, source, INDIVIDUAL, 10)
    for number in range(3):
        world.send(b"a", b"b", to=f"q.{number}")
    assert len(client.take()) == 6
    world.unsubscribe(consumer)
    assert [(world.stats(f"q.{number}").in_flight, world.stats(f"q.{number}").depth) for number in range(3)] == [
        (0, 2)
    ] * 3


def test_credit_granted_while_the_socket_takes_nothing_is_used_once_it_does() -> None:
    world = with_queues(3)
    client = world.client()
    consumer = world.consumer(client, world.source(QUEUE, "q.>"), is_credited=True)
    world.finish_turns()
    world.send(b"x", to="q.1")
    client.is_output_full = True
    consumer.grant(1)  # before that even the lead rests with its siblings
    world.turn()
    world.drain_output(client)
    assert client.bodies() == [b"x"]


@pytest.mark.parametrize("is_disconnected", [False, True])
def test_what_goes_before_it_has_joined_its_topics_leaves_none_of_them_behind(is_disconnected: bool) -> None:
    world, client = world_with_client()
    source = CompositeSource([world.topic("a"), world.topic("b"), world.queue("c")])
    world.leave_steps(0)
    consumer = world.consumer(client, source, INDIVIDUAL, 10)
    world.send(b"kept for nobody", to=world.topic("b"), persistent=False)
    world.leave_steps(0)
    world.broker.disconnect(client, is_lost=False) if is_disconnected else world.broker.unsubscribe(consumer, False)
    world.finish_turns()
    world.send(b"kept for nobody", to=world.topic("a"), persistent=False)
    assert world.feeds() == []
    assert world.memory_used() == 0


def subscribe(world: EngineWorld, client: FakeClient, to: Queue | Topic, options: SubscribeOptions) -> Consumer:
    consumer = world.broker.subscribe(client, to, options)
    consumer.start()
    world.turn()
    return consumer


def test_a_bucket_is_full_again_a_second_after_its_first_token() -> None:
    bucket = TokenBucket(2)
    assert [bucket.take(ms) for ms in (0, 900, 950, 999, 1_000, 1_001, 1_002)] == [
        True,
        True,
        False,
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_consumer_gets_so_many_a_second(ack_mode: int, kind: str) -> None:
    world = EngineWorld(address("d", flow__consumer_max_rate_per_second=3))
    destination = world.queue("d") if kind == "queue" else world.topic("d")
    client = world.client()
    consumer = subscribe(world, client, destination, SubscribeOptions(ack_mode, 100))
    world.send(*(b"%d" % number for number in range(8)), to=destination, persistent=False)
    assert client.bodies() == [b"0", b"1", b"2"]
    assert consumer.describe_gate() == "rate: 3 messages a second (consumer-max-rate)"
    world.advance(999)
    assert client.bodies() == []
    world.advance(1)
    assert client.bodies() == [b"3", b"4", b"5"]
    world.advance(1_000)
    assert client.bodies() == [b"6", b"7"]
    assert consumer.describe_gate() in ("nothing-waiting", "")


def test_what_the_consumer_asks_for_is_above_its_address() -> None:
    world, client = world_with_client(address("q", flow__consumer_max_rate_per_second=3))
    subscribe(world, client, world.queue("q"), SubscribeOptions(AUTO, rate=-1))
    world.send(*[b"x"] * 8)
    assert len(client.bodies()) == 8


def test_another_consumer_takes_what_one_may_not() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    slow, quick = world.client(), world.client()
    subscribe(world, slow, queue, SubscribeOptions(AUTO, rate=1))
    subscribe(world, quick, queue, SubscribeOptions(AUTO))
    world.send(*[b"x"] * 8)
    assert (len(slow.bodies()), len(quick.bodies())) == (1, 7)


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"], ids=["plain", "with a selector"])
def test_a_window_of_octets_in_the_engine(selector: str) -> None:
    world, client = world_with_client()
    options = SubscribeOptions(INDIVIDUAL, 100, window_bytes=100, selector=selector)
    consumer = subscribe(world, client, world.queue("q"), options)
    world.send(*(b"x" * 40 for _ in range(6)))
    first, second, third = client.take()
    assert consumer.describe_gate() == (
        "bytes-full: 120 of 100 octets in flight (consumer-window-size), resumes when 50 more are settled"
    )
    world.acknowledge(first)
    assert client.take() == []
    world.acknowledge(second)
    assert len(client.take()) == 2
    world.acknowledge(third)
    world.lose(client)
    assert world.stats().in_flight == 0


def test_a_consumer_that_waits_for_its_second_may_go() -> None:
    world, client = world_with_client()
    subscribe(world, client, world.queue("q"), SubscribeOptions(AUTO, rate=1))
    world.send(b"1", b"2")
    world.lose(client)
    world.advance(1_000)
    assert world.stats().depth == 1
    assert world.rated_count() == 0


# -- transactions (ActiveMQ usePrefetchExtension)


@pytest.mark.parametrize(("extends", "more"), [(True, 1), (False, 0)])
def test_an_acknowledgement_in_a_transaction_frees_its_place_unless_told_otherwise(extends: bool, more: int) -> None:
    world, client = world_with_consumer(address("q", prefetch__use_prefetch_extension=extends), prefetch=1)
    world.send(b"1", b"2", b"3")
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_accepted(client.take())
    world.turn()
    assert len(client.handed) == more
    world.broker.commit(transaction)
    world.turn()
    assert len(client.handed) == 1, "with it the one handed over before, without it the next"
    world.acknowledge(*client.take())
    assert len(client.take()) == 1


def test_an_abort_without_extension_leaves_the_window_as_it_was() -> None:
    world, client = world_with_client(address("q", prefetch__use_prefetch_extension=False))
    consumer = world.consumer(client, prefetch=1)
    world.send(b"1", b"2")
    transaction = Transaction(client, "t", TransactionLimits())
    deliveries = client.take()
    transaction.add_accepted(deliveries)
    world.broker.abort(transaction)
    world.turn()
    assert (consumer.window.in_flight, client.handed) == (1, [])
    world.acknowledge(*deliveries)
    assert len(client.take()) == 1


@pytest.mark.parametrize(("persistent", "count"), [(True, 2), (False, 4)])
def test_the_head_of_the_queue_decides_which_limit_counts(persistent: bool, count: int) -> None:
    world, client = world_with_consumer(
        address("q", prefetch__queue_prefetch=2, prefetch__non_persistent_queue_prefetch=4)
    )
    world.turn()
    world.send(*[b"x"] * 6, persistent=persistent)
    assert len(client.take()) == count
