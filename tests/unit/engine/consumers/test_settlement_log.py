"""Who settled or refused a message is in the log as long as a record may still name him, also after he has left."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import CLIENT
from engine.open_transaction import Transaction, TransactionLimits
from engine.store.state.consumer_records import CLOSED_MAX
from engine.values.delivery import Refusal
from tests.support.engine.engine_world import address
from tests.support.engine.restart_world import RestartWorld
from tests.support.store.memory_store import MemoryStore

COUNT = 1_000
LATER = Refusal("redeliver", delay_ms=60_000)


class ForgetfulStore(MemoryStore):
    """Begins a segment with every record, which forgets the closed consumers that nothing names."""

    def set_time(self, wall_ms: int) -> None:
        super().set_time(wall_ms)
        self._state.consumers.forget_unnamed()

    def fail_attempts(self, *told: object) -> None:
        self._state.consumers.forget_unnamed()
        super().fail_attempts(*told)  # type: ignore[arg-type]


class World(RestartWorld):
    store_class = ForgetfulStore


@pytest.mark.parametrize("end", ["leaves", "is lost", "unsubscribes", "refuses in a transaction"])
def test_who_refused_is_known_after_he_has_left(end: str) -> None:
    world = World(address("q", redelivery__maximum_redeliveries=-1))
    client = world.client(client_id="ann")
    consumer = world.consumer(client, "q", CLIENT, COUNT)
    world.send(*[b"%d" % number for number in range(COUNT)])
    deliveries = client.take()
    world.broker.acknowledge(deliveries[0])  # so that there is a record that can be forgotten
    world.turn()
    if end == "refuses in a transaction":
        transaction = Transaction(client, "t", TransactionLimits())
        transaction.add_refused(deliveries[1:], LATER)
        world.unsubscribe(consumer)
        world.broker.commit(transaction)
    else:
        world.broker.refuse_all(deliveries[1:], LATER)
        if end == "unsubscribes":
            world.broker.unsubscribe(consumer, is_lost=False)
        else:
            world.broker.disconnect(client, is_lost=end == "is lost")
    world.advance(10)
    world.sync()
    attempts = world.memory_store.state_of(world.queue().destination_id).lanes[0].attempts
    assert len(attempts) == COUNT - 1
    names = {world.memory_store.consumer_description(one.consumer_id).get("client_id") for one in attempts.values()}
    assert names == {"ann"}


def test_who_is_lost_is_known_among_many_who_have_left() -> None:
    """His record is made as he is lost: it must not be forgotten before it is named."""
    world = RestartWorld(address("q", blame="all", redelivery__maximum_redeliveries=-1))
    store = world.memory_store
    named = store.open_consumer(world.queue("other").destination_id, {"client_id": "one of many"})
    world.send(b"m")
    client = world.client(client_id="ann")
    world.subscribe(client, "q", CLIENT, 1)
    for number in range(named, named + CLOSED_MAX):
        store.close_consumer(number if number == named else store.open_consumer(1, {"client_id": "one of many"}))
    world.broker.disconnect(client, is_lost=True)
    world.sync()
    (attempts,) = store.state_of(world.queue().destination_id).lanes[0].attempts.values()
    assert store.consumer_description(attempts.consumer_id).get("client_id") == "ann"


def test_records_of_who_has_left_do_not_gather() -> None:
    world = RestartWorld(address("q", redelivery__maximum_redeliveries=-1))
    store = world.memory_store
    for number in range(2 * CLOSED_MAX + 10):
        client = world.client(client_id=f"c{number}")
        world.consumer(client, "q", CLIENT, 1)
        world.send(b"m")
        world.broker.acknowledge(client.take()[0])
        world.broker.disconnect(client, is_lost=number % 2 == 0)
    world.sync()
    assert len(store._state.consumers.described) <= CLOSED_MAX + 1
