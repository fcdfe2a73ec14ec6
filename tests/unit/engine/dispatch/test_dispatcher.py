"""Who is next: windows, rotation, priorities, output that is full, expiry at dispatch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.values import gates
from engine.values.delivery import IN_FLIGHT, Delivery
from engine.values.options import SubscribeOptions
from engine.values.outcomes import ACKNOWLEDGED, EXPIRED
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def test_a_window_of_ten_pauses_when_full_and_resumes_at_five() -> None:
    world, client = world_with_consumer(prefetch=10)
    world.send(*numbered(1, 30))
    held = client.take()
    assert len(held) == 10
    world.acknowledge(*held[:4])
    assert client.take() == []  # 6 of 10 in flight
    world.acknowledge(held[4])
    assert client.bodies() == numbered(11, 15)  # 5 in flight: filled at once
    assert world.stats().in_flight == 10


def test_each_ack_refills_where_the_address_says_so() -> None:
    world, client = world_with_consumer(address("q", prefetch__top_up="each-ack"), prefetch=10)
    world.send(*numbered(1, 30))
    held = client.take()
    world.acknowledge(held[0])
    assert client.bodies() == numbered(11, 11)


@pytest.mark.parametrize("prefetch", [1, 0])
def test_one_at_a_time(prefetch: int) -> None:
    world, client = world_with_consumer(prefetch=prefetch)
    world.send(*numbered(1, 3))
    for number in (1, 2, 3):
        (held,) = client.take()
        assert held.message.body == b"%d" % number
        world.acknowledge(held)
    assert client.take() == []
    assert world.stats().depth == 0


def test_the_address_says_the_prefetch_of_who_did_not_ask() -> None:
    world, client = world_with_consumer(address("q", prefetch__queue_prefetch=3))
    world.send(*numbered(1, 5))
    assert client.bodies() == numbered(1, 3)


def test_a_prefetch_beyond_the_most_is_clamped() -> None:
    world = EngineWorld()
    consumer = world.consumer(world.client(), prefetch=1_000_000)
    assert consumer.window.limit == 32_766


def test_consumers_take_turns_message_by_message() -> None:
    world = EngineWorld()
    clients = [world.client(f"c{number}") for number in range(3)]
    for client in clients:
        world.consumer(client)
    world.send(*numbered(1, 7))
    assert [client.bodies() for client in clients] == [[b"1", b"4", b"7"], [b"2", b"5"], [b"3", b"6"]]
    world.send(*numbered(8, 9))  # the turn is remembered
    assert [client.bodies() for client in clients] == [[], [b"8"], [b"9"]]


def test_automatic_consumers_take_turns_too() -> None:
    world = EngineWorld()
    clients = [world.client("a"), world.client("b")]
    for client in clients:
        world.consumer(client, ack_mode=AUTO)
    world.send(*numbered(1, 4))
    assert [client.bodies() for client in clients] == [[b"1", b"3"], [b"2", b"4"]]


def test_a_full_consumer_is_passed_over_and_comes_back_last() -> None:
    world = EngineWorld()
    small, large = world.client("small"), world.client("large")
    world.consumer(small, prefetch=1)
    world.consumer(large)
    world.send(*numbered(1, 4))
    (held,) = small.take()
    assert large.bodies() == numbered(2, 4)
    world.acknowledge(held)
    world.send(*numbered(5, 6))
    assert (large.bodies(), small.bodies()) == ([b"5"], [b"6"])


def test_higher_priorities_go_first_and_equals_in_order() -> None:
    world = EngineWorld()
    for priority in (0, 9, 4):
        world.send(b"%d-first" % priority, b"%d-second" % priority, priority=priority)
    client = world.subscriber()
    assert client.bodies() == [b"9-first", b"9-second", b"4-first", b"4-second", b"0-first", b"0-second"]


def test_automatic_deliveries_are_settled_as_they_leave() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, ack_mode=AUTO)
    world.send(*numbered(1, 3))
    assert client.bodies() == numbered(1, 3)
    (record,) = world.store.settled
    assert (record.outcome, record.ranges) == (ACKNOWLEDGED, [(4, 0, 3)])
    assert world.store.consumers[record.consumer_id - 1][1] == {"address": "client", "subscription": "sub"}
    assert consumer.acknowledged_count == 3
    assert world.stats().depth == 0


def test_one_settlement_record_a_consumer_and_turn() -> None:
    world, client = world_with_consumer()
    world.send(*numbered(1, 6))
    held = client.take()
    world.acknowledge(held[0], held[1], held[4])
    world.acknowledge(held[2], held[3], held[5])
    assert [record.ranges for record in world.store.settled] == [[(4, 0, 2), (4, 4, 1)], [(4, 2, 2), (4, 5, 1)]]
    assert len(world.store.consumers) == 1


def test_full_output_stops_dispatch_until_it_is_drained() -> None:
    world, client = world_with_client()
    client.hold_after = 2
    world.consumer(client)
    world.send(*numbered(1, 5))
    assert client.bodies() == numbered(1, 2)
    client.hold_after = -1
    world.drain_output(client)
    assert client.bodies() == numbered(3, 5)


def test_full_output_of_automatic_consumers_leaves_the_rest_to_others() -> None:
    world = EngineWorld()
    slow, quick = world.client("slow"), world.client("quick")
    slow.hold_after = 1
    world.consumer(slow, ack_mode=AUTO)
    world.consumer(quick, ack_mode=AUTO)
    world.send(*numbered(1, 4))
    assert slow.bodies() == [b"1"]
    assert quick.bodies() == numbered(2, 4)
    world.send(b"5")
    assert quick.bodies() == [b"5"]


def test_draining_output_that_was_not_full_is_nothing() -> None:
    world, client = world_with_consumer()
    world.turn()
    world.broker.output_drained(client)
    assert not world.broker.has_more_to_do()


def test_acknowledging_while_output_is_full_hands_nothing_over() -> None:
    world, client = world_with_client()
    client.hold_after = 1
    world.consumer(client, prefetch=1)
    world.send(*numbered(1, 2))
    (held,) = client.take()
    world.acknowledge(held)
    assert client.take() == []
    world.drain_output(client)
    assert client.bodies() == [b"2"]


def test_expired_messages_are_not_handed_over() -> None:
    world = EngineWorld()
    soon = world.clock.wall_ms() + 1_000
    world.send(b"short", expires_ms=soon)
    world.send(b"long", expires_ms=soon + 1)
    world.advance(1_000)
    assert world.subscriber().bodies() == [b"long"]
    assert [(one.outcome, one.consumer_id) for one in world.store.settled] == [(EXPIRED, 0)]
    assert (world.stats().expired, world.stats().depth) == (1, 1)


def test_a_message_that_is_expired_at_arrival_in_the_very_first_moment() -> None:
    world, client = world_with_consumer()
    world.send(b"late", expires_ms=world.clock.wall_ms())
    assert client.bodies() == []


def test_ack_mode_client_covers_what_was_handed_over_before() -> None:
    world, client = world_with_consumer(ack_mode=CLIENT)
    world.send(*numbered(1, 4))
    held = client.take()
    assert covered_by(held[2]) == held[:3]
    world.acknowledge(held[1])
    assert covered_by(held[3]) == [held[0], held[2], held[3]]


class _WalkedLedger(dict[int, Delivery]):
    """Counts the entries that somebody has looked at."""

    looks = 0

    def __reversed__(self) -> Iterator[int]:
        for tag in super().__reversed__():
            self.looks += 1
            yield tag

    def items(self) -> Any:
        for item in super().items():
            self.looks += 1
            yield item

    def get(self, tag: int, default: Any = None) -> Any:
        self.looks += 1
        return super().get(tag, default)


def test_what_a_transaction_holds_is_passed_over_once() -> None:
    """An ACK of each third of 300, each in the transaction: what is held before is not walked again and again."""
    world, client = world_with_client()
    consumer = world.consumer(client, ack_mode=CLIENT, prefetch=1_000)
    world.send(*numbered(1, 600))
    held = client.take()
    ledger = _WalkedLedger(consumer.ledger)
    consumer.ledger = ledger
    transaction = Transaction(client, "tx", TransactionLimits())
    for number in range(2, 300, 3):
        covered = covered_by(held[number])
        assert covered == held[number - 2 : number + 1]
        transaction.add_accepted(covered)
    assert ledger.looks < 5 * 600
    transaction.undo()
    assert covered_by(held[4]) == held[:5]


@pytest.mark.parametrize("seed", range(20))
def test_what_an_answer_covers_is_all_that_is_in_flight_before_it(seed: int) -> None:
    chance = random.Random(seed)
    world, client = world_with_client()
    consumer = world.consumer(client, ack_mode=CLIENT, prefetch=40)
    open_ones: list[Transaction] = []
    for _ in range(80):
        world.send(b"x")
        if not consumer.ledger:
            continue
        asked = chance.choice(list(consumer.ledger.values()))
        in_flight = [one for tag, one in consumer.ledger.items() if tag <= asked.tag and one.state == IN_FLIGHT]
        assert covered_by(asked) == in_flight
        work = chance.random()
        if work < 0.4 and in_flight:
            open_ones.append(Transaction(client, "tx", TransactionLimits()))
            open_ones[-1].add_accepted(in_flight if chance.random() < 0.7 else in_flight[-1:])
        elif work < 0.6 and in_flight:
            world.acknowledge(*(in_flight if chance.random() < 0.7 else in_flight[-1:]))
        elif work < 0.8 and open_ones:
            transaction = open_ones.pop(chance.randrange(len(open_ones)))
            (world.broker.commit if chance.random() < 0.5 else world.broker.abort)(transaction)
            world.turn()


def test_individual_mode_covers_one() -> None:
    world, client = world_with_consumer()
    world.send(*numbered(1, 3))
    held = client.take()
    assert covered_by(held[2]) == [held[2]]


def test_a_consumer_gets_nothing_before_its_first_turn() -> None:
    world, client = world_with_client()
    queue = world.queue("q")
    consumer = world.broker.subscribe(client, queue, SubscribeOptions(INDIVIDUAL, None, "sub"))
    world.send(b"1")
    assert client.bodies() == []
    queue.start_consumer(consumer)
    world.turn()
    assert client.bodies() == [b"1"]


def test_a_consumer_that_closed_before_its_first_turn_never_has_one() -> None:
    world, client = world_with_client()
    queue = world.queue("q")
    consumer = world.broker.subscribe(client, queue, SubscribeOptions(INDIVIDUAL, None, "sub"))
    world.broker.unsubscribe(consumer, is_lost=False)
    queue.start_consumer(consumer)
    world.send(b"1")
    assert client.bodies() == []


# -- nothing leaves before it is written


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
@pytest.mark.parametrize("is_topic", [False, True])
def test_what_the_disk_has_not_taken_is_not_handed_over(ack_mode: int, is_topic: bool) -> None:
    world = EngineWorld()
    destination = world.topic("t") if is_topic else world.queue("q")
    client = world.consuming(destination, ack_mode)
    assert world.try_send(b"1", destination) == gates.OPEN
    assert world.try_send(b"2", destination) == gates.OPEN
    world.store.fail("disk full")  # from the next write on; both are accepted, neither is written
    world.turn()
    assert client.bodies() == []
    world.store.heal()
    world.turn()
    assert client.bodies() == [b"1", b"2"]


def test_what_waits_for_the_rest_of_a_large_write_is_handed_over_after_it() -> None:
    world = EngineWorld()
    clients = [world.consuming(world.queue(name), INDIVIDUAL) for name in ("q", "r")]
    world.store.is_writing = True  # a large message is written over several turns
    world.try_send(b"1", world.queue("q"))
    world.turn()
    world.try_send(b"2", world.queue("r"))
    world.turn()
    assert [client.bodies() for client in clients] == [[], []]
    world.store.is_writing = False
    world.store.write()
    world.turn()
    world.timers.advance(0)
    world.turn()
    assert [client.bodies() for client in clients] == [[b"1"], [b"2"]]


def test_what_was_written_before_the_disk_refused_goes_on_being_handed_over() -> None:
    world = EngineWorld()
    world.send(b"1", b"2")
    world.store.write()
    world.store.fail("disk full")
    assert world.subscriber().bodies() == [b"1", b"2"]
