"""Purging, deleting and auto-deleting: nothing that somebody holds or waits for is lost by accident."""

from __future__ import annotations

import pytest

from engine.backlog.lane_entries import IDLE_LANE_BYTES
from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.errors import DestinationInUse, InvalidDestination, LimitReached
from engine.values.outcomes import CAUSE_PURGED, DROPPED
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.engine.restart_world import RestartWorld


def test_a_purge_drops_what_waits_in_memory_and_on_disk_and_leaves_what_is_held() -> None:
    world = RestartWorld()
    client = world.consuming(prefetch=2)
    world.send(*(b"%d" % number + b"x" * (IDLE_LANE_BYTES // 4) for number in range(40)))
    world.send(b"unlogged", persistent=False)
    held = client.take()
    purge = world.purge(world.queue("q"))
    world.advance(1_000)
    assert purge.is_done and purge.count == 39
    assert world.stats().depth == 2 and world.memory_used() == 0
    world.acknowledge(held[0])
    world.restart()
    again = world.subscriber("q", AUTO)
    assert [body[:1] for body in again.bodies()] == [b"1"]


def test_it_is_logged_as_what_it_is() -> None:
    world = EngineWorld()
    world.send(b"1", b"2")
    world.purge(world.queue("q"))
    world.advance(1_000)
    assert [(one.outcome, one.cause) for one in world.store.settled] == [(DROPPED, CAUSE_PURGED)]
    assert world.broker.clients == {}


def test_a_purge_of_what_a_selector_matches() -> None:
    world = EngineWorld()
    for number in range(4):
        world.send(b"%d" % number, headers=f"n:{number}")
    purge = world.purge(world.queue("q"), "n > 1")
    world.advance(1_000)
    assert purge.is_done and purge.count == 2
    assert world.subscriber("q", AUTO).bodies() == [b"0", b"1"]


def test_a_purge_owns_no_message_group() -> None:
    """Messages that it does not want would else go to several consumers at once."""
    world = EngineWorld()
    for number in range(6):
        world.send(b"%d" % number, headers=f"n:{number}", group="g")
    purge = world.purge(world.queue("q"), "n = 0")
    world.turn()
    clients = [world.client(), world.client()]
    for client in clients:
        world.consumer(client, "q", INDIVIDUAL, 2)
    world.turn()
    assert purge.count == 1 and not purge.is_done
    assert sorted(client.bodies() for client in clients) == [[], [b"1", b"2"]]


@pytest.mark.parametrize("selector", ["", "n >= 0"])
def test_a_purge_drops_what_waits_for_an_exclusive_consumer(selector: str) -> None:
    """It did not get a turn, and waited until the consumer had taken everything."""
    world = EngineWorld(address("q", queue__exclusive_consumer=True))
    owner, other = world.client("owner"), world.client("other")
    world.consumer(owner, "q", INDIVIDUAL, 2, selector=selector)
    for number in range(3_000):
        world.broker.send(world.queue("q"), world.message(world.queue("q"), b"%d" % number, headers=f"n:{number}"))
    world.turn()
    purge = world.purge(world.queue("q"), selector)
    world.consumer(other, "q", INDIVIDUAL, 2)
    world.advance(1_000)
    assert purge.is_done and purge.count == 2_998
    world.send(b"new", headers="n:1")
    first, second = owner.take()
    assert other.take() == [], "the first consumer still has the queue"
    world.acknowledge(first, second)
    assert (owner.bodies(), other.bodies()) == ([b"new"], [])


def test_a_purge_goes_on_while_its_search_does() -> None:
    """It ended with a part: its timer may fire between two turns of the search."""
    world = EngineWorld()
    world.consuming("q", INDIVIDUAL, 2, is_exclusive=True)
    queue = world.queue("q")
    for number in range(3_000):
        world.broker.send(queue, world.message(queue, b"%d" % number, headers="colour:blue"))
    world.broker.send(queue, world.message(queue, b"last", headers="colour:red"))
    world.turn()
    purge = world.purge(queue, "colour = 'red'")
    world.broker.end_turn()
    purge.tick()
    assert not purge.is_done
    world.advance(1_000)
    assert purge.is_done and purge.count == 1


@pytest.mark.parametrize("selector", ["", "n >= 0"])
@pytest.mark.parametrize("is_paged", [False, True])
def test_a_purge_drops_what_waits_for_the_owners_of_groups(selector: str, is_paged: bool) -> None:
    paging = address("q", full__max_size_messages=10, full__address_full_policy="PAGE")
    world = EngineWorld(*[paging] * is_paged)
    clients = [world.client() for _ in range(3)]
    for client in clients:
        world.consumer(client, "q", INDIVIDUAL, 1)
    for number in range(600):
        message = world.message(world.queue("q"), b"x", headers=f"n:{number}", group=f"g{number % 6}")
        world.broker.send(world.queue("q"), message)
    world.turn()
    purge = world.purge(world.queue("q"), selector)
    world.advance(1_000)
    assert purge.is_done and purge.count == 597
    assert len([one for client in clients for one in client.take()]) == 3
    assert world.stats().depth == 3


def test_a_purge_ends_where_nobody_gets_anything_yet() -> None:
    world = EngineWorld(address("q", queue__consumers_before_dispatch=5))
    world.send(b"1", b"2")
    world.consumer(world.client(), "q", INDIVIDUAL, 1)
    purge = world.purge(world.queue("q"))
    world.advance(1_000)
    assert purge.is_done


def test_deleting_takes_nobody_s_destination_away() -> None:
    world = RestartWorld()
    queue = world.queue("q")
    client = world.client(client_id="c")
    consumer = world.consumer(client, queue)
    with pytest.raises(DestinationInUse, match="1 consumers"):
        world.delete(queue)
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"1", b"2")
    with pytest.raises(DestinationInUse, match="holds 2 messages"):
        world.delete(queue)
    topic = world.topic()
    world.consumer(client, topic, subscription="s", is_durable=True)
    world.leave(client)
    with pytest.raises(DestinationInUse, match="1 subscriptions"):
        world.delete(topic)
    world.delete_subscription("c", "s")
    world.delete(topic)
    world.delete(queue, is_forced=True)
    world.restart()
    assert not world.has_destinations()


def test_who_sends_on_to_a_deleted_queue_makes_it_again() -> None:
    world = EngineWorld()
    queue = world.queue("q")
    world.delete(queue)
    world.send(b"1", to=queue)
    again = world.queue("q")
    assert again is not queue and again.depth == 1
    assert world.store.messages[0].destination_id == again.destination_id
    assert world.store.closed == [queue.destination_id]


def test_an_unused_queue_is_deleted_after_its_delay_but_not_with_a_backlog() -> None:
    world, client = world_with_client(address("auto.>", queue__auto_delete=True, queue__auto_delete_delay_ms=5_000))
    for name in ("auto.empty", "auto.full", "auto.again", "manual"):
        world.broker.unsubscribe(world.consumer(client, name), is_lost=False)
    world.send(b"1", to="auto.full")
    world.advance(4_000)
    world.consumer(client, "auto.again")
    world.advance(2_000)
    assert sorted(world.queue_names()) == ["auto.again", "auto.full", "manual"]


def test_what_waits_goes_with_the_last_consumer_where_the_address_says_so() -> None:
    world = EngineWorld(address("p", queue__purge_on_no_consumers=True))
    client, other = world.client(), world.client()
    world.consumer(client, "p", prefetch=1)
    world.consumer(other, "p", prefetch=1)
    world.send(b"1", b"2", b"3", to="p")
    world.leave(client)
    assert world.stats("p").depth == 3
    world.leave(other)
    world.advance(1_000)
    assert world.stats("p").depth == 0 and world.broker.clients == {}


def test_who_comes_while_a_queue_is_emptied_gets_what_comes_from_then_on() -> None:
    world, client = world_with_client(address("p", queue__purge_on_no_consumers=True))
    consumer = world.consumer(client, "p")
    world.send(b"held", to="p")
    client.bodies()
    world.unsubscribe(consumer)
    assert world.stats("p").depth == 0
    world.consumer(client, "p")
    world.send(b"1", b"2", to="p")
    world.advance(1_000)
    assert client.bodies() == [b"1", b"2"]
    assert world.connections() == [client]


def test_a_queue_takes_so_many_consumers_and_a_name_that_is_not_made() -> None:
    world, client = world_with_consumer(
        address("one", queue__max_consumers=1), address("fixed.>", queue__auto_create=False), destination="one"
    )
    with pytest.raises(LimitReached, match="max_consumers"):
        world.consumer(client, "one")
    with pytest.raises(InvalidDestination, match="auto_create is off"):
        world.queue("fixed.a")
    world.own_queue("fixed.a")
    world.send(b"1", to="fixed.a")


def test_what_a_transaction_sends_to_a_queue_that_is_deleted_before_its_commit_is_not_lost() -> None:
    world, client = world_with_client(address("auto", queue__auto_delete=True))
    queue = world.queue("auto")
    transaction = Transaction(client, "t", TransactionLimits())
    world.broker.send_in(transaction, queue, world.message(queue, b"kept"))
    world.broker.unsubscribe(world.consumer(client, "auto"), is_lost=False)
    world.advance(1)
    assert queue.is_closed
    world.broker.commit(transaction)
    world.subscribe(client, "auto")
    assert client.bodies() == [b"kept"]


def test_what_is_scheduled_for_a_queue_keeps_it_and_goes_with_it_by_force() -> None:
    world = EngineWorld(address("q", queue__auto_delete=True, queue__auto_delete_delay_ms=1_000))
    broker = world.broker
    queue = world.queue("q")
    other = world.queue("other")
    for to in (queue, queue, other):
        target = delayed(to, Plan(delay_ms=60_000))
        broker.send(target, world.message(target, b"x"))
    client = world.consuming()
    world.leave(client)
    world.advance(5_000)
    assert world.has_queue("q")
    with pytest.raises(DestinationInUse, match="2 messages are scheduled for queue://q; cancel them first"):
        world.delete(queue)
    world.delete(queue, is_forced=True)
    assert world.schedule.counts() == {other.destination_id: 1}
    world.advance(60_000)
    assert not world.has_queue("q")
