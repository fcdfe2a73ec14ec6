"""A durable subscription belongs to the user that made it, over restarts, whatever the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from config.matching import BOTH, Pattern
from config.permissions import Permission, PermissionMap
from engine.consumers.consumer import AUTO, Consumer
from engine.sources.topics.named_subscription import NamedSubscription, from_description
from engine.values.destination import TOPIC
from engine.values.errors import AccessDenied, SubscriptionInUse
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient


def user(world: RestartWorld, name: str, client_id: str = "shop") -> FakeClient:
    client = world.client(client_id=client_id)
    client.user = name
    return client


def subscribe(world: RestartWorld, client: FakeClient, **options: Any) -> Consumer:
    asked: dict[str, Any] = {"subscription": "s", "is_durable": True} | options
    consumer = world.subscribe(client, world.topic(), AUTO, **asked)
    return consumer


@pytest.mark.parametrize("is_restarted", [False, True])
def test_another_user_can_neither_take_nor_delete_nor_find_it(is_restarted: bool) -> None:
    world = RestartWorld()
    ann = user(world, "ann")
    subscribe(world, ann)
    world.leave(ann)
    world.send(b"1", to=world.topic())
    world.sync()
    if is_restarted:
        world.crash()
    bob = user(world, "bob")
    for use in (
        lambda: subscribe(world, bob),
        lambda: subscribe(world, bob, selector="a = 1"),
        lambda: subscribe(world, bob, is_shared=True),
        lambda: world.broker.delete_subscription(bob, "shop", "s"),
        lambda: world.find_subscription(bob, "shop", "s"),
    ):
        with pytest.raises(AccessDenied, match="subscription 'shop:s' belongs to another user"):
            use()
    again = user(world, "ann")
    subscribe(world, again)
    assert again.bodies() == [b"1"]
    world.leave(again)
    world.broker.delete_subscription(again, "shop", "s")


def test_who_takes_it_away_is_told_so_before_who_has_it() -> None:
    world = RestartWorld()
    subscribe(world, user(world, "ann"))
    with pytest.raises(AccessDenied):
        subscribe(world, user(world, "bob"))
    with pytest.raises(SubscriptionInUse):
        subscribe(world, user(world, "ann"))


def test_a_shared_one_is_used_by_all_and_changed_and_deleted_by_its_own_user() -> None:
    world = RestartWorld()
    ann, bob = user(world, "ann"), user(world, "bob")
    subscribe(world, ann, is_shared=True)
    subscribe(world, bob, is_shared=True)
    world.send(b"1", b"2", to=world.topic())
    assert len(ann.bodies()) == len(bob.bodies()) == 1
    world.leave(ann)
    world.leave(bob)
    with pytest.raises(AccessDenied, match="only that user may change or delete it"):
        world.broker.delete_subscription(bob, "shop", "s")
    with pytest.raises(AccessDenied):
        subscribe(world, bob, is_shared=True, selector="a = 1")
    world.broker.delete_subscription(ann, "shop", "s")


@pytest.mark.parametrize(("maker", "taker"), [("", "bob"), ("ann", ""), ("", "")])
def test_without_checked_logins_it_is_anybodys(maker: str, taker: str) -> None:
    world = RestartWorld()
    first = user(world, maker)
    subscribe(world, first)
    world.leave(first)
    second = user(world, taker)
    subscribe(world, second)
    world.leave(second)
    world.broker.delete_subscription(second, "shop", "s")


def test_a_shared_one_in_memory_is_nobodys() -> None:
    world = RestartWorld()
    for name in ("ann", "bob"):
        subscribe(world, user(world, name), is_durable=False, is_shared=True)


def test_records_of_older_stores_name_no_owner() -> None:
    known = NamedSubscription("shop", "s", True, False, TOPIC, "t", "", False, "ann")
    description = known.description()
    assert from_description(description).owner == "ann"
    del description["owner"]
    assert from_description(description).owner == ""
    assert "owner" not in NamedSubscription("shop", "s", True, False, TOPIC, "t", "", False).description()


# -- a durable wildcard keeps what its owner may read


class GuardedWorld(RestartWorld):
    """Everybody may read everything, but ``bank.>`` only clerks; ann is one.  Topics take three messages.

    groups: of users who may be away, as the gateway knows them now.
    """

    def __init__(self) -> None:
        self.groups = {"ann": frozenset({"clerks"}), "bob": frozenset({"guests"})}
        super().__init__(address(">", full__max_size_messages=3, full__address_full_policy="FAIL"))

    def broker_options(self) -> dict[str, Any]:
        everybody = {"read": frozenset({"*"}), "write": frozenset({"*"}), "create": frozenset({"*"})}
        entries = [
            Permission(Pattern.parse(">"), BOTH, everybody),  # type: ignore[arg-type]
            Permission(Pattern.parse("bank.>"), BOTH, {"read": frozenset({"clerks"})}),
        ]
        return {"permissions": PermissionMap(entries, self.groups)}

    def waiting(self, name: str) -> int:
        """Publish to a topic; return how many messages are kept of it."""
        topic = self.topic(name)
        self.send(b"x", to=topic)
        self.sync()
        return sum(queue.depth for queue in topic.subscriptions.values())


@pytest.mark.parametrize(("owner", "count"), [("ann", 1), ("bob", 0), ("", 1)])
def test_a_durable_wildcard_keeps_nothing_that_its_owner_may_not_read(owner: str, count: int) -> None:
    world = GuardedWorld()
    world.topic("bank.before")
    client = user(world, owner)
    client.groups = frozenset({"clerks"})
    world.consumer(client, Wildcard(TOPIC, ">"), AUTO, subscription="s", is_durable=True)
    world.topic("bank.beside")
    world.turn()
    world.leave(client)
    world.sync()
    kept = {name: world.waiting(name) for name in ("bank.before", "bank.beside", "bank.later", "shop")}
    assert kept == {"bank.before": count, "bank.beside": count, "bank.later": count, "shop": 1}
    world.crash()
    kept = {name: world.waiting(name) for name in ("bank.before", "bank.after", "shop", "new")}
    assert kept == {"bank.before": 2 * count, "bank.after": count, "shop": 2, "new": 1}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_durable_wildcard_takes_from_topics_that_its_owner_may_read_since(*, is_restarted: bool) -> None:
    world = GuardedWorld()
    options: dict[str, Any] = {"subscription": "s", "is_durable": True}
    world.topic("bank.before")
    bob = user(world, "bob")
    world.consumer(bob, Wildcard(TOPIC, ">"), AUTO, **options)
    world.leave(bob)
    assert world.waiting("bank.before") == 0
    if is_restarted:
        world.crash()
    again = user(world, "bob")
    again.groups = world.groups["bob"] = frozenset({"clerks"})
    consumer = world.consumer(again, Wildcard(TOPIC, ">"), AUTO, **options)
    world.turn()
    world.send(b"x", to=world.topic("bank.before"))
    assert again.bodies() == [b"x"], "what comes from now on"
    world.leave(again)
    assert consumer.is_closed
    assert world.waiting("bank.before") == 1


def test_a_wildcard_of_another_user_does_not_fill_a_topic() -> None:
    world = GuardedWorld()
    bob = user(world, "bob")
    world.consumer(bob, Wildcard(TOPIC, ">"), AUTO, subscription="s", is_durable=True)
    world.leave(bob)
    for _ in range(5):
        world.send(b"x", to=world.topic("bank.vault"))
