"""Client ids: who may have one beside another connection."""

from __future__ import annotations

import pytest

from engine.clients.connections import ClientIds
from engine.values.errors import ClientIdInUse
from tests.support.engine.engine_world import EngineWorld, world_with_client


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_one_of_two_that_asks_to_be_the_only_one_is_enough(first: bool, second: bool, is_refused: bool) -> None:
    world = EngineWorld()
    ids = ClientIds()
    holder, other = world.client(), world.client()
    ids.take(holder, "shop", first)
    if not is_refused:
        ids.take(other, "shop", second)
        return
    with pytest.raises(ClientIdInUse, match="client id 'shop' is in use by another connection"):
        ids.take(other, "shop", second)
    ids.leave(other)
    ids.take(other, "another", True)
    ids.leave(other)
    ids.leave(holder)
    ids.take(other, "shop", second)


def test_no_id_is_everybodys() -> None:
    world = EngineWorld()
    ids = ClientIds()
    for _ in range(2):
        ids.take(world.client(), "", True)


def test_a_connection_that_ends_lets_go_of_its_id() -> None:
    world, client = world_with_client()
    world.take_client_id(client, "shop")
    world.broker.disconnect(client, is_lost=True)
    world.take_client_id(world.client(), "shop")


def test_another_user_keeps_nobody_out() -> None:
    world = EngineWorld()
    ids = ClientIds()
    ann, bob, again = world.client(), world.client(), world.client()
    ann.user, bob.user, again.user = "ann", "bob", "ann"
    ids.take(bob, "shop", True)
    ids.take(ann, "shop", True)
    with pytest.raises(ClientIdInUse):
        ids.take(again, "shop", False)
    ids.leave(ann)
    ids.take(again, "shop", True)
    ids.leave(bob)
    with pytest.raises(ClientIdInUse):
        ids.take(ann, "shop", True)
