"""A look at everything, in steps between which the engine goes on."""

from __future__ import annotations

from engine.inspection import AT_ONCE, Inspection
from engine.values.broker_stats import BrokerStats
from tests.support.engine.engine_world import EngineWorld, address


def world_of(queue_count: int) -> EngineWorld:
    world = EngineWorld(address("q.>", full__max_size_bytes=1_000_000, full__address_full_policy="BLOCK"))
    for number in range(queue_count):
        world.queue(f"q.{number}")
    return world


def looked(inspection: Inspection) -> tuple[int, BrokerStats]:
    """Return how many steps it took, and what was seen."""
    return sum(1 for _ in inspection.steps()), inspection.stats()


def test_a_step_is_some_destinations_consumers_or_addresses() -> None:
    world = world_of(2 * AT_ONCE + 1)
    client = world.client()
    for number in range(AT_ONCE + 1):
        world.consumer(client, f"q.{number}", name=str(number))
    count, stats = looked(Inspection(world.broker.inspector))
    assert count == 3 + 2 + 3
    assert [one.name for one in stats.destinations] == [f"q.{number}" for number in range(2 * AT_ONCE + 1)]
    assert [one.subscription for one in stats.consumers] == [str(number) for number in range(AT_ONCE + 1)]
    assert len(stats.addresses) == 2 * AT_ONCE + 1
    assert stats == world.broker.inspect()


def test_producers_that_have_opened_are_counted_where_they_send() -> None:
    world = EngineWorld()
    client = world.client()
    queue, topic = world.queue("q"), world.topic("t")
    advisories = world.broker.advisories
    first = advisories.producer_added(client, queue)
    advisories.producer_added(client, queue)
    advisories.producer_added(client, topic)
    assert _producers(world) == {"q": 2, "t": 1}
    advisories.producer_removed(client, queue, first)
    assert _producers(world) == {"q": 1, "t": 1}


def _producers(world: EngineWorld) -> dict[str, int]:
    return {one.name: one.producers for one in world.broker.inspect().destinations}


def test_what_goes_between_two_steps_is_not_shown() -> None:
    world = world_of(AT_ONCE + 2)
    client = world.client()
    consumers = [world.consumer(client, f"q.{number}") for number in range(3)]
    inspection = Inspection(world.broker.inspector)
    steps = inspection.steps()
    next(steps)
    world.delete(world.queue(f"q.{AT_ONCE}"))
    world.queue("q.new")
    world.broker.unsubscribe(consumers[1], is_lost=False)
    for _ in steps:
        pass
    stats = inspection.stats()
    assert [one.name for one in stats.destinations[AT_ONCE:]] == [f"q.{AT_ONCE + 1}"]
    assert [one.consumer_id for one in stats.consumers] == [consumers[0].consumer_id, consumers[2].consumer_id]


def test_octets_of_a_destination_in_memory_and_in_the_log() -> None:
    world = EngineWorld()
    world.queue("q")
    world.send(b"x" * 1000, persistent=False)
    waiting = world.stats()
    assert waiting.memory_bytes >= 1000 and waiting.disk_bytes == 0
    world.send(b"y" * 5000)
    both = world.stats()
    assert both.memory_bytes >= 6000 and both.disk_bytes >= 5000
    client = world.subscriber()
    assert world.stats().memory_bytes == 0, "consumers have them"
    assert world.stats().disk_bytes == both.disk_bytes
    world.acknowledge(*client.take())
    assert (world.stats().memory_bytes, world.stats().disk_bytes) == (0, 0)


def test_octets_of_a_topic_are_those_of_its_subscriptions() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    for _ in range(2):
        world.subscriber(topic, prefetch=1)
    world.send(b"taken", b"x" * 1000, to=topic, persistent=False)
    assert 2000 <= world.stats("t").memory_bytes < 4000
    assert world.stats("t").disk_bytes == 0
