"""A queue that is deleted while others read it, or still have something of it: it ends for all of them alike."""

from __future__ import annotations

from typing import Any, Final

import pytest

from engine.backlog.lane_entries import IDLE_LANE_BYTES
from engine.consumers.consumer import INDIVIDUAL, Consumer
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.limits.producer_gates import GlobalLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.ports.workers import READ_LANE
from engine.values import gates
from engine.values.delivery import IN_FLIGHT
from engine.values.options import FIRST, ReplayStart
from tests.support.engine.engine_world import MIB, address
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient


def _read_halfway(world: RestartWorld, **options: Any) -> tuple[FakeClient, Consumer]:
    """Let somebody read a backlog that is on disk, and stop in the middle of it."""
    world.send(*(b"%d" % number + b"x" * (IDLE_LANE_BYTES // 4) for number in range(40)), to="q")
    reader = world.client("reader")
    consumer = world.subscribe(reader, "q", INDIVIDUAL, 2, **options)
    assert len(reader.take()) == 2
    return reader, consumer


TO_THE_END: Final = {"is_browser": True, "replay": ReplayStart(place=FIRST)}
READERS: Final = ({"is_browser": True}, TO_THE_END, {"replay": ReplayStart(place=FIRST)})


@pytest.mark.parametrize("options", READERS, ids=("browser", "replay to the end", "replay that follows"))
def test_a_queue_is_not_deleted_before_its_last_reader_has_gone(options: dict[str, Any]) -> None:
    world = RestartWorld(address("q", queue__auto_delete=True, queue__auto_delete_message_count=-1))
    reader, consumer = _read_halfway(world, **options)
    world.leave(_consumed(world))
    world.advance(10)
    while held := [one for one in consumer.ledger.values() if one.state == IN_FLIGHT]:
        world.acknowledge(*held)
    assert len(reader.bodies()) == 38 and world.has_queue("q")
    world.leave(reader)
    world.advance(10)
    assert not world.has_queue("q") and not world.has_readers()
    world.sync()


def _consumed(world: RestartWorld) -> FakeClient:
    client = world.client("consumer")
    world.consumer(client, "q", INDIVIDUAL, 1)
    return client


@pytest.mark.parametrize("options", READERS, ids=("browser", "replay to the end", "replay that follows"))
@pytest.mark.parametrize("is_page_under_way", [False, True])
def test_a_queue_that_an_operator_deletes_ends_its_readers(options: dict[str, Any], is_page_under_way: bool) -> None:
    world = RestartWorld(address("q", full__max_size_bytes=IDLE_LANE_BYTES), memory_limit_bytes=2 * MIB)
    reader, consumer = _read_halfway(world, **options)
    queue = world.queue("q")
    if is_page_under_way:
        for _ in range(10):
            if any(lane == READ_LANE for _, lane in world.workers.jobs):
                break
            for delivery in list(consumer.ledger.values()):
                world.broker.acknowledge(delivery)
            world.broker.end_turn()
        else:
            pytest.fail("no page was asked for")
    world.delete(queue, is_forced=True)
    world.turn()
    while consumer.ledger:
        world.acknowledge(*consumer.ledger.values())
    if "replay" in options:
        assert [str(error) for _, error, _ in reader.expelled] == ["queue://q was deleted"]
    else:
        assert reader.browses_ended == [consumer]
    world.leave(reader)
    world.advance(10_000)
    assert world.memory_held() == 0 and not world.has_readers()


def test_what_has_expired_goes_to_the_expiry_address_though_its_queue_is_deleted_in_the_same_turn() -> None:
    world = RestartWorld(address("q", expiry_address="late"))
    queue = world.queue("q")
    world.send(b"x", expires_ms=world.broker.wall_ms + 10)
    world.send(b"y", expires_ms=world.broker.wall_ms + 10, persistent=False)
    world.begin_later(EXPIRE_MESSAGES_PERIOD_MS)
    world.delete(queue, is_forced=True)
    world.turn()
    assert [one.body for one in world.dead_letters("late")] == [b"x", b"y"]
    assert queue.depth == 0 and world.memory_held() == 0


def test_what_a_last_value_queue_was_to_drop_goes_with_it_in_the_same_turn() -> None:
    world = RestartWorld(address("q", queue__last_value=True, queue__last_value_key="key"))
    queue = world.queue("q")
    for number in range(2):
        world.broker.send(queue, world.message(queue, b"%d" % number, headers="key:a"))
    world.delete(queue, is_forced=True)
    world.turn()
    assert queue.depth == 0 and world.memory_held() == 0


def test_what_a_transaction_acknowledged_of_a_queue_that_is_deleted_counts_nowhere() -> None:
    world = RestartWorld(
        address("q", full__address_full_policy="BLOCK", full__max_size_messages=5), limits=GlobalLimits(max_messages=90)
    )
    queue = world.queue("q")
    client = world.client()
    consumer = world.consumer(client, "q", INDIVIDUAL, 5)
    world.send(b"1", b"2")
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_accepted(client.take())
    world.broker.unsubscribe(consumer, is_lost=False)
    world.delete(queue, is_forced=True)
    world.broker.commit(transaction)
    world.sync()
    accounts = world.address_accounts()
    assert (accounts.used_messages, accounts.used_bytes, world.memory_held()) == (0, 0, 0)
    world.crash()
    assert not world.has_queue("q")


def test_who_waits_at_a_full_queue_that_is_deleted_sends_to_the_new_one_of_that_name() -> None:
    world = RestartWorld(
        address("q", full__address_full_policy="BLOCK", full__max_size_messages=1, full__block_timeout_ms=1_000)
    )
    client = world.client()
    queue = world.queue("q")
    world.send(b"1")
    assert world.try_send(b"2", queue) == gates.ADDRESS_FULL
    world.park(client, gates.ADDRESS_FULL, queue)
    world.clock.now_ms += 1_000
    world.broker.begin_turn()
    world.delete(queue, is_forced=True)
    world.timers.fire_due()  # the time-out falls into the same turn
    world.turn()
    assert client.admissions == 1 and client.waited == []
    assert world.try_send(b"2", queue) == gates.OPEN
    assert world.stats().depth == 1
