"""Lost connections: whose attempt they count, and whose they do not."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.values.outcomes import CAUSE_CONNECTION_LOST
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer

DLQ = "ActiveMQ.DLQ"


def counts_after_loss(world: EngineWorld) -> dict[bytes, int]:
    """Return the delivery count of everything that is delivered now."""
    client = world.client("heir")
    world.subscribe(client)
    assert all(one.is_redelivered for one in client.handed)
    return {one.body: one.delivery_count for one in client.handed}


BODIES = [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize(
    ("blame", "acknowledged", "counted"),
    [
        ("acked+1", [], {b"1"}),
        ("acked+1", [0], {b"2"}),
        ("acked+1", [0, 2], {b"2", b"4"}),
        ("acked+1", [3], {b"1", b"2", b"3", b"5"}),
        ("acked+1", [4], {b"1", b"2", b"3", b"4"}),
        ("all", [2], {b"1", b"2", b"4", b"5"}),
        ("none", [2], set()),
    ],
)
def test_whose_attempt_a_lost_connection_counts(blame: str, acknowledged: list[int], counted: set[bytes]) -> None:
    world, client = world_with_consumer(address("q", blame=blame))
    world.send(*BODIES)
    held = client.take()
    world.acknowledge(*(held[index] for index in acknowledged))
    world.lose(client)
    left = {body for index, body in enumerate(BODIES) if index not in acknowledged}
    assert counts_after_loss(world) == {body: 2 if body in counted else 1 for body in left}
    assert {failed.cause for failed in world.store.failed} == ({CAUSE_CONNECTION_LOST} if counted else set())


def test_a_refusal_is_a_sign_that_the_client_came_that_far() -> None:
    world, client = world_with_consumer()
    world.send(*BODIES)
    world.refuse(client.take()[2])
    world.lose(client)
    assert counts_after_loss(world) == {b"1": 2, b"2": 2, b"4": 2, b"5": 1}


def test_an_orderly_close_counts_nothing_but_says_redelivered() -> None:
    world, client = world_with_consumer(address("q", blame="all"))
    world.send(*BODIES)
    world.acknowledge(client.take()[0])
    world.leave(client)
    assert counts_after_loss(world) == dict.fromkeys(BODIES[1:], 1)
    assert world.store.failed == []


def test_a_closed_subscription_counts_nothing() -> None:
    world, client = world_with_client(address("q", blame="all"))
    consumer = world.consumer(client)
    world.send(*BODIES)
    world.unsubscribe(consumer)
    assert counts_after_loss(world) == dict.fromkeys(BODIES, 1)


@pytest.mark.parametrize(("place", "counted"), [(None, 0), (0, 1), (2, 3), (4, 5)])
def test_a_close_that_says_what_was_received_counts_that(place: int | None, counted: int) -> None:
    # None is given up: the policy of the next client decides.
    world, client = world_with_client(address("q", redelivery__maximum_redeliveries=0))
    consumer = world.consumer(client)
    world.send(*BODIES)
    consumer.looked_tag = 0 if place is None else client.take()[place].tag
    world.unsubscribe(consumer)
    heir = world.subscriber()
    counts = {one.body: (one.delivery_count, one.is_redelivered) for one in heir.handed}
    assert counts == {body: (2, True) if number < counted else (1, False) for number, body in enumerate(BODIES)}
    assert [one.ranges for one in world.store.failed] == ([[(4, 0, counted, 1)]] if counted else [])


@pytest.mark.parametrize("blame", ["acked+1", "all"])
def test_without_any_sign_of_life_lost_connections_never_dead_letter(blame: str) -> None:
    world = EngineWorld(address("q", blame=blame, redelivery__maximum_redeliveries=1))
    world.send(b"1", b"2")
    for _ in range(10):
        client = world.subscriber(prefetch=10)
        assert client.bodies() == [b"1", b"2"]
        world.lose(client)
    assert world.stats().dead_lettered == 0


@pytest.mark.parametrize("prefetch", [0, 1])
def test_with_a_window_of_one_the_only_message_is_to_blame(prefetch: int) -> None:
    world = EngineWorld(address("q", redelivery__maximum_redeliveries=1))
    world.send(b"poison", b"good")
    for expected in (b"poison", b"poison", b"good"):
        client = world.subscriber(prefetch=prefetch)
        assert client.bodies() == [expected]
        world.lose(client)
    assert [dead.body for dead in world.dead_letters()] == [b"poison"]


def test_with_a_sign_of_life_lost_connections_dead_letter_what_is_exhausted() -> None:
    world, client = world_with_consumer(address("q", redelivery__maximum_redeliveries=0))
    world.send(*BODIES)
    world.acknowledge(client.take()[0])
    world.lose(client)
    assert counts_after_loss(world) == {b"3": 1, b"4": 1, b"5": 1}
    assert [dead.body for dead in world.dead_letters()] == [b"2"]


def test_failed_attempts_of_a_lost_connection_are_one_record_with_ranges() -> None:
    world, client = world_with_consumer(address("q", blame="all"))
    world.send(*BODIES)
    world.acknowledge(client.take()[2])
    world.lose(client)
    (failed,) = world.store.failed
    assert failed.ranges == [(4, 0, 2, 1), (4, 3, 2, 1)]
    assert failed.due_ms == 0


def test_messages_that_are_not_logged_are_blamed_without_a_record() -> None:
    world, client = world_with_consumer()
    world.send(b"1", persistent=False)
    world.lose(client)
    assert world.store.failed == []
    assert counts_after_loss(world) == {b"1": 2}


def test_automatic_deliveries_leave_nothing_to_blame() -> None:
    world, client = world_with_consumer(ack_mode=AUTO)
    world.send(b"1")
    world.lose(client)
    assert counts_after_loss(world) == {}


def test_exhausted_messages_on_a_dead_letter_queue_wait_there_when_a_connection_is_lost() -> None:
    world, client = world_with_client(address(DLQ, redelivery__maximum_redeliveries=0))
    world.consumer(client, DLQ, prefetch=1)
    world.send(b"1", to=DLQ)
    world.lose(client)
    assert (world.stats(DLQ).depth, world.stats(DLQ).delayed, world.stats(DLQ).in_flight) == (1, 1, 0)
    heir = world.client("heir")
    world.consumer(heir, DLQ)
    world.advance(1_000)
    assert heir.bodies() == [b"1"]
