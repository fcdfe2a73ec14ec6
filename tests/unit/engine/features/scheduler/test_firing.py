"""What is due meets the gates of where it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.broker import Broker
from engine.consumers.consumer import AUTO
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.firing import FIRE_MESSAGES, HOLD_MESSAGES
from engine.features.scheduler.held_back import KEPT_OF_ONE
from engine.features.scheduler.plan import Plan
from engine.features.scheduler.schedule_book import ASIDE_MS, DAMAGED_RETRY_MS
from engine.features.scheduler.scheduler import HELD_CHECK_MS, TICK_MS
from engine.ports.store import Store
from engine.sources.composite import Destination
from engine.values import gates
from engine.values.message import SCHEDULED, Message
from engine.values.outcomes import CAUSE_CANCELLED
from engine.values.stored import Range
from tests.support.engine.engine_world import EngineWorld, address, taken
from tests.support.engine.restart_world import RestartWorld
from tests.support.fakes import FakeClient
from tests.support.store.memory_store import MemoryStore
from tests.support.world.store import StoreWrapper

SECOND = Plan(delay_ms=1_000)
SOON_MS = 4 * TICK_MS + HELD_CHECK_MS


def full(pattern: str = "q", most: int = 1, policy: str = "BLOCK") -> EngineWorld:
    return EngineWorld(address(pattern, full__max_size_messages=most, full__address_full_policy=policy))


def schedule(
    world: EngineWorld,
    *bodies: bytes,
    plan: Plan = SECOND,
    to: str | Destination = "q",
    persistent: bool = False,
    group: str = "",
) -> list[int]:
    """Send; return the places of the schedules."""
    destination = world.queue(to) if isinstance(to, str) else to
    target = delayed(destination, plan)
    places: list[int] = []
    for body in bodies:
        message = world.message(target, body, persistent=persistent, group=group)
        assert world.broker.send(target, message) == gates.OPEN
        places.append(message.log_offset)
    world.turn()
    return places


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def take_for(client: FakeClient, world: EngineWorld, rounds: int) -> list[bytes]:
    """Return the bodies that come while room is made so many times."""
    found: list[bytes] = []
    for _ in range(rounds):
        found += taken(client, world)
        world.advance(SOON_MS)
    return found


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("policy", ["BLOCK", "FAIL"])
def test_a_full_address_holds_back_what_is_due_for_it(policy: str, persistent: bool) -> None:
    world = full(most=2, policy=policy)
    schedule(world, *numbered(5), persistent=persistent)
    world.advance(1_100)
    assert world.stats().depth == 2
    held = world.schedule.held
    assert held.count == len(world.schedule) == 3
    told = world.broker.inspect().schedule
    reason = (
        "address-full: queue://q holds 2 of 2 messages (max-size-messages); 2 messages wait, and there is no consumer"
    )
    assert (told.held, told.held_by) == (3, reason)
    places = world.schedule.places()
    assert [world.why.locate_schedule(place).held for place in places] == [f"{reason}; for 0.1 s"] * 3
    assert world.why.locate_schedule(0).state == "gone"
    client = world.consuming()
    found = taken(client, world)
    for _ in range(5):
        world.advance(SOON_MS)
        found += taken(client, world)
    assert found == numbered(5)
    assert (held.count, held.reached, held.kept_bytes) == (0, -1, 0)
    assert (held.shut, held.going, held.kept, world.schedule.read_ahead.loaded) == ({}, {}, {}, {})


def test_an_address_that_drops_takes_and_drops_what_is_due() -> None:
    world = full(policy="DROP")
    schedule(world, *numbered(3))
    world.advance(1_100)
    account = world.queue_there("q").account
    assert account is not None
    assert (world.stats().depth, account.dropped_count, len(world.schedule)) == (1, 2, 0)


def test_others_pass_what_is_held_back() -> None:
    world = full("full")
    schedule(world, *numbered(20), to="full")
    schedule(world, b"x", b"y", to="other")
    schedule(world, b"z", to="other", plan=Plan(delay_ms=1_500))
    world.advance(1_100)
    assert (world.stats("full").depth, world.stats("other").depth) == (1, 2)
    world.advance(500)
    assert world.stats("other").depth == 3
    schedule(world, b"20", to="full", plan=Plan(delay_ms=10))
    client = world.consuming("full")
    found = take_for(client, world, 30)
    assert found == numbered(21)


def test_the_memory_budget_holds_back_what_is_not_persistent() -> None:
    world = EngineWorld(memory_limit_bytes=20_000)
    bodies = [bytes([number]) * 2_000 for number in range(40)]
    schedule(world, *bodies)
    schedule(world, b"logged", to="p", persistent=True)
    world.advance(1_100)
    assert world.memory_used() <= world.memory_limit() + 3_000
    assert world.stats("p").depth == 1
    [waiting] = world.schedule.held.shut.values()
    assert waiting.gate == gates.MEMORY
    client = world.consuming(prefetch=1)
    found: list[bytes] = []
    while len(found) < 40:
        got = taken(client, world)
        found += got
        if not got:
            world.advance(SOON_MS)
        assert world.memory_used() <= world.memory_limit() + 3_000
    assert found == bodies


def test_a_disk_that_is_nearly_full_holds_back_what_is_logged() -> None:
    world = EngineWorld()
    schedule(world, b"logged", to="p", persistent=True)
    schedule(world, b"not", to="n")
    world.shut_disk("the disk is nearly full")
    world.look_at_gates()
    world.advance(1_100)
    assert (world.stats("p").depth, world.stats("n").depth) == (0, 1)
    world.shut_disk("")
    world.advance(SOON_MS)
    assert world.stats("p").depth == 1


def test_a_message_of_which_one_copy_is_refused_waits_whole() -> None:
    world = full("Consumer.a.VirtualTopic.t")
    queue = world.queue("Consumer.a.VirtualTopic.t")
    topic = world.topic("VirtualTopic.t")
    listener = world.consuming(topic)
    schedule(world, *numbered(2), to=topic)
    world.advance(1_100)
    assert (queue.depth, taken(listener, world)) == (1, [b"0"])
    [waiting] = world.schedule.held.shut.values()
    assert waiting.destination is queue
    client = world.subscriber(queue)
    assert taken(client, world) == [b"0"]
    world.advance(SOON_MS)
    assert (taken(client, world), taken(listener, world)) == ([b"1"], [b"1"])


def test_one_that_repeats_fires_once_for_all_that_was_held_back_and_keeps_to_its_beat() -> None:
    world = full()
    schedule(world, b"x", plan=Plan(period_ms=1_000, repeat=9))
    world.advance(5_500)
    assert world.stats().depth == 1
    client = world.subscriber()
    assert taken(client, world) == [b"x"]
    world.advance(SOON_MS)
    assert taken(client, world) == [b"x"]
    world.advance(1_000)
    assert taken(client, world) == [b"x"]
    world.advance(60_000)
    assert len(taken(client, world)) == 1


def test_what_is_held_back_can_be_cancelled() -> None:
    world = full()
    places = schedule(world, *numbered(4))
    world.advance(1_100)
    scheduler = world.broker.scheduler
    scheduler.cancel([scheduler.schedule_at(place) for place in places[1:3]])
    client = world.subscriber()
    assert taken(client, world) == [b"0"]
    world.advance(SOON_MS)
    assert taken(client, world) == [b"3"]
    assert (scheduler.firing.held.count, len(scheduler.pending), scheduler.ahead.loaded) == (0, 0, {})


def test_what_begins_late_at_a_time_of_an_expression_waits_with_the_others() -> None:
    world = EngineWorld(address("q", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    schedule(world, b"cron", plan=Plan(delay_ms=10, cron="* * * * *"))
    schedule(world, *numbered(3), plan=Plan(time_ms=world.broker.wall_ms // 60_000 * 60_000 + 60_001))
    world.clock.now_ms += 60_000
    world.broker.begin_turn()
    world.advance(1_000)
    client = world.consuming()
    found = take_for(client, world, 8)
    assert sorted(found) == [*numbered(3), b"cron"]
    assert [one for one in found if one != b"cron"] == numbered(3)


def test_a_mass_that_is_held_back_takes_little_memory_and_a_bounded_turn() -> None:
    world = full(most=10)
    count = 2 * HOLD_MESSAGES + FIRE_MESSAGES
    schedule(world, *numbered(count), plan=Plan(delay_ms=60_000))
    held = world.schedule.held
    before = 0
    while held.count < count - 10:
        world.advance(TICK_MS)
        assert held.count - before <= HOLD_MESSAGES + FIRE_MESSAGES
        before = held.count
    world.advance(SOON_MS)
    assert len(world.schedule.read_ahead.loaded) == len(held.kept) == KEPT_OF_ONE
    client = world.consuming(prefetch=100)
    found: list[bytes] = []
    while len(found) < count:
        found += taken(client, world)
        world.advance(TICK_MS)
    assert found == numbered(count)
    assert world.schedule.read_ahead.loaded_bytes == 0


class Sender(FakeClient):
    """Sends one message more whenever it is admitted, and parks again."""

    def __init__(self, world: EngineWorld) -> None:
        super().__init__("sender")
        self.world = world
        self.count = 0
        world.broker.connect(self)

    def admit(self) -> None:
        queue = self.world.queue_there("q")
        while (gate := self.world.try_send(b"sent")) == gates.OPEN:
            self.count += 1
        self.world.park(self, gate, queue)


def test_what_is_held_back_and_those_who_wait_to_send_take_turns() -> None:
    world = full(most=4)
    schedule(world, *numbered(12))
    world.advance(1_100)
    sender = Sender(world)
    sender.admit()
    client = world.consuming(prefetch=4)
    found = take_for(client, world, 14)
    assert [one for one in found if one != b"sent"] == numbered(12)
    assert sender.count >= 12


def test_nothing_that_is_held_back_is_lost_in_a_crash() -> None:
    world = RestartWorld(address("q", full__max_size_messages=2, full__address_full_policy="BLOCK"))
    schedule(world, *numbered(6), persistent=True)
    world.advance(1_100)
    world.restart()
    assert len(world.schedule) == 4
    client = world.consuming()
    found = take_for(client, world, 6)
    assert found == numbered(6)


def test_a_record_that_cannot_be_read_lets_the_others_go_on() -> None:
    world = full()
    places = schedule(world, *numbered(4))
    world.advance(1_100)
    world.schedule.damage(places[2], "torn")
    client = world.consuming()
    found = take_for(client, world, 4)
    assert found == [b"0", b"1", b"3"]
    world.advance(DAMAGED_RETRY_MS)
    assert taken(client, world) == [b"2"]


def test_one_that_cannot_be_fired_is_put_aside_and_may_be_cancelled() -> None:
    world = RestartWorld()
    scheduler = world.broker.scheduler
    schedule(world, b"before", persistent=True)
    (place,) = schedule(world, b"written by nobody that we know", persistent=True)
    schedule(world, b"behind", persistent=True)
    scheduler.ahead.loaded[place].annotations = b"schedule-what:1\n"
    world.sync()
    client = world.consuming()
    world.advance(1_100)
    assert taken(client, world) == [b"before", b"behind"]
    stats = world.broker.inspect().schedule
    assert (stats.pending, stats.aside) == (1, 1)
    assert stats.aside_reason == f"scheduled message {scheduler.job_id(place)}: KeyError: 'what'"
    one = scheduler.schedule_at(place)
    assert scheduler.reason(one) == "it cannot be fired: KeyError: 'what'"
    world.crash()
    world.advance(1_100)
    assert world.broker.inspect().schedule.aside == 1, "found again, and put aside again"
    world.advance(ASIDE_MS)
    scheduler = world.broker.scheduler
    scheduler.cancel([scheduler.schedule_at(place)])
    assert world.broker.inspect().schedule == replace(world.broker.inspect().schedule, pending=0, aside=0)
    assert scheduler.aside_reason() == ""


def test_one_that_is_put_aside_goes_on_once_it_can() -> None:
    world = RestartWorld()
    (place,) = schedule(world, b"x", persistent=True, plan=Plan(repeat=3, period_ms=1_000))
    scheduler = world.broker.scheduler
    record = scheduler.ahead.loaded[place]
    lines, record.annotations = record.annotations, b"schedule-delay:many\n"
    world.advance(1_100)
    assert list(scheduler.aside) == [place]
    record.annotations = lines
    client = world.consuming()
    world.advance(ASIDE_MS + 1_000)
    assert scheduler.aside == {}
    assert taken(client, world) != []


class DefectiveStore(MemoryStore):
    """Raises for some messages: while they are delivered, or when their batch ends."""

    is_late = False

    def append(self, message: Message) -> None:
        if not message.flags & SCHEDULED:
            if message.body == b"raises":
                raise RuntimeError("a defect")
            self.is_late = self.is_late or message.body == b"raises late"
        super().append(message)

    def commit(self) -> None:
        if self.is_late:
            raise RuntimeError("a defect")
        super().commit()


class DefectiveWorld(RestartWorld):
    store_class = DefectiveStore

    def run_into_it(self) -> list[int]:
        """Fire what is due; start again, and return what was suspected."""
        with pytest.raises(RuntimeError, match="a defect"):
            self.advance(1_100)
        suspected = self.schedule.firing.suspected()
        self.crash()
        return suspected


def test_one_that_raises_while_it_is_delivered_is_known_and_not_fired_again() -> None:
    world = DefectiveWorld()
    (_, place, _) = schedule(world, b"0", b"raises", b"1", persistent=True)
    world.sync()
    assert world.run_into_it() == [place]
    assert world.run_into_it() == [place], "without a word of it the next start runs into it again"
    scheduler = world.broker.scheduler
    scheduler.firing.barred[place] = "it stops the gateway"
    client = world.consuming()
    world.advance(1_100)
    assert taken(client, world) == [b"0", b"1"]
    assert scheduler.aside == {place: "it stops the gateway"}
    assert scheduler.firing.suspected() == []
    world.advance(2 * ASIDE_MS)
    assert (taken(client, world), len(scheduler.pending)) == ([], 1)
    scheduler.cancel([scheduler.schedule_at(place)])
    assert (len(scheduler.pending), scheduler.aside) == (0, {})


def test_of_several_that_raise_together_the_one_is_found() -> None:
    world = DefectiveWorld()
    places = schedule(world, b"0", b"raises late", b"1", persistent=True)
    world.sync()
    assert world.run_into_it() == places
    world.schedule.firing.doubtful.update(places)
    assert world.run_into_it() == [places[1]]
    world.schedule.firing.barred[places[1]] = "it stops the gateway"
    client = world.consuming()
    world.advance(1_100)
    assert taken(client, world) == [b"0", b"1"]


class Uncancelling(Broker):
    """Raises for what is cancelled."""

    def __init__(self, store: Store, *given: Any, **named: Any) -> None:
        super().__init__(Uncancelled(store), *given, **named)


class Uncancelled(StoreWrapper):
    def settle(self, destination_id: int, consumer_id: int, outcome: int, cause: int, ranges: list[Range]) -> None:
        if cause == CAUSE_CANCELLED:
            raise RuntimeError("a defect")
        super().settle(destination_id, consumer_id, outcome, cause, ranges)


class UncancellingWorld(RestartWorld):
    broker_class = Uncancelling


@pytest.mark.parametrize("is_held_back", [False, True])
def test_one_that_raises_before_it_is_fired_is_known_and_not_looked_at_again(is_held_back: bool) -> None:
    world = UncancellingWorld(address("gone", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    if is_held_back:
        world.send(b"full", to="gone")
    (place, other) = schedule(world, b"0", b"1", to="gone")
    scheduler = world.broker.scheduler
    if is_held_back:
        world.advance(1_100)
        world.consumer(world.client("reader"), "gone", AUTO)
    scheduler.ending.ended.add(world.queue("gone").destination_id)
    with pytest.raises(RuntimeError, match="a defect"):
        world.advance(2_000)
    assert scheduler.firing.suspected() == [place]
    scheduler.firing.barred[place] = "it stops the gateway"
    with pytest.raises(RuntimeError, match="a defect"):
        scheduler.run()
    assert scheduler.aside == {place: "it stops the gateway"}
    assert scheduler.firing.suspected() == [other]
