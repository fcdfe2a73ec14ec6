"""What the consumers of one user may hold unsettled; others go on whatever it holds."""

from __future__ import annotations

import pytest

from config.matching import AddressEntry
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL, Consumer
from engine.consumers.unsettled_memory import UNIT_BYTES
from engine.consumers.user_quota import UserLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import CompositeSource
from engine.values import gates
from engine.values.delivery import AS_THE_ADDRESS_SAYS
from engine.values.destination import QUEUE
from engine.values.wildcard import Wildcard
from tests.support.engine.engine_world import EngineWorld
from tests.support.fakes import FakeClient

BODY = b"x"
EACH = UNIT_BYTES
LIMIT = 20 * EACH


def world_with(*addresses: AddressEntry, limit_bytes: int = LIMIT, memory_limit_bytes: int = 3 * LIMIT) -> EngineWorld:
    return EngineWorld(
        *addresses, memory_limit_bytes=memory_limit_bytes, user_limits=UserLimits(unsettled_bytes=limit_bytes)
    )


def enter(world: EngineWorld, user: str, host: str = "192.0.2.1") -> FakeClient:
    client = world.client(user)
    client.user = user
    world.enter(client, user, host)
    return client


def send(world: EngineWorld, count: int, to: str = "q", persistent: bool = True) -> None:
    world.send(*[BODY] * count, to=to, persistent=persistent)
    world.turn()


@pytest.mark.parametrize("persistent", [True, False])
def test_a_user_gets_no_more_than_its_share_until_it_settles(persistent: bool) -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    client = enter(world, "mallory")
    consumer = world.consumer(client, ack_mode=INDIVIDUAL, prefetch=10_000)
    send(world, 50, persistent=persistent)
    assert len(client.handed) == 20
    assert world.unsettled() == {"user 'mallory'": LIMIT}
    assert consumer.gate() == gates.MEMORY
    assert consumer.describe_gate() == (
        f"memory: user 'mallory' holds {LIMIT} octets unsettled, the limit is {LIMIT} "
        f"(limits.unsettled-memory-per-user); resumes at {LIMIT * 9 // 10}"
    )
    first, second, *_ = client.take()
    world.acknowledge(first)
    assert client.handed == [], "a share that is full does not open for each message"
    world.acknowledge(second)
    assert len(client.handed) == 2
    count = 22
    while consumer.ledger:
        world.acknowledge(*consumer.ledger.values())
        count += len(client.take())
    assert count == 52
    assert world.unsettled() == {}


def test_other_users_have_shares_of_their_own() -> None:
    world = world_with()
    mallory, alice = enter(world, "mallory"), enter(world, "alice")
    world.consumer(mallory, "q", prefetch=10_000)
    send(world, 50)
    world.subscribe(alice, "q", prefetch=5)
    assert (len(mallory.handed), len(alice.handed)) == (20, 5)


def test_where_no_login_is_checked_it_is_the_address_that_has_a_share() -> None:
    world = world_with()
    for port in range(2):
        world.consumer(enter(world, "", "192.0.2.1"), f"q{port}", prefetch=10_000)
        send(world, 30, to=f"q{port}")
    assert world.unsettled() == {"address 192.0.2.1": 21 * EACH}, "the second, which holds nothing, gets one"


def test_consumers_of_the_same_user_that_hold_nothing_go_on_one_message_at_a_time() -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    hoarder = enter(world, "u")
    world.consumer(hoarder, "q", prefetch=10_000)
    send(world, 50)
    worker = enter(world, "u")
    world.consumer(worker, "work", prefetch=1_000)
    send(world, 5, to="work")
    for count in range(1, 6):
        assert len(worker.handed) == 1, f"the {count}. message"
        world.acknowledge(*worker.take())
    assert len(hoarder.handed) == 20


def test_however_many_consumers_a_user_has_it_gets_a_quarter_more_and_not_more() -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    clients = [enter(world, "u") for _ in range(60)]
    consumers = [world.consumer(client, "q", prefetch=10_000) for client in clients[:1]]
    send(world, 100)
    consumers += [world.consumer(client, "q", prefetch=10_000) for client in clients[1:]]
    world.turn()
    assert world.unsettled() == {"user 'u'": 25 * EACH}
    # Places that come free are theirs who have nothing, before anybody gets a second one.
    world.acknowledge(*clients[0].take()[:4])
    assert world.unsettled() == {"user 'u'": 25 * EACH}
    assert sum(bool(consumer.ledger) for consumer in consumers) == 10


def test_who_acknowledges_automatically_holds_nothing_and_is_never_held() -> None:
    world = world_with()
    hoarder = enter(world, "u")
    world.consumer(hoarder, "q", prefetch=10_000)
    send(world, 50)
    replies = world.consumer(hoarder, "replies", ack_mode=AUTO)
    send(world, 3, to="replies", persistent=False)
    assert replies.acknowledged_count == 3


@pytest.mark.parametrize("selector", ["", "TRUE"])
@pytest.mark.parametrize("way", ["acknowledge", "all", "refuse", "close", "lose"])
def test_what_is_settled_in_any_way_is_given_back(way: str, selector: str) -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    client, other = enter(world, "u"), enter(world, "u")
    consumer = world.consumer(client, "q", CLIENT, 10_000, selector=selector)
    send(world, 30)
    waiting = world.consumer(other, "p", prefetch=10_000)
    send(world, 30, to="p")
    assert len(other.handed) == 1 and waiting.gate() == gates.MEMORY
    _settle(world, way, client, consumer)
    world.turn()
    assert len(other.handed) > 1
    check(world)


def test_what_a_transaction_holds_counts_until_it_commits() -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    client = enter(world, "u")
    world.consumer(client, prefetch=10_000)
    send(world, 50)
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_accepted(client.take())
    world.turn()
    assert client.handed == []
    world.broker.commit(transaction)
    world.turn()
    assert len(client.handed) == 20
    check(world)


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_what_a_transaction_holds_of_a_consumer_that_has_gone_counts_until_it_ends(
    count: int, is_committed: bool
) -> None:
    world = world_with()
    client = enter(world, "u")
    staying = world.consumer(client, "p")
    send(world, 1, to="p")
    consumer = world.consumer(client)
    client.take()
    send(world, count)
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_accepted(client.take())
    world.unsubscribe(consumer)
    assert world.unsettled() == {"user 'u'": (1 + count) * EACH}
    if is_committed:
        world.broker.commit(transaction)
    else:
        world.broker.abort(transaction)
    world.turn()
    assert world.unsettled() == {"user 'u'": EACH} and len(staying.ledger) == 1


def test_subscriptions_to_several_queues_share_it_too() -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    client = enter(world, "u")
    source = CompositeSource([world.queue("a"), world.queue("b")])
    consumer = world.consumer(client, source, INDIVIDUAL, 10_000)
    send(world, 20, to="a")
    send(world, 20, to="b")
    assert len(client.handed) == 20
    world.acknowledge(*client.take())
    assert len(client.handed) == 20
    world.broker.unsubscribe(consumer, is_lost=True)
    world.turn()
    assert world.unsettled() == {}


def test_a_wildcard_that_had_lost_all_of_its_queues_counts_in_those_that_come() -> None:
    world = world_with(memory_limit_bytes=100 * LIMIT)
    client = enter(world, "u")
    send(world, 1, to="one.a")
    consumer = world.subscribe(client, Wildcard(QUEUE, "one.>"), INDIVIDUAL, 10_000)
    for name in ("one.a", "one.b"):
        world.remove(world.queue(name))
        world.turn()
        send(world, 30, to="one.b")
    check(world)
    assert len(client.take()) > 1
    world.broker.unsubscribe(consumer, is_lost=True)
    world.turn()
    assert world.unsettled() == {}


def test_a_window_pays_ahead_so_that_most_messages_ask_nothing_of_the_share() -> None:
    world = world_with(limit_bytes=1_000 * EACH, memory_limit_bytes=1 << 24)
    client = enter(world, "u")
    world.consumer(client, ack_mode=INDIVIDUAL, prefetch=10_000)
    send(world, 8)
    used: set[int] = set()
    for _ in range(200):
        send(world, 1)
        world.acknowledge(client.take()[0])
        used.update(world.unsettled_used().values())
    assert len(used) <= 2 and max(used) <= 40 * EACH
    assert world.unsettled() == {"user 'u'": 8 * EACH}


def test_large_messages_count_octet_by_octet() -> None:
    world = world_with(limit_bytes=100_000, memory_limit_bytes=1 << 24)
    client = enter(world, "u")
    consumer = world.consumer(client, ack_mode=INDIVIDUAL, prefetch=10_000)
    world.send(*[b"x" * 30_000] * 6, to="q")
    world.turn()
    assert len(client.handed) == 4, "the one that passes the limit is the last"
    check(world)
    world.acknowledge(client.take()[0])
    assert client.handed == [], "91,560 octets are more than nine tenths"
    world.acknowledge(*list(consumer.ledger.values())[:2])
    assert len(client.handed) == 2
    check(world)


def _settle(world: EngineWorld, way: str, client: FakeClient, consumer: Consumer) -> None:
    handed = client.take()
    if way == "acknowledge":
        for delivery in handed:
            world.broker.acknowledge(delivery)
    elif way == "all":
        world.broker.acknowledge_all(handed)
    elif way == "refuse":
        for delivery in handed:
            world.broker.refuse(delivery, AS_THE_ADDRESS_SAYS)
    elif way == "close":
        world.broker.unsubscribe(consumer, is_lost=False)
    else:
        world.lose(client)


def check(world: EngineWorld) -> None:
    """What is counted is what is in the ledgers."""
    assert world.unsettled() == world.unsettled_in_ledgers()
