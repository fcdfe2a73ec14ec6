"""Permissions, asked for in one place."""

from __future__ import annotations

import pytest

from config.matching import BOTH, QUEUE, TOPIC, Pattern
from config.permissions import Action, Permission, PermissionMap
from engine.consumers.consumer import AUTO
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.errors import AccessDenied
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
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
    world, client = world_with_client()
    assert world.broker.target(client, QUEUE, "any").name == "any"
    assert world.broker.source(client, TOPIC, "any").kind == TOPIC


def test_reading_does_not_include_writing() -> None:
    world, client = world_with(read="workers", write="senders", create="workers")
    assert world.broker.source(client, QUEUE, "orders.eu").name == "orders.eu"
    with pytest.raises(AccessDenied, match="no permission to write queue://orders.eu: your groups are workers"):
        world.broker.target(client, QUEUE, "orders.eu")


def test_a_refusal_does_not_say_which_groups_may() -> None:
    world, client = world_with(read="workers", write="senders", create="makers")
    refused: list[str] = []
    for name in ("orders.eu", "payments"):  # the first has an entry, the second none
        with pytest.raises(AccessDenied) as caught:
            world.broker.target(client, QUEUE, name)
        refused.append(str(caught.value).replace(name, "NAME"))
    assert "senders" not in refused[0]
    assert refused[0] == refused[1], "it does not say either whether any group may"


def test_what_no_entry_grants_is_refused() -> None:
    world, client = world_with(read="workers", write="workers", create="workers")
    with pytest.raises(AccessDenied, match="no permission to write queue://payments"):
        world.broker.target(client, QUEUE, "payments")
    assert world.queue_names() == [], "nothing is made for who may not use it"


def test_making_a_destination_is_a_permission_of_its_own() -> None:
    world, client = world_with(read="workers", write="workers", create="admins")
    with pytest.raises(AccessDenied, match="no permission to create"):
        world.broker.target(client, QUEUE, "orders.eu")
    world.queue("orders.eu")
    assert world.broker.target(client, QUEUE, "orders.eu").name == "orders.eu"


def test_a_list_with_a_part_that_is_not_permitted_makes_none_of_them() -> None:
    world, client = world_with(read="workers", write="workers", create="workers")
    naming = world.broker.naming
    for asked in (naming.targets, naming.sources):
        with pytest.raises(AccessDenied, match="queue://payments"):
            asked(client, [(QUEUE, "orders.eu"), (TOPIC, "orders.eu"), (QUEUE, "payments")])
    assert not world.has_destinations()


def test_dead_letters_need_no_permission() -> None:
    world, client = world_with(read="workers", write="workers", create="workers")
    queue = world.broker.target(client, QUEUE, "orders.eu")
    world.consumer(client, queue)
    world.send(b"1", to=queue)
    for _ in range(7):
        world.refuse(*client.take())
        world.advance(1_000)
    assert world.stats("ActiveMQ.DLQ").depth == 1


def test_looking_is_another_permission_than_taking() -> None:
    world, client = world_with(read="admins", browse="workers", create="workers")
    queue = world.broker.source(client, QUEUE, "orders.eu")
    assert isinstance(queue, Queue)
    world.consumer(client, queue, is_browser=True)
    with pytest.raises(AccessDenied, match="no permission to read queue://orders.eu"):
        world.consumer(client, queue)
    world, client = world_with(read="workers", browse="admins", create="workers")
    queue = world.broker.source(client, QUEUE, "orders.eu")
    assert isinstance(queue, Queue)
    world.consumer(client, queue)
    with pytest.raises(AccessDenied, match="no permission to browse queue://orders.eu"):
        world.consumer(client, queue, is_browser=True)


def test_subscriptions_of_topics_have_permissions_of_their_own() -> None:
    grants = {"subscribe": "admins", "subscribe-durable": "workers", "unsubscribe": "admins"}
    world, _ = world_with(read="workers", create="workers", **grants)
    client = world.client("worker", "id")
    client.groups = frozenset({"workers"})
    topic = world.broker.source(client, TOPIC, "orders.eu")
    assert isinstance(topic, Topic)
    with pytest.raises(AccessDenied, match="no permission to subscribe topic://orders.eu"):
        world.consumer(client, topic)
    kept = world.consumer(client, topic, subscription="s", is_durable=True)
    world.broker.unsubscribe(kept, is_lost=False)
    with pytest.raises(AccessDenied, match="no permission to unsubscribe topic://orders.eu"):
        world.broker.delete_subscription(client, "id", "s")
    assert ("id", "s", True) in world.subscriptions()
    client.groups = frozenset({"admins"})
    world.broker.delete_subscription(client, "id", "s")
    assert world.subscriptions() == {}


def test_a_retry_needs_no_permission() -> None:
    world, _ = world_with(read="admins")
    world.retry(world.queue("ActiveMQ.DLQ"))


def test_an_answer_goes_only_where_who_asks_might_send() -> None:
    everywhere = {action: frozenset({"workers"}) for action in ("read", "write", "create")}
    asking = Permission(Pattern.parse("ActiveMQ.Statistics.>"), BOTH, everywhere)  # type: ignore[arg-type]
    guarded = Permission(
        Pattern.parse("orders.>"), BOTH, {"read": frozenset({"workers"}), "write": frozenset({"writers"})}
    )
    world = EngineWorld(permissions=PermissionMap([asking, guarded]))
    client = world.client("worker")
    client.groups = frozenset({"workers"})
    queue = world.queue("orders.eu")
    question = world.broker.target(client, QUEUE, "ActiveMQ.Statistics.Destination.orders.eu")
    assert isinstance(question, Queue)
    world.send(b"", to=question, headers="reply-to:/queue/orders.eu", sender=client)
    assert queue.depth == 0
    client.groups = frozenset()
    world.send(b"", to=question, headers="reply-to:/queue/orders.eu")
    assert queue.depth == 0, "a question of nobody, as a schedule sends it, has no permission"
    client.groups = frozenset({"workers", "writers"})
    world.send(b"", to=question, headers="reply-to:/queue/orders.eu", sender=client)
    assert queue.depth == 1


def shared_news() -> tuple[EngineWorld, Wildcard]:
    """A world in which everybody may read ``news.>``, and only editors ``news.secret``."""
    everybody = {"read": frozenset({"*"}), "write": frozenset({"*"}), "create": frozenset({"*"})}
    secret = {**everybody, "read": frozenset({"editors"})}
    entries = [
        Permission(Pattern.parse("news.>"), BOTH, everybody),  # type: ignore[arg-type]
        Permission(Pattern.parse("news.secret"), BOTH, secret),  # type: ignore[arg-type]
    ]
    return EngineWorld(permissions=PermissionMap(entries)), Wildcard(TOPIC, "news.>")


def joins(world: EngineWorld, wildcard: Wildcard, *groups: str) -> FakeClient:
    client = world.client("-".join(groups))
    client.groups = frozenset(groups)
    world.consumer(client, wildcard, AUTO, subscription="s", is_shared=True)
    return client


def test_who_shares_a_wildcard_must_be_allowed_to_read_all_that_it_takes_from() -> None:
    world, wildcard = shared_news()
    world.topic("news.secret")
    editor = joins(world, wildcard, "editors")
    with pytest.raises(AccessDenied, match="no permission to read topic://news.secret"):
        joins(world, wildcard, "guests")
    world.send(b"1", b"2", to=world.topic("news.secret"))
    assert editor.bodies() == [b"1", b"2"]


def test_a_shared_wildcard_takes_from_topics_to_come_if_all_its_consumers_may_read_them() -> None:
    world, wildcard = shared_news()
    guest, editor = joins(world, wildcard, "guests"), joins(world, wildcard, "editors")
    for name in ("news.open", "news.secret"):
        world.send(b"1", b"2", to=world.topic(name))
        assert sorted(guest.bodies() + editor.bodies()) == ([b"1", b"2"] if name == "news.open" else [])
    world, wildcard = shared_news()
    first, second = joins(world, wildcard, "editors"), joins(world, wildcard, "editors", "guests")
    world.send(b"1", b"2", to=world.topic("news.secret"))
    assert sorted(first.bodies() + second.bodies()) == [b"1", b"2"]


# -- advisories: whoever may not look at a destination is not told of it


def told_world() -> tuple[EngineWorld, FakeClient]:
    """A world in which everybody may read everything, only clerks ``bank.>``, and addresses tell of each message."""
    everybody = {"read": frozenset({"*"}), "write": frozenset({"*"}), "create": frozenset({"*"})}
    entries = [
        Permission(Pattern.parse(">"), BOTH, everybody),  # type: ignore[arg-type]
        Permission(Pattern.parse("bank.>"), BOTH, {**everybody, "read": frozenset({"clerks"})}),  # type: ignore[dict-item]
    ]
    told = address(">", advisories__delivery=True, advisories__include_body=True)
    world = EngineWorld(told, permissions=PermissionMap(entries))
    guest = world.client("guest")
    guest.groups = frozenset({"guests"})
    return world, guest


@pytest.mark.parametrize("is_there_before", [True, False])
@pytest.mark.parametrize("wildcard", ["ActiveMQ.Advisory.>", "ActiveMQ.*.*.Queue.>"])
def test_a_wildcard_of_advisories_tells_only_of_what_may_be_looked_at(wildcard: str, is_there_before: bool) -> None:
    world, guest = told_world()
    clerk = world.client("clerk")
    clerk.groups = frozenset({"clerks"})
    if is_there_before:
        world.consumer(world.client("first"), Wildcard(TOPIC, wildcard), AUTO)
        world.send(b"before", to=world.queue("bank.vault"))
    for one in (guest, clerk):
        world.consumer(one, Wildcard(TOPIC, wildcard), AUTO)
    for name in ("bank.vault", "shop"):
        world.send(b"secret of " + name.encode(), to=world.queue(name))
    told, told_all = (b"".join(one.bodies()) for one in (guest, clerk))
    assert b"secret of shop" in told and b"secret of bank.vault" not in told
    assert b"secret of shop" in told_all and b"secret of bank.vault" in told_all


@pytest.mark.parametrize("name", ["MessageDelivered.Queue.bank.vault", "*.Topic.bank.vault"])
def test_an_advisory_of_what_may_not_be_looked_at_is_refused(name: str) -> None:
    world, guest = told_world()
    with pytest.raises(AccessDenied, match="it reports on a destination that needs the permission browse or read"):
        world.broker.source(guest, TOPIC, f"ActiveMQ.Advisory.{name}")


def test_whoever_may_browse_is_told_and_what_is_about_none_is_as_its_topic_says() -> None:
    browsing = {"read": frozenset({"clerks"}), "browse": frozenset({"guests"}), "create": frozenset({"*"})}
    entries = [
        Permission(Pattern.parse("ActiveMQ.Advisory.>"), BOTH, {"read": frozenset({"*"}), "create": frozenset({"*"})}),
        Permission(Pattern.parse("bank.>"), BOTH, browsing),  # type: ignore[arg-type]
    ]
    world = EngineWorld(permissions=PermissionMap(entries))
    guest = world.client("guest")
    guest.groups = frozenset({"guests"})
    for name in ("Consumer.Queue.bank.vault", "Connection", "Queue", "TempTopic"):
        assert world.broker.source(guest, TOPIC, f"ActiveMQ.Advisory.{name}").name == f"ActiveMQ.Advisory.{name}"
    with pytest.raises(AccessDenied):
        world.broker.source(guest, TOPIC, "ActiveMQ.Advisory.Consumer.Queue.other")


@pytest.mark.parametrize(
    "name", ["ActiveMQ.Advisory.Connection", "ActiveMQ.Advisory.Consumer.Queue.q", "ActiveMQ.Advisory.x"]
)
def test_only_an_entry_for_advisories_lets_clients_send_them(name: str) -> None:
    everything = frozenset({"*"})
    all_actions: dict[Action, frozenset[str]] = {"read": everything, "write": everything, "create": everything}
    world = EngineWorld(permissions=PermissionMap([Permission(Pattern.parse(">"), BOTH, all_actions)]))
    guest = world.client()
    with pytest.raises(AccessDenied, match=f"no permission to write topic://{name}"):
        world.broker.target(guest, TOPIC, name)
    assert world.broker.source(guest, TOPIC, name).name == name
    with pytest.raises(AccessDenied):
        world.broker.target(guest, TOPIC, name)
    assert world.broker.target(guest, QUEUE, name).name == name
    named = Permission(Pattern.parse("ActiveMQ.Advisory.>"), TOPIC, {"write": everything})
    world = EngineWorld(permissions=PermissionMap([Permission(Pattern.parse(">"), BOTH, all_actions), named]))
    assert world.broker.target(world.client(), TOPIC, name).name == name
    assert EngineWorld().broker.target(guest, TOPIC, name).name == name, (
        "without permissions everybody may do everything"
    )
