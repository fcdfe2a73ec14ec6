"""Times from the acceptance of messages to their hand-over and to their acknowledgement."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO
from engine.open_transaction import Transaction, TransactionLimits
from engine.values.broker_stats import HistogramStats
from tests.support.engine.engine_world import EngineWorld, address


def found(stats: HistogramStats | None) -> tuple[dict[float, int], float]:
    """Return the count at each bound that has one, and the sum."""
    assert stats is not None
    return {bound: count for bound, count in zip(stats.bounds_s, stats.counts, strict=False) if count}, round(
        stats.sum_s, 6
    )


def delivered(world: EngineWorld) -> tuple[dict[float, int], float]:
    return found(world.broker.inspect().until_delivered)


def acknowledged(world: EngineWorld) -> tuple[dict[float, int], float]:
    return found(world.broker.inspect().until_acknowledged)


@pytest.fixture
def world() -> EngineWorld:
    return EngineWorld(has_message_times=True)


@pytest.mark.parametrize("is_persistent", [True, False])
def test_a_message_that_waits_and_is_held(world: EngineWorld, is_persistent: bool) -> None:
    world.send(b"1", b"2", persistent=is_persistent)
    world.advance(40)
    client = world.client()
    world.consumer(client)
    world.turn()
    assert delivered(world) == ({0.05: 2}, 0.08)
    assert acknowledged(world) == ({}, 0.0)
    held = client.take()
    world.advance(5_000)
    world.acknowledge(held[0])
    assert acknowledged(world) == ({10.0: 1}, 5.04)
    world.advance(100)  # what was counted stays
    assert delivered(world) == ({0.05: 2}, 0.08)


def test_many_at_once_and_in_a_transaction(world: EngineWorld) -> None:
    client = world.client()
    world.consumer(client)
    world.send(*[b"%d" % number for number in range(10)])
    held = client.take()
    assert delivered(world) == ({0.001: 10}, 0.0)
    world.advance(3)
    world.broker.acknowledge_all(held[:4])
    transaction = Transaction(client, "t", TransactionLimits())
    transaction.add_accepted(held[4:])
    world.turn()
    assert acknowledged(world) == ({0.005: 4}, 0.012)
    world.broker.commit(transaction)
    world.turn()
    assert acknowledged(world) == ({0.005: 10}, 0.03)


def test_automatic_consumers_have_acknowledged_at_once(world: EngineWorld) -> None:
    world.send(b"1")
    world.advance(7)
    world.consumer(world.client(), ack_mode=AUTO)
    world.turn()
    assert delivered(world) == acknowledged(world) == ({0.01: 1}, 0.007)


def test_only_the_first_hand_over_counts_and_the_last_acknowledgement() -> None:
    world = EngineWorld(address("q", redelivery__redelivery_delay_ms=100), has_message_times=True)
    client = world.client()
    world.consumer(client)
    world.send(b"1")
    world.refuse(*client.take())
    world.advance(1_000)
    assert delivered(world) == ({0.001: 1}, 0.0)
    world.acknowledge(client.take()[0])
    assert acknowledged(world) == ({1.0: 1}, 1.0)


def test_a_selective_consumer(world: EngineWorld) -> None:
    client = world.client()
    world.consumer(client, priority=1)
    world.consumer(world.client())
    world.send(b"1")
    assert delivered(world) == ({0.001: 1}, 0.0)


def test_browsers_and_purges_are_no_consumers(world: EngineWorld) -> None:
    world.send(b"1", b"2")
    world.advance(2_000)
    world.consumer(world.client(), is_browser=True, ack_mode=AUTO)
    world.turn()
    world.purge(world.queue("q"))
    world.advance(1_000)
    assert world.stats().depth == 0
    assert delivered(world) == acknowledged(world) == ({}, 0.0)


def test_it_measures_nothing_unless_it_is_asked_to() -> None:
    stats = EngineWorld().broker.inspect()
    assert stats.until_delivered is stats.until_acknowledged is None
