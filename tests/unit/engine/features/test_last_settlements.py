"""The gateway stops: nothing more is handed over, what is held may be settled, and most producers wait."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.open_transaction import Transaction, TransactionLimits
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.destination import QUEUE
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.fakes import FakeClient


def begin(world: EngineWorld) -> None:
    world.broker.begin_turn()
    world.last_settlements.begin()
    world.turn()


def gate_for(world: EngineWorld, client: FakeClient, to: str = "q", *, persistent: bool = True) -> int:
    """Return the gate of a message that the client sends."""
    world.broker.begin_turn()
    world.let_send(client)
    gate = world.try_send(b"new", to, persistent=persistent)
    world.turn()
    return gate


def held(world: EngineWorld) -> tuple[int, int]:
    last = world.last_settlements
    found = last.held()
    assert last.is_held() == (found.messages > 0)
    return found.messages, found.consumers


class Looked(dict[int, Delivery]):
    """A ledger that counts the looks at it."""

    looks = 0

    def __len__(self) -> int:
        self.looks += 1
        return super().__len__()


@pytest.mark.parametrize("ack_mode", [CLIENT, INDIVIDUAL])
def test_what_is_held_may_be_settled_and_nothing_follows(ack_mode: int) -> None:
    world, client = world_with_client()
    consumer = world.subscribe(client, prefetch=2, ack_mode=ack_mode)
    world.send(b"0", b"1", b"2")
    first, second = client.take()
    begin(world)
    assert held(world) == (2, 1)
    assert consumer.gate() == gates.STOPPING
    assert consumer.describe_gate().startswith("stopping: the gateway stops and hands over nothing more")
    (words,) = world.last_settlements.held().largest
    assert words == f"consumer {consumer.consumer_id} (client, subscription sub) holds 2 of queue://q"
    world.acknowledge(first)
    world.acknowledge(second)
    assert held(world) == (0, 0)
    assert client.bodies() == []
    assert world.stats().depth == 1, "it waits for the next start"


@pytest.mark.parametrize("asked", [{"selector": "n >= 0"}, {"is_exclusive": True}, {"ack_mode": AUTO}], ids=str)
def test_no_kind_of_consumer_gets_more(asked: dict[str, object]) -> None:
    world, client = world_with_client()
    world.subscribe(client, prefetch=10, **asked)
    begin(world)
    world.send(b"0", headers="n:1")
    world.advance(60_000)
    assert client.bodies() == []
    late = world.client()
    consumer = world.subscribe(late, prefetch=10, **asked)
    assert (late.bodies(), consumer.gate()) == ([], gates.STOPPING), "nor one that comes meanwhile"
    assert world.stats().depth == 1


def test_refused_messages_return_to_their_place() -> None:
    world, client = world_with_client()
    world.subscribe(client, prefetch=1)
    world.send(b"0")
    (delivery,) = client.take()
    begin(world)
    world.refuse(delivery)
    world.advance(60_000)
    assert (client.bodies(), held(world), world.stats().depth) == ([], (0, 0), 1)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_producer_waits_unless_its_connection_holds_something(persistent: bool) -> None:
    world, service = world_with_client()
    world.subscribe(service, prefetch=1)
    other = world.client("other")
    world.send(b"request")
    (request,) = service.take()
    begin(world)
    assert gate_for(world, other, persistent=persistent) == gates.STOPPING
    assert gate_for(world, service, "answers", persistent=persistent) == gates.OPEN
    world.acknowledge(request)
    assert gate_for(world, service, "answers", persistent=persistent) == gates.STOPPING
    assert world.stats("answers").depth == 1


def test_a_waiting_producer_is_explained_and_never_admitted() -> None:
    world, client = world_with_client()
    destination = world.queue("q")
    begin(world)
    world.park(client, gates.STOPPING, destination)
    world.advance(60_000)
    assert client.admissions == 0
    (reason,) = world.reasons(client)
    assert reason.startswith("stopping: the gateway stops and accepts nothing more from connections that hold no")
    assert world.broker.inspect().producer_waits["stopping"] == 1


def test_a_transaction_commits_what_it_holds_with_what_it_sends() -> None:
    world, client = world_with_client()
    world.subscribe(client, prefetch=1, ack_mode=INDIVIDUAL)
    world.send(b"request")
    (request,) = client.take()
    begin(world)
    broker = world.broker
    broker.begin_turn()
    world.let_send(client)
    transaction = Transaction(client, "t", TransactionLimits(10, 1_000))
    transaction.add_accepted([request])
    answers = world.queue("answers")
    broker.send_in(transaction, answers, world.message(answers, b"answer"))
    assert held(world) == (1, 1), "until the commit"
    assert broker.commit_refusal(transaction)[0] == gates.OPEN
    broker.commit(transaction)
    world.turn()
    assert held(world) == (0, 0)
    assert world.stats("answers").depth == 1


def test_browsers_are_not_waited_for() -> None:
    world, client = world_with_client()
    world.send(b"0")
    world.subscribe(client, prefetch=10, ack_mode=INDIVIDUAL, is_browser=True)
    assert len(client.take()) == 1
    begin(world)
    assert held(world) == (0, 0)


def test_readers_of_a_non_destructive_queue_are_not_waited_for() -> None:
    world = EngineWorld(address("q", queue__non_destructive=True))
    world.send(b"0")
    client = world.subscriber(prefetch=10, ack_mode=INDIVIDUAL)
    assert len(client.take()) == 1
    begin(world)
    assert held(world) == (0, 0)


def test_a_lost_client_is_not_waited_for() -> None:
    world, client = world_with_client()
    world.subscribe(client, prefetch=10)
    world.send(b"0")
    begin(world)
    assert held(world) == (1, 1)
    world.lose(client)
    assert held(world) == (0, 0)
    assert world.stats().depth == 1


def test_the_consumers_of_a_wildcard_are_one() -> None:
    world, client = world_with_client()
    world.subscribe(client, world.source(QUEUE, "a.*"), prefetch=10)
    world.send(b"0", to="a.b")
    world.send(b"1", to="a.c")
    begin(world)
    assert held(world) == (2, 1)
    world.acknowledge(*client.take())
    assert held(world) == (0, 0)


@pytest.mark.interpreted
def test_who_holds_nothing_is_looked_at_once() -> None:
    world, client = world_with_client()
    consumers = [world.subscribe(client, prefetch=1) for _ in range(50)]
    world.send(*[b"x"] * 50)
    ledgers = []
    for consumer in consumers:
        ledger = consumer.ledger = Looked(consumer.ledger)
        ledgers.append(ledger)
    begin(world)
    deliveries = client.take()
    world.acknowledge(*deliveries[1:])
    assert world.last_settlements.is_held()
    for ledger in ledgers:
        ledger.looks = 0
    for _ in range(100):
        assert world.last_settlements.is_held()
    assert sum(ledger.looks for ledger in ledgers) == 100, "one look each time"
    world.acknowledge(deliveries[0])
    assert not world.last_settlements.is_held()
