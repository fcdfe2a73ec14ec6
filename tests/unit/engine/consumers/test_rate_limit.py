"""So many a second: buckets, and consumers at the gate RATE or BYTES_FULL in the engine."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, INDIVIDUAL, Consumer
from engine.consumers.token_bucket import TokenBucket
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.transaction import Transaction, TransactionLimits
from engine.values.options import SubscribeOptions
from tests.support.engine.engine_world import EngineWorld, address
from tests.support.fakes import FakeClient


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
    world = EngineWorld(address("q", flow__consumer_max_rate_per_second=3))
    client = world.client()
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
    world = EngineWorld()
    client = world.client()
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
    world = EngineWorld()
    client = world.client()
    subscribe(world, client, world.queue("q"), SubscribeOptions(AUTO, rate=1))
    world.send(b"1", b"2")
    world.lose(client)
    world.advance(1_000)
    assert world.stats().depth == 1
    assert world.rated_count() == 0


# -- transactions (ActiveMQ usePrefetchExtension)


@pytest.mark.parametrize(("extends", "more"), [(True, 1), (False, 0)])
def test_an_acknowledgement_in_a_transaction_frees_its_place_unless_told_otherwise(extends: bool, more: int) -> None:
    world = EngineWorld(address("q", prefetch__use_prefetch_extension=extends))
    client = world.client()
    world.consumer(client, prefetch=1)
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
    world = EngineWorld(address("q", prefetch__use_prefetch_extension=False))
    client = world.client()
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
    world = EngineWorld(address("q", prefetch__queue_prefetch=2, prefetch__non_persistent_queue_prefetch=4))
    client = world.client()
    world.consumer(client)
    world.turn()
    world.send(*[b"x"] * 6, persistent=persistent)
    assert len(client.take()) == count
