"""Failed deliveries: NACK, delays and dead letters (docs/reference/semantics.md)."""

from __future__ import annotations

import pytest

from config.matching import AddressEntry
from engine.consumers.consumer import AUTO, CLIENT, INDIVIDUAL
from engine.values.delivery import Delivery
from engine.values.message import DEAD_LETTER, PERSISTENT, PLAIN, Message
from engine.values.outcomes import CAUSE_EXHAUSTED, CAUSE_EXPIRED, CAUSE_NACK, DEAD_LETTERED, DROPPED, EXPIRED
from tests.support.engine.engine_world import EngineWorld, address, world_with_client, world_with_consumer
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

DLQ = "ActiveMQ.DLQ"


def quick(**values: object) -> AddressEntry:
    """Return an address without delays, for tests that are about something else."""
    return address("q", redelivery__initial_redelivery_delay_ms=0, redelivery__redelivery_delay_ms=0, **values)


HOUR_MS = 3_600_000


def only(client: FakeClient) -> Delivery:
    (delivery,) = client.take()
    return delivery


def added_headers(message: Message) -> dict[str, str]:
    return dict(line.split(":", 1) for line in message.annotations.decode().splitlines())


def test_a_refused_message_waits_for_the_policy_s_delay_and_says_so() -> None:
    world, client = world_with_client()
    consumer = world.consumer(client)
    world.send(b"1")
    world.refuse(only(client))
    assert world.stats().delayed == 1
    assert world.stats().in_flight == 0
    assert consumer.describe_gate() == "delayed"
    world.advance(999)
    assert client.handed == []
    world.advance(1)
    (handed,) = client.handed
    assert (handed.is_redelivered, handed.delivery_count) == (True, 2)
    assert world.stats().redelivered == 1
    (failed,) = world.store.failed
    due_ms = world.clock.wall_ms()
    assert (failed.cause, failed.due_ms, failed.ranges) == (CAUSE_NACK, due_ms, [(4, 0, 1, 1)])


@pytest.mark.parametrize("selector", ["", "JMSPriority = 4"])
@pytest.mark.parametrize(("set_ms", "waited_ms"), [(-5 * HOUR_MS, 1_000), (0, 1_000), (400, 600), (HOUR_MS, 0)])
def test_a_clock_that_was_set_between_two_runs_makes_no_delay_longer(
    set_ms: int, waited_ms: int, selector: str
) -> None:
    world = RestartWorld(address(">", redelivery__initial_redelivery_delay_ms=1_000))
    world.send(b"1")
    client = world.subscriber("q", INDIVIDUAL, 1, selector=selector)
    world.refuse(only(client))
    world.restart()
    world.clock.set_wall(set_ms)
    world.broker.begin_turn()
    client = world.subscriber("q", INDIVIDUAL, 1, selector=selector)
    if waited_ms:
        world.advance(waited_ms - 1)
        assert client.handed == []
        world.advance(1)
    (handed,) = client.handed
    assert handed.delivery_count == 2


@pytest.mark.parametrize(("set_ms", "waited_ms"), [(-5 * HOUR_MS, 1_000), (0, 1_000), (400, 600), (HOUR_MS, 0)])
def test_a_browser_sees_a_message_once_it_has_waited_though_the_clock_was_set(set_ms: int, waited_ms: int) -> None:
    world = RestartWorld(address(">", redelivery__initial_redelivery_delay_ms=1_000))
    world.send(b"1")
    world.refuse(only(world.subscriber("q", INDIVIDUAL, 1)))
    world.clock.set_wall(set_ms)
    world.restart()
    seen = []
    for wait_ms in (max(0, waited_ms - 1), 1):
        world.advance(wait_ms)
        seen.append(len(world.subscriber("q", AUTO, is_browser=True).handed))
    assert seen == ([0, 1] if waited_ms else [1, 1])


def test_others_overtake_while_a_message_waits() -> None:
    world, client = world_with_consumer(prefetch=1)
    world.send(b"1", b"2")
    world.refuse(only(client))
    assert only(client).message.body == b"2"


def test_delays_grow_as_the_policy_says() -> None:
    world = EngineWorld(
        address(
            "q",
            redelivery__initial_redelivery_delay_ms=500,
            redelivery__use_exponential_back_off=True,
            redelivery__back_off_multiplier=2.0,
            redelivery__maximum_redelivery_delay_ms=5_000,
        )
    )
    client = world.consuming()
    world.send(b"1")
    waited = []
    for _ in range(6):
        world.refuse(only(client))
        start_ms = world.clock.now_ms
        while not client.handed:
            world.advance(100)
        waited.append(world.clock.now_ms - start_ms)
    assert waited == [500, 1_000, 2_000, 4_000, 5_000, 5_000]


def test_collision_avoidance_is_drawn_from_the_seed() -> None:
    def due_times() -> list[int]:
        world = EngineWorld(address("q", redelivery__use_collision_avoidance=True))
        client = world.consuming()
        world.send(*(b"%d" % number for number in range(20)))
        world.refuse(*client.take())
        return [failed.due_ms - world.clock.wall_ms() for failed in world.store.failed]

    delays = due_times()
    assert all(850 <= delay <= 1_150 for delay in delays)
    assert len(set(delays)) > 10
    assert delays == due_times()


@pytest.mark.parametrize("maximum", [0, 1, 6])
def test_a_message_is_delivered_once_and_maximum_redeliveries_times_more(maximum: int) -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=maximum))
    world.send(b"poison")
    counts = []
    while client.handed:
        counts.append(client.handed[0].delivery_count)
        world.refuse(only(client))
        world.advance(0)
    assert counts == list(range(1, maximum + 2))
    assert world.stats().dead_lettered == 1
    assert world.stats().depth == 0
    assert world.stats(DLQ).depth == 1


def test_without_a_limit_it_goes_on_for_ever() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=-1))
    world.send(b"stubborn")
    for _ in range(50):
        world.refuse(only(client))
        world.advance(0)
    assert client.handed[0].delivery_count == 51


def test_a_dead_letter_is_a_new_persistent_message_that_names_its_origin() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=0))
    expires_ms = world.clock.wall_ms() + 60_000
    queue = world.queue("q")
    message = Message(queue.destination_id, 1, PLAIN, 7, 11, 12, expires_ms, b"old:1\n", b"colour:red\n", b"body")
    world.broker.send(queue, message)
    world.turn()
    world.refuse(only(client))
    (dead,) = world.dead_letters()
    assert (dead.body, dead.headers, dead.priority, dead.expires_ms) == (b"body", b"colour:red\n", 7, 0)
    assert (dead.tag_hash, dead.group_hash) == (11, 12)
    assert dead.flags == PERSISTENT | DEAD_LETTER
    assert added_headers(dead) == {
        "original-destination": "/queue/q",
        "dlqDeliveryFailureCause": "exhausted\\c delivery 1 failed, the redelivery policy allows 0 redeliveries",
        "originalMessageId": "ID\\cc0ffee00-3-n1",
        "originalDeliveryCount": "1",
        "originalExpiration": str(expires_ms),
        "originalDeliveryMode": "NON_PERSISTENT",
        "_AMQ_ORIG_ADDRESS": "q",
        "_AMQ_ORIG_QUEUE": "q",
        "_AMQ_ORIG_MESSAGE_ID": "ID\\cc0ffee00-3-n1",
        "dlqCause": "exhausted",
        "dlqFirstFailureTime": str(world.clock.wall_ms()),
        "dlqLastFailureTime": str(world.clock.wall_ms()),
        "dlqConsumer": "client, subscription sub",
        "old": "1",
    }
    assert world.memory_used() == 0


def test_a_dead_letter_of_a_persistent_message_says_nothing_of_its_mode() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=0))
    world.send(b"body")
    world.refuse(only(client))
    (dead,) = world.dead_letters()
    assert {"originalDeliveryMode", "originalExpiration"}.isdisjoint(added_headers(dead))


def test_the_move_to_the_dead_letter_queue_is_one_batch() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=0))
    world.send(b"1")
    world.refuse(only(client))
    (batch,) = world.store.batches
    assert batch.records >= 2, "the new message and the settlement of the old one"
    (record,) = world.store.settled
    assert (record.outcome, record.cause, record.ranges) == (DEAD_LETTERED, CAUSE_EXHAUSTED, [(4, 0, 1)])


def test_nack_as_dead_letter_moves_at_the_first_refusal() -> None:
    world, client = world_with_consumer(address("q", nack="dead-letter"))
    world.send(b"1")
    world.refuse(only(client))
    (dead,) = world.dead_letters()
    assert added_headers(dead)["dlqDeliveryFailureCause"] == "nack\\c delivery 1 failed"
    assert world.store.settled[0].cause == CAUSE_NACK


def test_nack_as_requeue_returns_at_once_and_counts_nothing() -> None:
    world, client = world_with_consumer(address("q", nack="requeue"), prefetch=1)
    world.send(b"1", b"2")
    for _ in range(20):
        world.refuse(only(client))
    (handed,) = client.handed
    assert (handed.body, handed.is_redelivered, handed.delivery_count) == (b"1", True, 1)
    assert world.store.failed == []


def test_without_a_dead_letter_address_the_message_is_dropped_and_counted() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=0, dead_letter_address=None))
    world.send(b"1")
    world.send(b"2", persistent=False)
    world.refuse(*client.take())
    assert [record.outcome for record in world.store.settled] == [DROPPED]
    assert (world.stats().dead_lettered, world.stats().depth) == (2, 0)
    assert not world.has_queue(DLQ)
    assert world.memory_used() == 0


def test_what_fails_on_the_dead_letter_queue_itself_stays_there() -> None:
    world, client = world_with_client(address(DLQ, redelivery__maximum_redeliveries=0))
    world.consumer(client, DLQ)
    world.send(b"1", to=DLQ)
    for count in (1, 2, 3):
        assert client.handed[0].delivery_count == count
        world.refuse(only(client))
        world.advance(1_000)
    assert world.stats(DLQ).depth == 1
    assert world.stats(DLQ).dead_lettered == 0


def test_messages_are_dead_lettered_to_the_address_s_own_queue_in_order() -> None:
    world, client = world_with_consumer(address("q", nack="dead-letter", dead_letter_address="dead.q"))
    world.send(b"1", b"2", b"3")
    world.refuse(*client.take())
    assert [dead.body for dead in world.dead_letters("dead.q")] == [b"1", b"2", b"3"]


def test_a_topic_subscription_redelivers_and_dead_letters_on_its_own() -> None:
    world = EngineWorld(address("t", redelivery__maximum_redeliveries=1))
    topic = world.topic("t")
    bad, good = world.client("bad"), world.client("good")
    world.consumer(bad, topic, CLIENT)
    world.consumer(good, topic, INDIVIDUAL)
    world.send(b"news", to=topic, persistent=False)
    world.refuse(only(bad))
    world.advance(1_000)
    assert bad.handed[0].delivery_count == 2
    world.refuse(only(bad))
    (dead,) = world.dead_letters()
    assert added_headers(dead)["original-destination"] == "/topic/t"
    world.acknowledge(only(good))
    assert world.memory_used() == 0


def test_a_topic_subscription_that_ends_lets_go_of_what_waits() -> None:
    world = EngineWorld()
    topic = world.topic("t")
    client = world.consuming(topic, INDIVIDUAL, prefetch=3)
    world.send(b"1", b"2", b"3", b"4", to=topic)
    world.refuse(client.take()[0])
    world.leave(client)
    assert world.memory_used() == 0
    world.advance(5_000)
    assert client.handed == []
    assert world.memory_used() == 0


def test_expired_messages_move_to_the_expiry_address_in_order() -> None:
    world = EngineWorld(address("q", expiry_address="expired"))
    soon = world.clock.wall_ms() + 10
    world.send(b"1", b"2", b"3", expires_ms=soon)
    world.send(b"4", expires_ms=soon, persistent=False)
    world.advance(10)
    client = world.subscriber()
    assert client.handed == []
    moved = world.dead_letters("expired")
    assert [one.body for one in moved] == [b"1", b"2", b"3", b"4"]
    assert added_headers(moved[0])["dlqDeliveryFailureCause"] == f"Message Expired. Expiration\\c{soon}"
    assert added_headers(moved[0])["originalExpiration"] == str(soon)
    assert [(one.outcome, one.cause) for one in world.store.settled][:3] == [(EXPIRED, CAUSE_EXPIRED)] * 3
    assert (world.stats().expired, world.stats().depth) == (4, 0)
    assert world.memory_used() == 0


def test_one_timer_is_set_however_many_wait() -> None:
    world, client = world_with_consumer()
    before = world.timers.pending()
    world.send(*(b"%d" % number for number in range(50)))
    world.refuse(*client.take())
    assert world.timers.pending() == before + 1
    world.advance(1_000)
    assert client.bodies() == [b"%d" % number for number in range(50)]
    assert world.timers.pending() == before


def test_what_is_due_earlier_does_not_wait_for_what_was_refused_before() -> None:
    world = EngineWorld(
        address("late", redelivery__initial_redelivery_delay_ms=900),
        address("soon", redelivery__initial_redelivery_delay_ms=100),
    )
    client = world.consuming("late")
    world.consumer(client, "soon")
    for name in ("late", "soon"):
        world.send(name.encode(), to=name)
        world.refuse(only(client))
    world.advance(99)
    assert client.bodies() == []
    world.advance(1)
    assert client.bodies() == [b"soon"]
    world.advance(799)
    assert client.bodies() == []
    world.advance(1)
    assert client.bodies() == [b"late"]


def test_a_dead_letter_queue_is_made_beyond_the_limit_of_destinations() -> None:
    world, client = world_with_consumer(quick(redelivery__maximum_redeliveries=0))
    world.send(b"1")
    world.allow_destinations(1)
    world.refuse(only(client))
    assert [message.body for message in world.dead_letters()] == [b"1"]


@pytest.mark.parametrize(("delays", "waited_ms"), [(False, 0), (True, 1_000)])
def test_a_rollback_waits_where_a_delay_is_set(delays: bool, waited_ms: int) -> None:
    world, client = world_with_consumer(address("q", redelivery__delays_rollback=delays))
    world.send(b"1")
    world.broker.roll_back([only(client)])
    world.turn()
    (failed,) = world.store.failed
    assert failed.due_ms == world.clock.wall_ms() + waited_ms
    world.advance(waited_ms)
    assert only(client).failed_attempts == 1
