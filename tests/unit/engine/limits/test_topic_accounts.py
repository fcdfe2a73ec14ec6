"""What the subscriptions of a topic hold together counts for its address: in memory, durable, over a restart."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import INDIVIDUAL
from engine.limits.producer_gates import GlobalLimits
from engine.values import gates
from engine.values.errors import AddressFull
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient


def limited(policy: str, **values: int) -> RestartWorld:
    limits = {f"full__{name}": value for name, value in values.items()}
    return RestartWorld(address("t", full__address_full_policy=policy, **limits))


def durable(world: RestartWorld, name: str) -> FakeClient:
    client = world.client(name)
    world.consumer(client, world.topic(), INDIVIDUAL, 100, subscription=name, is_durable=True, is_shared=True)
    world.sync()
    return client


def used(world: RestartWorld) -> tuple[int, int]:
    account = world.topic().account
    assert account is not None
    account.see_durable(world.memory_store)
    return account.used_bytes, account.used_messages


def settle_all(world: RestartWorld, client: FakeClient) -> None:
    world.acknowledge(*client.take())
    world.sync()


def test_a_message_of_two_durable_subscriptions_and_one_in_memory_counts_once() -> None:
    world = limited("BLOCK", max_size_bytes=10_000)
    one, two = durable(world, "one"), durable(world, "two")
    plain = world.client("plain")
    world.consumer(plain, world.topic())
    world.send(b"x" * 100, to=world.topic())
    world.send(b"y" * 10, to=world.topic(), persistent=False)
    assert used(world) == (110, 2)
    settle_all(world, one)
    settle_all(world, plain)
    assert used(world) == (110, 2), "the other durable one holds both: also the one that only memory has"
    settle_all(world, two)
    assert used(world) == (0, 0)


def test_block_waits_for_the_slowest_durable_subscription() -> None:
    world = limited("BLOCK", max_size_messages=3)
    one, two = durable(world, "one"), durable(world, "two")
    world.send(b"1", b"2", b"3", to=world.topic())
    assert world.try_send(b"4", world.topic()) == gates.ADDRESS_FULL
    settle_all(world, one)
    assert world.try_send(b"4", world.topic()) == gates.ADDRESS_FULL
    settle_all(world, two)
    world.turn()
    assert world.try_send(b"4", world.topic()) == gates.OPEN


def test_it_counts_while_nobody_is_there_and_after_a_crash() -> None:
    world = limited("FAIL", max_size_bytes=1_000)
    world.lose(durable(world, "one"))
    world.send(b"x" * 600, b"x" * 600, to=world.topic())
    world.sync()
    with pytest.raises(AddressFull, match="topic://t holds 1200 of 1000 octets"):
        world.try_send(b"x", world.topic())
    world.crash()
    assert used(world) == (1_200, 2)
    with pytest.raises(AddressFull):
        world.try_send(b"x", world.topic())
    client = durable(world, "one")
    settle_all(world, client)
    assert used(world) == (0, 0)
    world.turn()
    assert world.try_send(b"x", world.topic()) == gates.OPEN


def test_what_a_durable_subscription_gives_back_opens_others_that_a_limit_of_all_keeps_shut() -> None:
    world = RestartWorld(address(">", full__address_full_policy="BLOCK"), limits=GlobalLimits(-1, 3))
    client = durable(world, "one")
    world.send(b"1", b"2", to=world.topic())
    queue = world.queue("q")
    assert world.try_send(b"3", queue) == gates.OPEN
    assert world.try_send(b"4", queue) == gates.ADDRESS_FULL
    settle_all(world, client)
    world.turn()
    assert world.try_send(b"4", queue) == gates.OPEN


def test_a_subscription_that_is_deleted_holds_nothing() -> None:
    world = limited("FAIL", max_size_messages=2)
    world.lose(durable(world, "one"))
    world.send(b"1", b"2", to=world.topic())
    world.sync()
    world.delete_subscription("", "one")
    world.sync()
    assert used(world) == (0, 0)


def test_a_topic_without_subscriptions_holds_nothing() -> None:
    world = limited("FAIL", max_size_messages=0)
    world.look_at_gates()
    world.sync()
    assert used(world) == (0, 0)
