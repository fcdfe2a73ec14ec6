"""The interface of the engine: ids, gates and who waits at them, turns, expiry scan, confirmations, stats."""

from __future__ import annotations

import pytest

from config.matching import TOPIC
from engine.backlog.memory_budget import MESSAGE_OVERHEAD_BYTES
from engine.broker import Broker
from engine.consumers.consumer import AUTO, INDIVIDUAL
from engine.consumers.settlement_log import UNLOGGED_TURNS
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC
from engine.values.destination import TOPIC as TOPIC_KIND
from engine.values.errors import InvalidOption, LimitReached
from engine.values.outcomes import EXPIRED
from engine.values.stored import DestinationState, LaneState
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.fakes import FakeClient
from tests.support.store.scripted_store import ScriptedStore

SMALL = 1 + MESSAGE_OVERHEAD_BYTES  # of a message with one octet


class Parked(FakeClient):
    """Sends again what was refused, as soon as it is admitted."""

    def __init__(self, broker: Broker) -> None:
        super().__init__("parked")
        self.broker = broker
        self.waiting: list[tuple[Queue | Topic, bytes, bool]] = []
        broker.connect(self)

    def send(self, world: EngineWorld, destination: Queue | Topic, body: bytes, *, persistent: bool) -> None:
        gate = self.broker.send(destination, world.message(destination, body, persistent=persistent))
        if gate != gates.OPEN:
            self.waiting.append((destination, body, persistent))
            world.park(self, gate, destination)
        self.world = world

    def admit(self) -> None:
        super().admit()
        waiting = self.waiting
        self.waiting = []
        for destination, body, persistent in waiting:
            self.send(self.world, destination, body, persistent=persistent)


# -- ids and time


def test_message_ids_name_the_store_and_the_log_offset_or_the_start_and_a_number() -> None:
    world = EngineWorld()
    world.send(b"logged")
    world.send(b"volatile", b"volatile", persistent=False)
    client = world.subscriber()
    ids = [world.broker.message_id(one.message) for one in client.handed]
    offset = world.store.messages[0].log_offset
    assert ids == [f"ID:c0ffee00-{offset}", "ID:c0ffee00-3-n1", "ID:c0ffee00-3-n2"]
    readers = world.broker.readers
    assert (readers.id_prefix, readers.serial_prefix) == ("ID:c0ffee00-", "ID:c0ffee00-3-n")


def test_store_time_is_wall_time_from_the_first_moment_and_never_goes_back() -> None:
    world = EngineWorld()
    start_ms = world.clock.wall_ms()
    world.send(b"1")
    world.send(b"2", persistent=False)
    world.advance(7)
    world.send(b"3")
    world.clock.wall_offset_ms -= 60_000  # somebody sets the clock back
    world.broker.begin_turn()
    world.send(b"4")
    assert [message.store_time_ms for message in world.store.messages] == [start_ms, start_ms + 7, start_ms + 7]
    client = world.subscriber()
    assert client.handed[1].message.store_time_ms == start_ms


def test_log_non_persistent_puts_everything_into_the_log() -> None:
    world = EngineWorld(address("q", log_non_persistent=True))
    world.send(b"1", persistent=False)
    assert [message.body for message in world.store.messages] == [b"1"]
    assert world.memory_used() == 0


# -- subscribing


@pytest.mark.parametrize("ack_mode", [AUTO, INDIVIDUAL])
def test_a_prefetch_below_nothing_is_refused(ack_mode: int) -> None:
    world = EngineWorld()
    with pytest.raises(InvalidOption, match="prefetchSize is -1"):
        world.consumer(world.client(), "q", ack_mode, prefetch=-1)


def test_pull_with_automatic_acknowledgement_is_refused_with_the_reason() -> None:
    world, client = world_with_client()
    with pytest.raises(InvalidOption, match="acknowledges nothing; use ack client"):
        world.consumer(client, "q", AUTO, prefetch=0)
    assert client.consumers == {}


# -- the gate of the store


def test_while_the_store_fails_persistent_messages_are_refused_and_others_are_not() -> None:
    world = EngineWorld()
    world.store.fail("disk full")
    assert world.try_send(b"1") == gates.STORE
    assert world.try_send(b"1", world.topic("t")) == gates.STORE
    assert world.try_send(b"2", persistent=False) == gates.OPEN
    assert world.broker.inspect().store.reason == "disk full"
    assert not world.broker.inspect().store.is_accepting
    world.store.heal()
    world.turn()
    assert world.try_send(b"1") == gates.OPEN
    assert world.broker.inspect().store.reason == ""


def test_logged_non_persistent_messages_wait_for_the_store_too() -> None:
    world = EngineWorld(address("q", log_non_persistent=True))
    world.store.fail("disk full")
    assert world.try_send(b"1", persistent=False) == gates.STORE


def test_who_waits_at_the_store_is_admitted_once_it_has_healed() -> None:
    world = EngineWorld()
    producer = Parked(world.broker)
    world.store.fail("disk full")
    queue = world.queue("q")
    producer.send(world, queue, b"1", persistent=True)
    producer.send(world, queue, b"2", persistent=True)
    world.turn()
    assert producer.admissions == 0
    assert world.broker.inspect().blocked_producers == {producer.client_number: "store: queue://q"}
    world.store.heal()
    world.turn()
    assert world.broker.inspect().blocked_producers == {}
    assert [message.body for message in world.store.messages] == [b"1", b"2"]


# -- the gate of memory


def test_the_budget_stops_producers_at_the_limit_and_lets_them_on_at_nine_tenths() -> None:
    world = EngineWorld(memory_limit_bytes=20 * SMALL)
    producer = Parked(world.broker)
    client = world.client()
    queue = world.queue("q")
    world.consumer(client, queue)
    for _ in range(20):
        producer.send(world, queue, b"x", persistent=False)
    assert producer.waiting == []
    producer.send(world, queue, b"y", persistent=False)
    world.turn()
    assert [body for _, body, _ in producer.waiting] == [b"y"]
    held = client.take()
    world.acknowledge(held[0])
    assert producer.waiting, "19 of 20: still shut"
    assert world.try_send(b"z", persistent=False) == gates.MEMORY, "for newcomers too"
    world.acknowledge(held[1])
    assert producer.waiting == []
    assert client.bodies() == [b"y"]
    assert world.try_send(b"z", persistent=False) == gates.OPEN


def test_who_waits_is_not_asked_every_turn() -> None:
    world = EngineWorld(memory_limit_bytes=2 * SMALL)
    producer = Parked(world.broker)
    queue = world.queue("q")
    for _ in range(3):
        producer.send(world, queue, b"x", persistent=False)
    for _ in range(5):
        world.turn()
    assert producer.admissions == 0


def test_a_producer_that_waits_at_both_gates_is_asked_when_one_opens() -> None:
    world = EngineWorld(memory_limit_bytes=SMALL)
    producer = Parked(world.broker)
    queue = world.queue("q")
    world.send(b"x", persistent=False)
    world.store.fail("disk full")
    producer.send(world, queue, b"p", persistent=True)
    producer.send(world, queue, b"v", persistent=False)
    world.turn()
    assert producer.admissions == 0
    world.store.heal()
    world.turn()
    assert [body for _, body, _ in producer.waiting] == [b"v"]
    client = world.subscriber(queue)
    world.acknowledge(*client.take())
    assert producer.waiting == []


def test_messages_consumed_in_the_same_turn_open_the_gate_in_it() -> None:
    world = EngineWorld(memory_limit_bytes=2 * SMALL)
    producer = Parked(world.broker)
    client = world.client()
    queue = world.queue("q")
    world.consumer(client, queue, AUTO)
    for number in range(9):
        producer.send(world, queue, b"%d" % number, persistent=False)
    world.broker.end_turn()
    assert client.bodies() == [b"%d" % number for number in range(9)]


def test_a_producer_that_leaves_waits_no_longer() -> None:
    world = EngineWorld()
    producer = Parked(world.broker)
    world.store.fail("disk full")
    producer.send(world, world.queue("q"), b"1", persistent=True)
    world.lose(producer)
    world.store.heal()
    world.turn()
    assert producer.admissions == 0
    assert world.broker.inspect().blocked_producers == {}


# -- expiry


def test_the_scan_finds_what_expired_while_nobody_was_there() -> None:
    world = EngineWorld()
    soon = world.clock.wall_ms() + 1
    world.send(b"logged", expires_ms=soon)
    world.send(b"volatile", expires_ms=soon, persistent=False)
    world.send(b"stays")
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert (world.stats().expired, world.stats().depth) == (2, 1)
    assert world.store.outcomes() == [EXPIRED]
    assert world.memory_used() == 0
    world.send(b"later", expires_ms=world.clock.wall_ms() + 1)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().expired == 3


def test_the_scan_finds_returned_messages_too() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2", expires_ms=world.clock.wall_ms() + 1_000)
    world.leave(client)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert (world.stats().expired, world.stats().depth) == (2, 0)


def test_the_scan_leaves_messages_alone_that_somebody_holds() -> None:
    world, client = world_with_consumer()
    world.send(b"1", expires_ms=world.clock.wall_ms() + 1_000)
    world.advance(EXPIRE_MESSAGES_PERIOD_MS)
    assert world.stats().expired == 0
    world.acknowledge(*client.take())
    assert world.stats().depth == 0


def test_a_message_that_expires_while_it_waits_for_redelivery_does_not_come_back() -> None:
    world, client = world_with_consumer()
    world.send(b"1", expires_ms=world.clock.wall_ms() + 500)
    world.refuse(*client.take())
    world.advance(1_000)
    assert client.handed == []
    assert (world.stats().expired, world.stats().depth) == (1, 0)


# -- turns and confirmations


def test_what_is_handed_over_is_written_before_it_leaves() -> None:
    world, client = world_with_consumer()
    world.send(b"1")
    assert client.bodies() == [b"1"]
    assert world.store.written_offset() > world.store.messages[0].log_offset


# -- settlements that no one waits for


def test_acknowledgements_that_no_one_waits_for_gather_into_one_record_a_consumer() -> None:
    world = EngineWorld()
    clients = [world.client(), world.client()]
    for client in clients:
        world.consumer(client, prefetch=1)
    world.send(*[b"%d" % number for number in range(8)])
    for _ in range(3):
        for client in clients:
            (delivery,) = client.take()
            world.broker.acknowledge_unconfirmed(delivery)
        world.broker.end_turn()
    assert world.store.settled == []
    assert world.broker.has_unsynced()
    offset = world.broker.flush_settlements()
    assert [record.ranges for record in world.store.settled] == [
        [(4, 0, 1), (4, 2, 1), (4, 4, 1)],
        [(4, 1, 1), (4, 3, 1), (4, 5, 1)],
    ]
    assert offset == world.store.append_offset()


def test_they_are_logged_after_so_many_turns() -> None:
    world, client = world_with_consumer(prefetch=1)
    world.send(*[b"%d" % number for number in range(UNLOGGED_TURNS)])
    for _ in range(UNLOGGED_TURNS):
        assert world.store.settled == []
        world.broker.acknowledge_unconfirmed(client.take()[0])
        world.broker.end_turn()
    assert [record.ranges for record in world.store.settled] == [[(4, 0, UNLOGGED_TURNS)]]


def test_one_that_somebody_waits_for_is_logged_with_its_turn() -> None:
    world, client = world_with_consumer()
    world.send(b"1", b"2")
    first, second = client.take()
    world.broker.acknowledge_unconfirmed(first)
    world.broker.end_turn()
    world.broker.acknowledge(second)
    assert world.broker.end_turn() == world.store.append_offset()
    assert [record.ranges for record in world.store.settled] == [[(4, 0, 2)]]


def test_a_sync_logs_them_first() -> None:
    world, client = world_with_consumer()
    world.send(b"1")
    world.broker.acknowledge_unconfirmed(client.take()[0])
    world.broker.end_turn()
    world.broker.sync()
    assert len(world.store.settled) == 1
    assert world.store.finish_sync()
    assert not world.broker.has_unsynced()


def test_confirmations_follow_the_durable_offset() -> None:
    world = EngineWorld()
    first, second = world.client("first"), world.client("second")
    world.send(b"1")
    offset = world.broker.end_turn()
    first.waits_for = offset
    second.waits_for = offset + 1
    for client in (first, second, second):
        world.await_confirmation(client)
    world.store.sync()
    world.store.finish_sync()
    assert (first.confirmed, second.confirmed) == ([offset], [offset])
    world.store.listener.durable(offset + 1)
    assert (first.confirmed, second.confirmed) == ([offset], [offset, offset + 1])
    assert world.awaiting() == []


def test_an_idle_turn_writes_nothing() -> None:
    world = EngineWorld()
    world.turn()
    writes = world.store.writes
    world.turn()
    assert world.store.writes == writes


# -- recovery


def test_recovered_topics_are_there_and_empty() -> None:
    state = DestinationState(5, TOPIC_KIND, "news", [LaneState(4, 9, 9, [], {})])
    world = EngineWorld(store=ScriptedStore([state]))
    assert world.topic("news").destination_id == 5
    assert world.stats("news").depth == 0
    assert TOPIC == TOPIC_KIND


# -- looking in


def test_stats_say_what_each_consumer_waits_for() -> None:
    world, client = world_with_client()
    consumer = world.subscribe(client, prefetch=10, name="workers")

    def gate() -> str:
        (stats,) = world.broker.inspect().consumers
        assert (stats.destination, stats.subscription, stats.prefetch) == ("queue://q", "workers", 10)
        assert stats.connection_id == client.client_number
        return stats.gate

    assert gate() == "nothing-waiting"
    world.send(*(b"%d" % number for number in range(20)))
    world.acknowledge(*client.take()[:3])
    assert gate() == "window-full: 7 of 10 in flight, resumes at 5"
    client.is_output_full = True
    world.broker.acknowledge(consumer.ledger[4])
    world.broker.acknowledge(consumer.ledger[5])
    assert gate() == "socket-paused"
    client.is_output_full = False
    assert gate() == ""
    world.broker.unsubscribe(consumer, is_lost=False)
    assert consumer.describe_gate() == "closed"


def test_stats_count_destinations_and_connections() -> None:
    world, client = world_with_consumer(prefetch=2)
    world.send(b"1", b"2", b"3")
    world.acknowledge(client.take()[0])
    stats = world.broker.inspect()
    queue = world.stats()
    assert (queue.name, queue.kind, queue.consumers) == ("q", "queue", 1)
    assert (queue.depth, queue.in_flight, queue.enqueued, queue.delivered, queue.acknowledged) == (2, 2, 3, 3, 1)
    assert (stats.connections, stats.memory_limit_bytes) == (1, world.memory_limit())
    assert stats.store.append_offset == world.store.append_offset()
    world.leave(client)
    assert world.broker.inspect().connections == 0


# -- limits


def test_the_number_of_destinations_has_a_limit() -> None:
    world = EngineWorld()
    world.allow_destinations(2)
    world.queue("a")
    world.topic("b")
    with pytest.raises(LimitReached, match=r"2 destinations exist, .* \(destinations-max\); 'c' would be one more"):
        world.queue("c")
    with pytest.raises(LimitReached):
        world.topic("a")
    assert world.queue("a").name == "a", "those that are there can be used"


def test_consumers_that_have_closed_are_closed_in_the_store_too() -> None:
    world = EngineWorld()
    world.send(b"1", b"2")
    client = world.client()
    consumer = world.subscribe(client)
    first, second = client.take()
    world.acknowledge(first)
    world.broker.acknowledge(second)
    world.broker.unsubscribe(consumer, False)
    world.turn()
    assert world.store.closed_consumers == [1]
    late = world.client()
    consumer = world.consumer(late)
    world.send(b"3")
    world.turn()
    world.broker.acknowledge(*late.take())
    world.broker.unsubscribe(consumer, False)
    world.turn()
    assert world.store.closed_consumers == [1, 2], "its settlement, and so its record, came after its end"


def test_one_client_has_only_so_many_temporary_destinations() -> None:
    world = EngineWorld()
    world.allow_temporaries(2)
    client, other = world.client(), world.client()
    first = world.broker.open_temporary(client, TEMP_QUEUE)
    world.broker.open_temporary(client, TEMP_TOPIC)
    with pytest.raises(LimitReached, match=r"2 temporary destinations, .* \(temporary-destinations-max\)"):
        world.broker.open_temporary(client, TEMP_QUEUE)
    world.broker.open_temporary(other, TEMP_QUEUE)
    world.broker.close_temporary(first)
    world.broker.open_temporary(client, TEMP_QUEUE)
