"""Subscriptions to several destinations: wildcards and lists, with one window and one ledger over all."""

from __future__ import annotations

import pytest

from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.features.message_copies import CopyLimits
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, CompositeSource
from engine.values import gates
from engine.values.destination import QUEUE, TOPIC
from engine.values.errors import AddressFull, InvalidDestination, InvalidOption, LimitReached
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard
from tests.support.engine.broker_view import covered_by
from tests.support.engine.engine_world import EngineWorld, address, world_with_client
from tests.support.fakes import FakeClient


@pytest.mark.parametrize(
    ("pattern", "name", "is_one"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", True),
        ("a.#", "a.b", True),
        ("*.b", "a.b", True),
        ("a.*.c", "a.x.c", True),
        ("a.>", "ab", False),
        (">", "ActiveMQ.Advisory.Connection", False),
        ("ActiveMQ.Advisory.>", "ActiveMQ.Advisory.Connection", True),
    ],
)
def test_what_a_wildcard_stands_for(pattern: str, name: str, is_one: bool) -> None:
    assert Wildcard(TOPIC, pattern).matches(name) is is_one


@pytest.mark.parametrize("pattern", ["a.>.b", "a*", "", "a..*", "x" * 1025])
def test_wildcards_that_mean_nothing(pattern: str) -> None:
    with pytest.raises(InvalidDestination):
        Wildcard(QUEUE, pattern)


def test_a_wildcard_takes_from_every_queue_that_matches_and_from_those_to_come() -> None:
    world, client = world_with_client()
    world.send(b"1", to="a.x")
    world.send(b"no", to="b.x")
    consumer = world.consumer(client, world.source(QUEUE, "a.>"), AUTO)
    world.send(b"2", to="a.y")
    world.send(b"no", to="b.y")
    assert client.bodies() == [b"1", b"2"]
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"3", to="a.z")
    assert client.bodies() == []
    assert [queue.name for queue in world.queues() if queue.consumers] == []
    assert client.consumers == {}


def test_one_window_over_all_queues() -> None:
    world, client = world_with_client()
    for name in ("a.1", "a.2", "a.3"):
        world.send(b"x", b"y", to=name)
    world.subscribe(client, Wildcard(QUEUE, "a.*"), prefetch=4)
    held = client.take()
    assert len(held) == 4
    world.acknowledge(held[0])
    assert client.take() == [], "half of the window: it resumes at two in flight"
    world.acknowledge(held[1])
    assert len(client.take()) == 2
    assert world.stats("a.1").in_flight + world.stats("a.2").in_flight + world.stats("a.3").in_flight == 4


def test_a_cumulative_acknowledgement_covers_all_queues() -> None:
    world, client = world_with_client()
    world.consumer(client, Wildcard(QUEUE, "a.*"), CLIENT)
    world.send(b"1", to="a.1")
    world.send(b"2", to="a.2")
    world.send(b"3", to="a.1")
    first, second, third = client.take()
    assert covered_by(second) == [first, second]
    world.acknowledge(*covered_by(third))
    assert sorted((one.destination_id, one.ranges[0][2]) for one in world.store.settled) == [(1, 2), (2, 1)]


def test_only_one_past_the_furthest_answer_is_blamed_over_all_queues() -> None:
    world, client = world_with_client()
    world.consumer(client, Wildcard(QUEUE, "a.*"))
    for number in range(6):
        world.send(b"%d" % number, to=f"a.{number % 3}")
    deliveries = client.take()
    world.acknowledge(deliveries[2])
    world.lose(client)
    blamed = [one.message.body for one in deliveries if one.failed_attempts]
    assert blamed == [b"0", b"1", b"3"]
    assert sum(count for one in world.store.failed for _, _, count, _ in one.ranges) == 3


def test_an_aborted_transaction_takes_the_places_again() -> None:
    world, client = world_with_client()
    for name in ("a.1", "a.2"):
        world.send(b"x", b"y", b"z", to=name)
    world.subscribe(client, Wildcard(QUEUE, "a.*"), prefetch=2)
    held = client.take()
    transaction = Transaction(client, "tx", TransactionLimits())
    transaction.add_accepted(held)
    world.turn()
    more = client.take()
    assert len(more) == 2
    world.broker.abort(transaction)
    world.acknowledge(*more)
    assert client.take() == [], "two are in flight again, and the window is two"
    world.acknowledge(*held)
    assert len(client.take()) == 2


def test_a_client_whose_output_is_full_goes_on_with_all_of_them() -> None:
    world, client = world_with_client()
    world.consumer(client, Wildcard(QUEUE, "a.*"), AUTO)
    client.is_output_full = True
    world.send(b"1", to="a.1")
    world.send(b"2", to="a.2")
    assert client.bodies() == []
    world.drain_output(client)
    assert sorted(client.bodies()) == [b"1", b"2"]


def test_the_adapter_is_that_of_the_lead_also_for_queues_to_come() -> None:
    world, client = world_with_client()
    world.send(b"1", to="a.1")
    consumer = world.broker.subscribe(client, Wildcard(QUEUE, "a.*"), SubscribeOptions(AUTO))
    consumer.adapter = "mine"
    consumer.start()
    world.send(b"2", to="a.2")
    assert [one.consumer.adapter for one in client.handed] == ["mine", "mine"]


def test_a_list_takes_from_queues_topics_and_wildcards_each_once() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    client = world.client()
    queue, topic = destinations.queue("q"), destinations.topic("t")
    several = CompositeSource([queue, topic, Wildcard(QUEUE, "q.*"), Wildcard(TOPIC, "t.*"), queue])
    consumer = world.consumer(client, several, AUTO)
    world.send(b"1", to="q")
    world.send(b"2", to=destinations.topic("t"))
    world.send(b"3", to="q.x")
    world.send(b"4", to=destinations.topic("t.x"))
    assert client.bodies() == [b"1", b"2", b"3", b"4"]
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"5", to="q.y")
    assert client.bodies() == [] and destinations.readers.queues == {}


def test_a_topic_of_a_list_feeds_it_once_however_the_list_names_it() -> None:
    world, client = world_with_client()
    topic = world.topic("t.a")
    several = CompositeSource([Wildcard(TOPIC, "t.*"), topic, Wildcard(TOPIC, "t.>"), topic, Wildcard(TOPIC, "t.*")])
    consumer = world.consumer(client, several, AUTO)
    assert consumer.queue.name == "t.*,topic://t.a,topic://t.>", "each part once"
    world.send(b"1", to=topic)
    world.send(b"2", to=world.topic("t.b"))
    world.send(b"3", to=world.topic("t.b.c"))
    world.send(b"4", to=topic, persistent=False)
    assert client.bodies() == [b"1", b"2", b"3", b"4"]
    other = world.consuming(topic, AUTO)
    world.send(b"5", to=topic)
    assert (client.bodies(), other.bodies()) == ([b"5"], [b"5"])
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"6", to=topic)
    world.send(b"7", to=world.topic("t.b"))
    assert client.bodies() == [] and world.memory_used() == 0


def test_a_topic_that_is_made_again_feeds_its_list_again() -> None:
    world, client = world_with_client()
    several = CompositeSource([Wildcard(TOPIC, "t.*"), Wildcard(TOPIC, "t.>")])
    world.consumer(client, several, AUTO)
    for body in (b"1", b"2"):
        world.send(body, to=world.topic("t.a"))
        assert client.bodies() == [body]
        world.remove(world.topic("t.a"))
    assert client.fed_topics == 0


def test_a_wildcard_of_topics_takes_from_those_to_come_and_each_message_once() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    client = world.client()
    world.send(b"before", to=destinations.topic("t.1"))
    consumer = world.consumer(client, Wildcard(TOPIC, "t.>"), AUTO)
    for name in ("t.1", "t.2", "t", "u"):
        world.send(name.encode(), to=destinations.topic(name), persistent=name != "t.2")
    assert client.bodies() == [b"t.1", b"t.2", b"t"]
    assert [destinations.uri_of(one) for one in (1, 2)] == ["topic://t.1", "topic://t.2"]
    world.broker.unsubscribe(consumer, is_lost=False)
    world.send(b"late", to=destinations.topic("t.1"))
    assert client.bodies() == [] and world.memory_used() == 0


def test_what_waits_for_a_wildcard_of_topics_goes_with_it() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client, Wildcard(TOPIC, "t.>"), prefetch=1)
    world.send(b"1", b"2", b"3", to=world.topic("t.1"))
    assert world.memory_used() > 0
    world.broker.unsubscribe(consumer, is_lost=False)
    assert world.memory_used() == 0


def test_a_message_to_several_goes_to_all_in_one_batch() -> None:
    world = EngineWorld()
    destinations = world.broker.destinations
    client = world.consuming(destinations.topic("t"), AUTO)
    several = Composite([destinations.queue("a"), destinations.queue("b"), destinations.topic("t")])
    world.send(b"x", to=several)
    assert several.uri() == "queue://a,queue://b,topic://t"
    assert [batch.records for batch in world.store.batches] == [3]
    assert [one.destination_id for one in world.store.messages] == [part.destination_id for part in several.parts]
    assert (world.stats("a").depth, world.stats("b").depth, client.bodies()) == (1, 1, [b"x"])


def test_a_message_to_several_is_refused_whole() -> None:
    world = EngineWorld(address("m", log_non_persistent=False), memory_limit_bytes=1)
    destinations = world.broker.destinations
    world.send(b"fills", to="m", persistent=False)
    several = Composite([destinations.queue("a"), destinations.topic("t")])
    assert world.try_send(b"x", several) == gates.MEMORY, "the topic would hold it in memory"
    assert world.stats("a").depth == 0


def test_a_message_to_several_has_a_size() -> None:
    world = EngineWorld()
    several = Composite([world.queue(str(number)) for number in range(10)])
    body = bytes(CopyLimits().size_bytes // 10 + 1)
    with pytest.raises(LimitReached, match=r"to 10 destinations, .* \(limits.copies-bytes\)"):
        world.try_send(body, several)
    assert world.stats("0").depth == 0
    world.send(body[:-1_000], to=several)
    assert world.stats("9").depth == 1


@pytest.mark.parametrize("last", ["BLOCK", "FAIL"])
def test_what_one_of_several_drops_counts_once_it_is_sent(last: str) -> None:
    world = EngineWorld(
        address("drops", full__address_full_policy="DROP", full__max_size_messages=1),
        address("holds", full__address_full_policy=last, full__max_size_messages=1),
    )
    destinations = world.broker.destinations
    drops, holds = destinations.queue("drops"), destinations.queue("holds")
    world.send(b"fills", to=drops)
    world.send(b"fills", to=holds)
    assert drops.account is not None
    several = Composite([drops, holds])
    for _ in range(3):
        if last == "BLOCK":
            assert world.try_send(b"x", several) == gates.ADDRESS_FULL
        else:
            with pytest.raises(AddressFull):
                world.try_send(b"x", several)
    assert drops.account.dropped_count == 0, "none of it was accepted"
    world.subscriber(holds, AUTO)
    assert world.try_send(b"x", several) == gates.OPEN
    assert drops.account.dropped_count == 1


def test_a_message_to_several_in_a_transaction() -> None:
    world, client = world_with_client()
    destinations = world.broker.destinations
    several = Composite([destinations.queue("a"), destinations.queue("b")])
    transaction = Transaction(client, "tx", TransactionLimits())
    for target, message in world.copies(several, world.message(several, b"x")):
        transaction.add_send(target, message)
    assert world.stats("a").depth == 0
    world.broker.commit(transaction)
    assert (world.stats("a").depth, world.stats("b").depth) == (1, 1)
    assert [batch.records for batch in world.store.batches] == [2]


def test_what_cannot_be_asked_of_several() -> None:
    world = EngineWorld()
    client: FakeClient = world.client(client_id="c")
    queue = world.queue("q")
    for source in (queue, Wildcard(QUEUE, "q.*"), CompositeSource([queue])):
        with pytest.raises(InvalidOption):
            world.consumer(client, source, subscription="s", is_durable=True)
    with pytest.raises(InvalidOption, match="browse"):
        world.consumer(client, Wildcard(QUEUE, "q.*"), is_browser=True)
    assert client.consumers == {}


def test_what_is_told_of_them_is_one_consumer() -> None:
    world, client = world_with_client()
    queue, topic = world.queue("a.1"), world.topic("t")
    several = world.consumer(client, CompositeSource([queue, topic]), prefetch=1)
    wild = world.consumer(client, Wildcard(QUEUE, "b.*"))
    world.send(b"1", b"2", to=queue)
    world.acknowledge(*client.take())
    told = {one.consumer_id: one for one in world.broker.inspect().consumers}
    assert sorted(told) == [several.consumer_id, wild.consumer_id]
    one = told[several.consumer_id]
    assert (one.destination, one.in_flight, one.acknowledged) == ("queue://a.1,topic://t", 1, 1)
    assert one.gate.startswith("window-full") and told[wild.consumer_id].gate == "nothing-waiting"
    client.is_output_full = True
    world.acknowledge(*client.take())
    assert wild.gate() == gates.SOCKET_PAUSED


def test_a_subscription_to_many_queues_reads_its_selector_once() -> None:
    world, client = world_with_client()
    queues = CompositeSource([world.queue(f"q.{number}") for number in range(5)])
    world.broker.subscribe(client, queues, SubscribeOptions(INDIVIDUAL, 1, selector="a = 1"))
    world.turn()
    found = {id(consumer.selector) for consumer in client.consumers.values() if consumer.selector is not None}
    assert len(found) == 1
