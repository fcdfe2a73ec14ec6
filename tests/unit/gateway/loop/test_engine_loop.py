"""Turns of the event loop: what arrives in one round is one batch, and what it owes leaves at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.consumers.consumer import INDIVIDUAL
from engine.ports.timers import TimerTarget
from engine.ports.workers import Job
from engine.values.message import PERSISTENT, STOMP, Message
from engine.values.options import SubscribeOptions
from gateway.loop.engine_loop import EngineLoop, Flushable, LoopTimers
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import FakeClient, VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore


class Touched(Flushable):
    """Stands for a connection: remembers with which offsets it was flushed."""

    def __init__(self) -> None:
        self.flushed: list[tuple[int, int]] = []

    def flush(self, offset: int, confirmed_offset: int) -> None:
        self.flushed.append((offset, confirmed_offset))

    def touch(self) -> None:
        raise AssertionError("nobody asks a socket for anything here")

    def authenticate(self, login: str, passcode: str) -> None:
        self.touch()

    def login_proved(self, login: str, is_right: bool) -> None:
        self.touch()

    def pause_reading(self) -> None:
        self.touch()

    def resume_reading(self) -> None:
        self.touch()

    def tick_soon(self) -> None:
        self.touch()

    def warn(self, text: str) -> None:
        self.touch()

    def peer(self) -> str:
        return "1.2.3.4:5"


class CountingBroker(Broker):
    turns = 0

    def end_turn(self) -> int:
        self.turns += 1
        return super().end_turn()


class World(BrokerView):
    broker: CountingBroker

    def __init__(self, store: ScriptedStore | None = None) -> None:
        self.clock = VirtualClock()
        self.store = store or ScriptedStore()
        timers = VirtualTimers(self.clock)
        self.broker = CountingBroker(self.store, self.clock, timers, AddressMatcher(()), 1024 * 1024)
        self.loop = EngineLoop(asyncio.get_running_loop(), self.broker, self.store, self.clock)

    def touch(self) -> Touched:
        touched = Touched()
        self.loop.touched.append(touched)
        self.loop.open_turn()
        return touched

    def send(self) -> None:
        queue = self.queue("q")
        self.broker.send(queue, Message(queue.destination_id, STOMP, PERSISTENT, 4, 0, 0, 0, b"", b"", b"x"))


async def rounds(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
async def delayed(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Return what the event loop is to call after some time; the test calls it instead, however slow the machine is."""
    calls: list[Callable[[], None]] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda _delay_s, call: calls.append(call))
    return calls


async def test_everything_of_one_round_is_one_turn() -> None:
    world = World()
    for _ in range(5):
        world.loop.open_turn()
        world.send()
    touched = world.touch()
    assert world.broker.turns == 0
    await rounds()
    assert world.broker.turns == 1
    assert touched.flushed == [(world.store.append_offset(), world.store.confirmed_offset())]


async def test_a_sync_within_the_end_of_a_turn_confirms_at_that_end() -> None:
    answered: list[Touched] = []

    class ShortSync(Job):
        def run(self) -> None: ...

        def finish(self) -> None:
            assert world.store.finish_sync()
            answered.append(world.touch())

    class QuickStore(ScriptedStore):
        def sync(self) -> None:
            super().sync()
            world.loop.job_done(ShortSync())

    class Confirmed(Touched):
        def flush(self, offset: int, confirmed_offset: int) -> None:
            super().flush(offset, confirmed_offset)
            world.loop.store_events.await_confirmation(FakeClient())

    world = World(QuickStore())
    start = world.store.confirmed_offset()
    sender = Confirmed()
    world.loop.touched.append(sender)
    world.send()
    world.loop.open_turn()
    await rounds(1)
    end = world.store.append_offset()
    assert (sender.flushed, [one.flushed for one in answered]) == ([(end, start)], [[(end, end)]])
    await rounds()
    assert world.broker.turns == 2, "nothing is left to be done"


async def test_an_idle_loop_turns_nothing() -> None:
    world = World()
    await rounds()
    assert world.broker.turns == 0


async def test_who_is_touched_while_the_turn_ends_leaves_with_it() -> None:
    world = World()
    touched: list[Touched] = []

    class Touching(FakeClient):
        def admit(self) -> None:
            touched.append(world.touch())

    client = Touching()
    world.broker.connect(client)
    world.store.fail("disk full")
    world.park(client, 6, world.queue("q"))
    world.store.heal()
    world.loop.open_turn()
    await rounds()
    assert [len(one.flushed) for one in touched] == [1]
    assert world.broker.turns == 1, "no turn of its own for that"


async def test_time_is_taken_once_a_turn() -> None:
    world = World()
    world.loop.open_turn()
    start_ms = world.loop.now_ms
    world.clock.now_ms += 10
    world.loop.open_turn()
    assert world.loop.now_ms == start_ms
    await rounds()
    world.loop.open_turn()
    assert world.loop.now_ms == start_ms + 10
    assert world.broker.wall_ms == world.clock.wall_ms()


async def test_a_sync_starts_when_somebody_waits_for_it() -> None:
    world = World()
    client = FakeClient()
    client.waits_for = 10**9
    world.loop.open_turn()
    world.send()
    world.await_confirmation(client)
    await rounds()
    assert world.store.is_sync_wanted


async def test_what_nobody_waits_for_is_synced_a_little_later_even_if_not_written_yet(
    delayed: list[Callable[[], None]],
) -> None:
    world = World()
    world.loop.open_turn()
    world.send()
    await rounds()
    assert not world.store.is_sync_wanted
    [sync] = delayed
    sync()
    assert world.store.is_sync_wanted
    assert world.store.written_offset() == world.store.append_offset()


async def test_an_acknowledgement_that_nobody_waits_for_is_logged_and_synced_a_little_later(
    delayed: list[Callable[[], None]],
) -> None:
    world = World()
    client = FakeClient()
    world.broker.connect(client)
    consumer = world.broker.subscribe(client, world.queue("q"), SubscribeOptions(INDIVIDUAL, None, "s"))
    consumer.start()
    world.loop.open_turn()
    world.send()
    await rounds()
    delayed.pop()()
    assert world.store.finish_sync()
    world.loop.open_turn()
    world.broker.acknowledge_unconfirmed(client.take()[0])
    await rounds()
    assert world.store.settled == []
    assert not world.store.is_sync_wanted
    delayed.pop()()
    assert world.store.is_sync_wanted
    assert len(world.store.settled) == 1
    assert delayed == []


async def test_what_flushing_made_dirty_has_a_turn_of_its_own() -> None:
    world = World()
    queue = world.queue("q")

    class Draining(Touched):
        def flush(self, offset: int, confirmed_offset: int) -> None:
            super().flush(offset, confirmed_offset)
            queue.mark_dirty()

    world.loop.touched.append(Draining())
    world.loop.open_turn()
    await rounds(5)
    assert world.broker.turns == 2
    assert not world.broker.has_more_to_do()


async def test_finished_jobs_and_timers_open_turns() -> None:
    world = World()
    done: list[str] = []

    class NotedJob(Job):
        def run(self) -> None:
            pass

        def finish(self) -> None:
            done.append("job")

    class Noted(TimerTarget):
        def timer_fired(self, key: int) -> None:
            done.append(f"timer {key}")

    world.loop.job_done(NotedJob())
    await rounds()
    assert (done, world.broker.turns) == (["job"], 1)
    timers = LoopTimers(asyncio.get_running_loop(), world.clock)
    timers.call_at(world.clock.monotonic_ms() - 5, Noted(), 1)  # before the engine is there
    async with asyncio.timeout(20):
        while len(done) < 2:
            await asyncio.sleep(0)
    assert world.broker.turns == 1
    timers.engine_loop = world.loop
    timers.call_at(world.clock.monotonic_ms(), Noted(), 2)
    async with asyncio.timeout(20):
        while len(done) < 3:
            await asyncio.sleep(0)
    await rounds()
    assert (done, world.broker.turns) == (["job", "timer 1", "timer 2"], 2)


class BrokenJob(Job):
    def run(self) -> None:
        pass

    def finish(self) -> None:
        raise AssertionError("ours")


class BrokenTimer(TimerTarget):
    def timer_fired(self, key: int) -> None:
        raise AssertionError("ours")


class BrokenConnection(Touched):
    def flush(self, offset: int, confirmed_offset: int) -> None:
        raise AssertionError("ours")


async def test_a_fault_of_ours_stops_the_process_wherever_it_is_found() -> None:
    world = World()
    world.loop.job_done(BrokenJob())
    assert world.loop.failed.is_set()

    world = World()
    timers = LoopTimers(asyncio.get_running_loop(), world.clock)
    timers.engine_loop = world.loop
    timers.call_at(0, BrokenTimer(), 1)
    async with asyncio.timeout(20):
        await world.loop.failed.wait()

    world = World()
    world.loop.touched.append(BrokenConnection())
    world.loop.open_turn()
    async with asyncio.timeout(20):
        await world.loop.failed.wait()


class _Raising(Job):
    def run(self) -> None:
        raise ValueError("ours")

    def finish(self) -> None: ...


async def test_a_job_that_raised_stops_the_process_and_says_which(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.loop.job_failed(_Raising(), ValueError("ours"))
    assert world.loop.is_shut and world.loop.failed.is_set()
    assert "_Raising raised" in caplog.text and "ValueError: ours" in caplog.text


async def test_a_defect_in_what_tells_of_alarms_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.schedule.break_down()
    for _ in range(3):
        world.clock.now_ms += 1_000
        world.loop.check()
    assert world.loop.check_faults == 3
    assert not world.loop.failed.is_set()
    assert caplog.text.count("a defect of the gateway in the alarms") == 1
