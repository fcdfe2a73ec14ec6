"""Queues that go when nobody uses them, whenever and however they became unused."""

from __future__ import annotations

from typing import Final

import pytest

from engine.features.purge import LOOK_AGAIN_MS
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld

DELAY_MS: Final = 1_000
AUTO_DELETE: Final = address("q", queue__auto_delete=True, queue__auto_delete_delay_ms=DELAY_MS)


def left_behind(world: RestartWorld, expires_ms: int = 0) -> None:
    """Leave a message in a queue whose consumer goes."""
    client = world.subscriber("q", prefetch=1)
    world.send(b"held", b"left", expires_ms=expires_ms)
    world.acknowledge(*client.take())
    world.leave(client)
    world.advance(DELAY_MS)
    assert world.stats().depth == 1


def test_a_queue_that_is_unused_at_a_start_goes() -> None:
    world = RestartWorld(AUTO_DELETE)
    client = world.subscriber("q")
    world.leave(client)
    world.restart()
    assert world.has_queue("q"), "its time was not up"
    world.advance(DELAY_MS)
    assert not world.has_queue("q")


def test_a_queue_with_a_consumer_or_a_message_stays_after_a_start() -> None:
    world = RestartWorld(AUTO_DELETE, address("p", queue__auto_delete=True, queue__auto_delete_delay_ms=DELAY_MS))
    world.send(b"1", to="q")
    world.queue("p")
    world.restart()
    client = world.subscriber("p")
    world.advance(2 * LOOK_AGAIN_MS)
    assert sorted(world.queue_names()) == ["p", "q"]
    world.leave(client)
    world.advance(DELAY_MS)
    assert world.queue_names() == ["q"]


def test_a_queue_whose_last_message_expires_goes() -> None:
    world = RestartWorld(AUTO_DELETE)
    left_behind(world, expires_ms=world.clock.wall_ms() + 5_000)
    world.advance(3 * LOOK_AGAIN_MS)
    assert not world.has_queue("q")


def test_a_consumer_that_returns_meanwhile_keeps_it() -> None:
    world = RestartWorld(AUTO_DELETE)
    left_behind(world)
    client = world.subscriber("q")
    world.acknowledge(*client.take())
    world.advance(2 * LOOK_AGAIN_MS)
    assert world.has_queue("q")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_queue_of_the_configuration_stays(is_restarted: bool) -> None:
    world = RestartWorld(AUTO_DELETE)
    world.lasting_queue("q")
    if is_restarted:
        world.restart()
        world.lasting_queue("q")
    world.leave(world.subscriber("q"))
    world.advance(2 * LOOK_AGAIN_MS)
    assert world.has_queue("q")


def test_a_queue_that_keeps_its_messages_goes_with_its_last_reader() -> None:
    world = RestartWorld(address("q", queue__auto_delete=True, queue__non_destructive=True))
    clients = [world.subscriber("q"), world.subscriber("q")]
    world.leave(clients[0])
    world.advance(1)
    assert world.has_queue("q")
    world.leave(clients[1])
    world.advance(1)
    assert not world.has_queue("q")
