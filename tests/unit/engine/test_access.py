"""Permissions, asked for at one door."""

from __future__ import annotations

import pytest

from config.matching import BOTH, QUEUE, TOPIC, Pattern
from config.permissions import Permission, PermissionMap
from engine.errors import AccessDenied
from tests.support.engine_world import EngineWorld
from tests.support.fakes import FakeClient


def world_with(**grants: str) -> tuple[EngineWorld, FakeClient]:
    """A world in which ``orders.>`` is guarded, and a client of the group workers."""
    entry = Permission(
        Pattern.parse("orders.>"),
        BOTH,
        {action: frozenset(groups.split()) for action, groups in grants.items()},  # type: ignore[misc]
    )
    world = EngineWorld(permissions=PermissionMap([entry]))
    client = world.client("worker")
    client.groups = frozenset({"workers"})
    return world, client


def test_without_entries_everybody_may_do_everything() -> None:
    world = EngineWorld()
    client = world.client()
    assert world.broker.target(client, QUEUE, "any").name == "any"
    assert world.broker.source(client, TOPIC, "any").kind == TOPIC


def test_reading_does_not_include_writing() -> None:
    world, client = world_with(read="workers", write="senders", create="workers")
    assert world.broker.source(client, QUEUE, "orders.eu").name == "orders.eu"
    with pytest.raises(
        AccessDenied, match="no permission to write queue://orders.eu: your groups are workers; allowed"
    ):
        world.broker.target(client, QUEUE, "orders.eu")


def test_what_no_entry_grants_is_refused() -> None:
    world, client = world_with(read="workers", write="workers", create="workers")
    with pytest.raises(AccessDenied, match="allowed: nobody"):
        world.broker.target(client, QUEUE, "payments")
    assert world.broker.destinations.queues == {}, "nothing is made for who may not use it"


def test_making_a_destination_is_a_permission_of_its_own() -> None:
    world, client = world_with(read="workers", write="workers", create="admins")
    with pytest.raises(AccessDenied, match="no permission to create"):
        world.broker.target(client, QUEUE, "orders.eu")
    world.broker.destinations.queue("orders.eu")
    assert world.broker.target(client, QUEUE, "orders.eu").name == "orders.eu"


def test_dead_letters_need_no_permission() -> None:
    world, client = world_with(read="workers", write="workers", create="workers")
    queue = world.broker.target(client, QUEUE, "orders.eu")
    world.consumer(client, queue)
    world.send(b"1", to=queue)
    for _ in range(7):
        world.refuse(*client.take())
        world.advance(1_000)
    assert world.stats("ActiveMQ.DLQ").depth == 1
