"""What the log says when something goes wrong, and when it is well again: once each."""

from __future__ import annotations

import logging

import pytest

from config.matching import AddressEntry, AddressMatcher
from engine.broker import Broker
from engine.features.scheduler.delayed_send import delayed
from engine.features.scheduler.plan import Plan
from engine.values import gates
from engine.values.message import PERSISTENT, STOMP, Message
from gateway.loop.alarms import QUIET_MS, Alarms
from tests.support.engine.broker_view import BrokerView
from tests.support.engine.engine_world import address
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore


class RetainingStore(ScriptedStore):
    stuck = ""
    held = ""

    def retention_reason(self) -> str:
        return self.stuck

    def retention_hold(self) -> str:
        return self.held


class World(BrokerView):
    def __init__(self, caplog: pytest.LogCaptureFixture, *addresses: AddressEntry) -> None:
        caplog.set_level(logging.INFO)
        self.caplog = caplog
        self.clock = VirtualClock()
        self.store = RetainingStore()
        self.timers = VirtualTimers(self.clock)
        self.broker = Broker(self.store, self.clock, self.timers, AddressMatcher(addresses), 1024 * 1024)
        self.alarms = Alarms(self.broker, self.store, self.clock)

    def check(self) -> list[str]:
        """Check three times, in time; return what was said."""
        self.caplog.clear()
        for _ in range(3):
            self.clock.now_ms += QUIET_MS
            self.alarms.check()
        return [record.getMessage() for record in self.caplog.records]


@pytest.fixture
def world(caplog: pytest.LogCaptureFixture) -> World:
    return World(caplog)


def test_all_is_well(world: World) -> None:
    assert world.check() == []
    assert world.alarms.present() == []
    assert not world.alarms.is_raised


def test_retention_that_waits_for_an_export(world: World) -> None:
    world.store.held = "space waits for an export"
    assert world.check() == ["retention: space waits for an export"]
    assert world.alarms.is_raised
    assert world.broker.inspect().store.retention == "space waits for an export"
    world.store.held = ""
    assert world.check() == ["retention: no space waits for an export any more"]


def test_the_store(world: World) -> None:
    world.store.fail("No space left")
    assert world.check() == ["store: failed, nothing persistent is accepted: No space left"]
    assert world.alarms.is_raised
    world.store.heal()
    assert world.check() == ["store: healed, it accepts again"]
    assert not world.alarms.is_raised


def test_a_page(world: World) -> None:
    queue = world.queue("q")
    world.store.listener.page_failed(queue.destination_id, 4, 0, "Input/output error")
    assert world.check() == ["store: a page could not be read: queue://q: Input/output error"]
    assert world.broker.inspect().store.reason == "queue://q: Input/output error"
    world.store.listener.page_loaded(queue.destination_id, 4, 0, 0, [])
    assert world.check() == ["store: pages can be read again"]
    assert world.broker.inspect().store.reason == ""


def test_records_that_are_skipped_are_told_once_each(world: World) -> None:
    world.skipped_records().extend(["queue://q: one", "queue://q: two"])
    text = "store: a damaged record was skipped as requested, its message is lost: queue://q: "
    assert world.check() == [text + "one", text + "two"]
    world.skipped_records().append("queue://q: three")
    assert world.check() == [text + "three"]
    assert world.check() == []


def test_memory(world: World) -> None:
    world.shut_memory(is_shut=True)
    assert world.check() == ["memory: the gate is shut, 0 of 1048576 octets are used"]
    world.shut_memory(is_shut=False)
    assert world.check() == ["memory: the gate is open again"]


def test_producers(world: World) -> None:
    queue = world.queue("q")
    for _ in range(2):
        client = FakeClient()
        world.broker.connect(client)
        world.park(client, gates.STORE, queue)
    (said,) = world.check()
    assert said.startswith("producers wait: ")
    assert said.endswith("at store: queue://q, and 1 more")
    world.forget_waits()
    assert world.check() == ["no producer waits any more"]


def test_retention(world: World) -> None:
    world.store.stuck = "00.log: Permission denied"
    assert world.check() == ["retention: space is not freed: 00.log: Permission denied"]
    world.store.stuck = ""
    assert world.check() == ["retention: space is freed again"]


def test_a_gate_that_flaps_does_not_fill_the_log(world: World) -> None:
    world.shut_memory(is_shut=True)
    world.check()
    world.clock.now_ms += QUIET_MS
    world.caplog.clear()
    for number in range(1_000):
        world.shut_memory(is_shut=number % 2 == 1)
        world.alarms.check()
    assert len(world.caplog.records) == 1
    assert world.check() == ["memory: the gate is shut, 0 of 1048576 octets are used"], "what is still so is told"


def test_a_full_address_that_drops_is_told_once_an_episode(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog, address("q", full__address_full_policy="DROP", full__max_size_messages=1))
    queue = world.queue("q")
    for _ in range(3):
        world.broker.send(queue, Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"x"))
    assert world.check() == [
        "full addresses drop or refuse messages: DROP at queue://q holds 1 of 1 messages (max-size-messages)"
    ]
    assert queue.account is not None
    queue.account.leave(1)
    world.open_gates()
    assert world.check() == ["no full address drops or refuses messages any more"]


def test_slow_consumers_are_told_once_each(world: World) -> None:
    world.slow_notices().append("queue://q: somebody is slow")
    assert world.check() == ["slow consumer: queue://q: somebody is slow"]
    assert world.check() == []


def test_what_is_scheduled_and_held_back(caplog: pytest.LogCaptureFixture) -> None:
    world = World(caplog, address("q", full__max_size_messages=1, full__address_full_policy="BLOCK"))
    broker = world.broker
    target = delayed(world.queue("q"), Plan(delay_ms=1_000))
    for _ in range(2):
        broker.send(target, Message(0, STOMP, 0, 4, 0, 0, 0, b"", b"", b"x"))
    world.clock.now_ms += 1_100
    broker.begin_turn()
    world.schedule.fire_due()
    told = "schedule: due messages are held back: address-full: queue://q holds 1 of 1 messages (max-size-messages); "
    [first] = world.check()
    assert first.startswith(told)
    assert world.alarms.is_raised
    world.delete(world.queue_there("q"), is_forced=True)
    assert world.check() == ["schedule: nothing is held back any more"]


def test_a_producer_whose_wait_ran_out_waits_no_more(caplog: pytest.LogCaptureFixture) -> None:
    world = World(
        caplog, address("q", full__max_size_bytes=5, full__address_full_policy="BLOCK", full__block_timeout_ms=1_000)
    )
    broker = world.broker
    client = FakeClient()
    broker.connect(client)
    queue = world.queue("q")
    for _ in range(2):
        message = Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"ten octets")
        gate = broker.send(queue, message)
    world.park(client, gate, queue)
    world.clock.now_ms += 1_000
    world.timers.fire_due()
    assert len(client.waited) == 1
    assert world.check() == []
    assert world.waits() == {}
    assert broker.inspect().blocked_producers == {}


def test_what_is_put_aside_is_told(world: World) -> None:
    world.schedule.put_aside(4711, "KeyError: 'what'")
    (said,) = world.check()
    assert "it cannot be fired: scheduled message" in said
    assert world.alarms.is_raised
    world.schedule.take_back()
    assert world.check() == ["schedule: everything can be fired again"]


def test_what_is_present_is_told_with_its_level(world: World) -> None:
    world.store.stuck = "the disk fails"
    world.store.held = "export x is behind"
    assert world.alarms.present() == [
        ("error", "retention: space is not freed: the disk fails"),
        ("warning", "retention: export x is behind"),
    ]
