from __future__ import annotations

import pytest

from engine.features.scheduler.delayed_send import Delayed, delayed
from engine.features.scheduler.firing import FIRE_MESSAGES
from engine.features.scheduler.plan import FOREVER, Plan, ScheduleLimits
from engine.features.scheduler.read_ahead import AHEAD_BYTES, LATEST_MS, PAUSE_MS
from engine.features.scheduler.schedule_book import DAMAGED_RETRY_MS
from engine.features.scheduler.scheduler import CLOCK_CHECK_MS, RETRY_MS, TICK_MS
from engine.open_transaction import Transaction, TransactionLimits
from engine.sources.composite import Composite, Destination
from engine.values import gates
from engine.values.destination import SCHEDULE_QUEUE, TEMP_QUEUE
from engine.values.errors import InvalidDestination, LimitReached
from engine.values.message import PERSISTENT
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_CANCELLED, CAUSE_DAMAGED, CAUSE_FIRED, DROPPED
from tests.support.engine.engine_world import EngineWorld, address, taken
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient

SLACK_MS = 2 * TICK_MS


def schedule(
    world: EngineWorld,
    body: bytes,
    plan: Plan,
    to: Destination | str = "q",
    *,
    persistent: bool = True,
    priority: int = 4,
    expires_ms: int = 0,
) -> int:
    """Send; return the log offset that names the schedule."""
    broker = world.broker
    destination = world.queue(to) if isinstance(to, str) else to
    target = delayed(destination, world.schedule.checked(plan))
    message = world.message(
        target, body, persistent=persistent, headers="a:1", priority=priority, expires_ms=expires_ms
    )
    assert broker.send(target, message) == gates.OPEN
    world.turn()
    return message.log_offset


def cancel(world: EngineWorld, place: int) -> bool:
    return world.schedule.cancel(place)


@pytest.fixture
def world() -> EngineWorld:
    return EngineWorld()


@pytest.fixture
def client(world: EngineWorld) -> FakeClient:
    client = world.consuming()
    return client


def test_nothing_comes_before_its_time_and_everything_at_it(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"later", Plan(delay_ms=5_000))
    schedule(world, b"sooner", Plan(delay_ms=1_000))
    world.advance(1_000 - SLACK_MS)
    assert taken(client, world) == []
    assert world.stats().depth == 0
    world.advance(2 * SLACK_MS)
    assert taken(client, world) == [b"sooner"]
    world.advance(4_000)
    assert taken(client, world) == [b"later"]
    assert len(world.schedule) == 0


def test_a_firing_is_one_batch_with_its_settlement(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    batches = len(world.store.batches)
    world.advance(1_100)
    assert len(world.store.batches) == batches + 1
    [fired] = [one for one in world.store.settled if one.cause == CAUSE_FIRED]
    assert (fired.outcome, fired.ranges) == (ACKNOWLEDGED, [(0, 0, 1)])


def test_a_delivered_message_names_its_schedule(world: EngineWorld, client: FakeClient) -> None:
    place = schedule(world, b"x", Plan(delay_ms=1_000), priority=8)
    world.advance(1_100)
    message = client.handed[0].message
    assert message.annotations == b"scheduledJobId:ID\\cc0ffee00-%d\n" % place
    assert message.headers == b"a:1\n"
    assert message.priority == 8
    assert message.log_offset > place


def test_repeats_are_messages_of_their_own_and_name_one_schedule(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(delay_ms=100, period_ms=200, repeat=2))
    world.advance(2_000)
    assert len({one.message.log_offset for one in client.handed}) == 3
    assert len({one.message.annotations for one in client.handed}) == 1
    assert taken(client, world) == [b"x"] * 3
    assert [one.ranges for one in world.store.failed] == [[(9, 0, 1, 1)], [(9, 0, 1, 2)]]
    assert len(world.schedule) == 0


def test_cron_begins_its_repeats_at_each_time(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(period_ms=1_000, repeat=1, cron="* * * * *"))
    world.advance(3 * 60_000)
    assert taken(client, world) == [b"x"] * 6
    assert len(world.schedule) == 1


def test_those_due_together_come_in_the_order_in_which_they_were_sent(world: EngineWorld, client: FakeClient) -> None:
    due_ms = world.broker.wall_ms + 90_000
    schedule(world, b"1", Plan(delay_ms=90_000))
    world.advance(60_000)
    schedule(world, b"2", Plan(time_ms=due_ms))
    schedule(world, b"3", Plan(time_ms=due_ms))
    world.advance(31_000)
    assert taken(client, world) == [b"1", b"2", b"3"]


def test_a_time_that_has_passed_is_no_schedule(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(time_ms=world.broker.wall_ms))
    assert client.handed[0].message.destination_id == world.queue_there("q").destination_id
    assert taken(client, world) == [b"x"]
    both = Composite([world.queue("q"), world.queue("other")])
    schedule(world, b"y", Plan(time_ms=world.broker.wall_ms), both)
    assert taken(client, world) == [b"y"]
    assert world.stats("other").depth == 1
    assert world.schedule.scheduled_count() == 0


def test_no_more_than_so_many_fire_in_a_turn(world: EngineWorld, client: FakeClient) -> None:
    target = delayed(world.queue("other"), Plan(delay_ms=1_000))
    for _ in range(FIRE_MESSAGES + 10):
        world.broker.send(target, world.message(target, b"x"))
    world.turn()
    world.begin_later(1_100)
    assert world.stats("other").depth == FIRE_MESSAGES
    world.advance(SLACK_MS)
    assert world.stats("other").depth == FIRE_MESSAGES + 10


def test_what_is_due_late_is_read_before_it_is_due(world: EngineWorld, client: FakeClient) -> None:
    for more_ms in (0, 500, 3_000):
        schedule(world, b"%d" % more_ms, Plan(delay_ms=60_000 + more_ms))
    loaded = world.schedule.read_ahead.loaded
    world.advance(60_000 - LATEST_MS - SLACK_MS)
    assert loaded == {}
    world.advance(2 * SLACK_MS)
    assert [one.body for one in loaded.values()] == [b"0", b"500"]  # in one page
    world.advance(LATEST_MS)
    assert taken(client, world) == [b"0"]
    world.advance(3_000)
    assert taken(client, world) == [b"500", b"3000"]
    assert loaded == {}
    assert world.schedule.read_ahead.loaded_bytes == 0


def test_a_damaged_record_that_is_left_out_leaves_the_schedule(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"bad", Plan(delay_ms=60_000))
    schedule(world, b"good", Plan(delay_ms=60_000))
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.schedule.fire_due()
    [(number, lane, first, count, reader)] = world.store.requests
    assert count == 2
    world.store.listener.record_skipped(number, lane, first, 3, "torn", reader)
    world.turn()
    world.advance(100)
    assert taken(client, world) == [b"good"]
    assert world.skipped_records() == ["a scheduled message: torn"]
    assert [one.cause for one in world.store.settled if one.outcome == DROPPED] == [CAUSE_DAMAGED]


def test_bodies_ahead_are_bounded(world: EngineWorld, client: FakeClient) -> None:
    for _ in range(3):
        schedule(world, b"x" * (AHEAD_BYTES // 2), Plan(delay_ms=1_000))
    assert len(world.schedule.read_ahead.loaded) == 2
    world.advance(1_100)
    assert len(taken(client, world)) == 3
    assert world.schedule.read_ahead.loaded_bytes == world.schedule.read_ahead.asked_bytes == 0


def test_a_topic_gets_it_at_its_time(world: EngineWorld) -> None:
    client = world.client()
    topic = world.topic("t")
    schedule(world, b"x", Plan(delay_ms=1_000), topic)
    world.consumer(client, topic)
    world.advance(1_100)
    assert taken(client, world) == [b"x"]


def test_copies_of_a_virtual_topic_are_made_when_it_fires(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000), world.topic("VirtualTopic.t"))
    world.queue("Consumer.a.VirtualTopic.t")
    world.advance(1_100)
    assert world.stats("Consumer.a.VirtualTopic.t").depth == 1


def test_a_list_of_destinations_is_scheduled_whole(world: EngineWorld) -> None:
    queues = world.broker.destinations
    batches = len(world.store.batches)
    schedule(world, b"x", Plan(delay_ms=1_000), Composite([queues.queue("a"), queues.queue("b")]))
    assert len(world.store.batches) == batches + 1
    world.advance(1_100)
    assert (world.stats("a").depth, world.stats("b").depth) == (1, 1)


def test_a_temporary_queue_may_be_gone_by_then(world: EngineWorld) -> None:
    owner = world.client("owner")
    queue = world.broker.open_temporary(owner, TEMP_QUEUE)
    schedule(world, b"x", Plan(delay_ms=1_000), queue)
    schedule(world, b"y", Plan(delay_ms=3_000), queue)
    world.consumer(owner, queue)
    world.advance(1_100)
    assert taken(owner, world) == [b"x"]
    world.leave(owner)
    world.advance(3_000)
    assert len(world.schedule) == 0


def test_what_was_not_persistent_is_so_again_when_it_fires(world: EngineWorld, client: FakeClient) -> None:
    assert schedule(world, b"x", Plan(delay_ms=1_000), persistent=False) >= 0
    world.advance(1_100)
    message = client.handed[0].message
    assert message.log_offset < 0
    assert not message.flags & PERSISTENT


def test_it_lives_from_its_delivery_on(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(delay_ms=10_000), expires_ms=world.broker.wall_ms + 5_000)
    schedule(world, b"y", Plan(delay_ms=10_000, renews_expiry=False), expires_ms=world.broker.wall_ms + 5_000)
    world.advance(10_100)
    assert taken(client, world) == [b"x"]
    assert world.stats().expired == 1


def test_a_cancelled_one_never_comes(world: EngineWorld, client: FakeClient) -> None:
    place = schedule(world, b"x", Plan(delay_ms=1_000))
    schedule(world, b"y", Plan(delay_ms=1_000))
    assert cancel(world, place)
    assert not cancel(world, place)
    world.advance(1_100)
    assert taken(client, world) == [b"y"]
    dropped = [one for one in world.store.settled if one.outcome == DROPPED]
    assert [(one.cause, one.ranges) for one in dropped] == [(CAUSE_CANCELLED, [(0, 0, 1)])]


def test_one_that_is_cancelled_while_it_is_read_never_comes(world: EngineWorld, client: FakeClient) -> None:
    place = schedule(world, b"x", Plan(delay_ms=60_000))
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.schedule.fire_due()
    assert len(world.store.requests) == 1
    cancel(world, place)
    world.turn()
    world.advance(1_000)
    assert taken(client, world) == []
    assert world.schedule.read_ahead.asked == {}


def test_a_transaction_schedules_at_its_commit(world: EngineWorld, client: FakeClient) -> None:
    broker = world.broker
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    for end in (broker.abort, broker.commit):
        transaction = Transaction(client, "t", TransactionLimits())
        broker.send_in(transaction, target, world.message(target, b"x"))
        world.advance(700)
        assert len(world.schedule) == 0
        end(transaction)
    assert len(world.schedule) == 1
    world.advance(700)
    assert taken(client, world) == []
    world.advance(400)
    assert taken(client, world) == [b"x"]


def test_there_is_room_for_so_many(client: FakeClient, world: EngineWorld) -> None:
    world.schedule.limit(ScheduleLimits(count=2))
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    for _ in range(2):
        world.broker.send(target, world.message(target, b"x"))
    for send in (
        lambda: world.broker.send(target, world.message(target, b"x")),
        lambda: world.broker.send_in(
            Transaction(client, "t", TransactionLimits()), target, world.message(target, b"x")
        ),
    ):
        with pytest.raises(LimitReached, match=r"2 messages are scheduled, allowed are 2 \(schedule.max-count\)"):
            send()


def scheduling(client: FakeClient, world: EngineWorld, *targets: Delayed) -> Transaction:
    """Return a transaction that has scheduled one message for each."""
    transaction = Transaction(client, "t", TransactionLimits())
    for target in targets:
        world.broker.send_in(transaction, target, world.message(target, b"in"))
    return transaction


def test_a_transaction_asks_for_room_with_all_that_it_schedules(client: FakeClient, world: EngineWorld) -> None:
    world.schedule.limit(ScheduleLimits(count=2))
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    transaction = scheduling(client, world, target, target)
    with pytest.raises(LimitReached, match=r"schedule.max-count"):
        world.broker.send_in(transaction, target, world.message(target, b"x"))
    assert world.broker.commit_refusal(transaction) == (gates.OPEN, None)
    schedule(world, b"another's", Plan(delay_ms=1_000))
    with pytest.raises(
        LimitReached, match=r"1 messages are scheduled, 2 more would be, allowed are 2 \(schedule.max-count\)"
    ):
        world.broker.commit_refusal(transaction)


def test_a_commit_that_schedules_does_not_wait_for_the_address_of_others(client: FakeClient) -> None:
    world = EngineWorld(address("full", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    world.send(b"x", to="full")
    assert world.try_send(b"y", "full") == gates.ADDRESS_FULL
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    assert world.broker.commit_refusal(scheduling(client, world, target)) == (gates.OPEN, None)


def test_a_commit_schedules_for_what_is_there_by_then(client: FakeClient, world: EngineWorld) -> None:
    destinations = world.broker.destinations
    temporary = world.broker.open_temporary(client, TEMP_QUEUE)
    target = delayed(Composite([destinations.queue("q"), temporary]), Plan(delay_ms=1_000))
    transaction = scheduling(client, world, target)
    destinations.remove(destinations.queues["q"])
    world.broker.close_temporary(temporary)
    world.broker.commit(transaction)
    assert world.schedule.counts() == {destinations.queues["q"].destination_id: 1}


def test_a_disk_that_refuses_holds_back_both_ways(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    world.store.fail("full")
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    assert world.broker.send(target, world.message(target, b"y")) == gates.STORE
    transaction = Transaction(client, "t", TransactionLimits())
    world.broker.send_in(transaction, target, world.message(target, b"y"))
    assert world.broker.commit_refusal(transaction)[0] == gates.STORE
    world.advance(5_000)
    assert world.schedule.fired_count() == 0
    world.store.heal()
    world.advance(RETRY_MS + SLACK_MS)
    assert taken(client, world) == [b"x"]


def test_a_record_that_cannot_be_read_holds_nobody_up(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"bad", Plan(delay_ms=60_000))
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.schedule.fire_due()
    world.store.refuse_pages("torn")
    schedule(world, b"good", Plan(delay_ms=10))
    world.advance(100)
    assert taken(client, world) == [b"good"]
    assert world.fault().endswith(": torn")
    assert "scheduled message ID:c0ffee00-" in world.fault()
    world.advance(DAMAGED_RETRY_MS)
    assert taken(client, world) == [b"bad"]
    assert world.fault() == ""


def test_what_the_disk_has_not_taken_yet_is_asked_for_again_after_a_while(
    world: EngineWorld, client: FakeClient
) -> None:
    schedule(world, b"x", Plan(delay_ms=60_000))
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.schedule.fire_due()
    [(number, lane, first, _, reader)] = world.store.requests
    world.store.requests.clear()
    world.store.listener.page_loaded(number, lane, first, first, [], reader)
    assert world.store.requests == []
    world.advance(PAUSE_MS - SLACK_MS)
    assert taken(client, world) == []
    world.advance(2 * SLACK_MS)
    assert taken(client, world) == [b"x"]


def test_a_deleted_queue_is_made_again(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    world.remove(world.queue_there("q"))
    world.advance(1_100)
    assert world.stats().depth == 1


def test_what_is_sent_to_a_deleted_queue_waits_for_the_new_one(world: EngineWorld) -> None:
    broker = world.broker
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    world.remove(world.queue_there("q"))
    assert broker.send(target, world.message(target, b"x")) == gates.OPEN
    assert world.schedule.counts() == {world.queue_there("q").destination_id: 1}


def test_the_name_of_the_schedule_is_nobodys(world: EngineWorld) -> None:
    for make in (world.queue, world.topic):
        with pytest.raises(InvalidDestination, match="reserved for the gateway"):
            make(SCHEDULE_QUEUE)


def test_a_clock_that_is_set_back_makes_nobody_busy(world: EngineWorld) -> None:
    schedule(world, b"x", Plan(delay_ms=1_000))
    world.clock.wall_offset_ms -= 3_600_000
    before = world.clock.monotonic_ms()
    looks = 0
    while world.clock.now_ms < before + 10_000:
        next_ms = world.timers.next_ms()
        assert next_ms is not None
        world.clock.now_ms = next_ms
        world.broker.begin_turn()
        world.timers.fire_due()
        looks += 1
    assert looks <= 20
    assert world.stats().depth == 0


def test_a_clock_that_is_set_forward_fires_at_once(world: EngineWorld, client: FakeClient) -> None:
    schedule(world, b"x", Plan(delay_ms=3_600_000))
    world.clock.wall_offset_ms += 3_600_000
    world.advance(CLOCK_CHECK_MS + SLACK_MS)
    assert taken(client, world) == [b"x"]


# -- over a restart


def depth(world: RestartWorld, name: str = "q") -> int:
    return world.stats(name).depth


def test_after_a_crash_what_is_past_due_fires_at_once_in_order() -> None:
    world = RestartWorld()
    for body, delay_ms in ((b"3", 9_000), (b"1", 3_000), (b"2", 70_000), (b"4", 3_600_000)):
        schedule(world, body, Plan(delay_ms=delay_ms if body != b"2" else 5_000))
    world.restart()
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    assert len(world.schedule) == 4
    client = world.consuming()
    world.advance(100)
    assert taken(client, world) == [b"1", b"2", b"3"]
    world.advance(3_600_000)
    assert taken(client, world) == [b"4"]


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_firing_is_forgotten_whole_or_not_at_all(is_synced: bool) -> None:
    world = RestartWorld()
    schedule(world, b"x", Plan(delay_ms=1_000))
    world.sync()
    world.advance(1_100)
    assert depth(world) == 1
    if is_synced:
        world.sync()
    world.crash()
    assert len(world.schedule) == (0 if is_synced else 1)
    assert (world.depth("q") if world.has_queue("q") else 0) == int(is_synced)
    world.advance(1_000)
    assert depth(world) == 1


def test_repeats_go_on_where_they_were() -> None:
    world = RestartWorld()
    schedule(world, b"x", Plan(period_ms=1_000, repeat=4))
    schedule(world, b"for ever", Plan(period_ms=1_000, repeat=FOREVER), "r")
    world.advance(2_100)
    world.restart()
    world.advance(1_000)
    assert (depth(world), depth(world, "r")) == (3, 3)
    world.advance(10_000)
    assert (depth(world), depth(world, "r")) == (5, 13)


def test_the_age_of_a_crash_does_not_make_repeats_rush() -> None:
    world = RestartWorld()
    schedule(world, b"x", Plan(period_ms=1_000, repeat=9))
    world.restart()
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.advance(500)
    assert depth(world) == 1
    world.advance(1_000)
    assert depth(world) == 2
    world.advance(60_000)
    assert depth(world) == 10


def test_a_schedule_that_was_not_durable_is_gone() -> None:
    world = RestartWorld()
    schedule(world, b"x", Plan(delay_ms=1_000))
    world.crash()
    assert len(world.schedule) == 0
    schedule(world, b"y", Plan(delay_ms=1_000))
    world.advance(1_100)
    assert depth(world) == 1


def test_what_is_settled_in_between_is_not_taken_up() -> None:
    world = RestartWorld()
    places = [schedule(world, b"%d" % number, Plan(delay_ms=60_000)) for number in range(10)]
    for place in places[1::2]:
        cancel(world, place)
    world.restart()
    assert world.schedule.places() == places[0::2]
    client = world.consuming()
    world.advance(61_000)
    assert taken(client, world) == [b"%d" % number for number in range(0, 10, 2)]


def test_a_stop_late_in_many_repeats_adds_none() -> None:
    world = RestartWorld()
    most = ScheduleLimits().repeats
    schedule(world, b"x", Plan(delay_ms=100, period_ms=100, repeat=most))
    [place] = world.schedule.places()
    world.schedule.set_fired(place, most - 1)
    world.advance(150)
    world.restart()
    world.advance(1_000)
    assert len(world.schedule) == 0
    assert depth(world) == 2


def test_a_commit_for_a_temporary_destination_that_has_gone_schedules_nothing(
    client: FakeClient, world: EngineWorld
) -> None:
    temporary = world.broker.open_temporary(client, TEMP_QUEUE)
    gone = delayed(temporary, Plan(delay_ms=1_000))
    there = delayed(world.queue("q"), Plan(delay_ms=1_000))
    transaction = scheduling(client, world, gone, there)
    world.broker.close_temporary(temporary)
    world.broker.commit(transaction)
    assert world.schedule.counts() == {world.queue_there("q").destination_id: 1}
