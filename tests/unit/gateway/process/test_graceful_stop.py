"""A stop waits for the last settlements, as long as it may, and a second signal cuts the wait short."""

from __future__ import annotations

import asyncio

import pytest

from engine.consumers.consumer import INDIVIDUAL
from engine.values.delivery import Delivery
from gateway.process.graceful_stop import GracefulStop, Phase
from tests.support.engine.engine_world import EngineWorld, world_with_client
from tests.support.fakes import FakeClient, HastyClock

WAIT_MS = 10_000


def holding(*bodies: bytes) -> tuple[EngineWorld, FakeClient, list[Delivery]]:
    world, client = world_with_client()
    world.subscribe(client, prefetch=len(bodies) or 1, ack_mode=INDIVIDUAL)
    world.send(*bodies)
    return world, client, client.take()


def begun(world: EngineWorld, drain_time_ms: int = WAIT_MS) -> GracefulStop:
    stop = GracefulStop(world.last_settlements, world.clock, drain_time_ms)
    assert stop.phase is Phase.SERVING and not stop.asked.is_set()
    stop.signalled()
    assert stop.asked.is_set() and not stop.hurried.is_set()
    world.broker.begin_turn()
    stop.begin()
    world.turn()
    stop.look()
    return stop


def pass_time(world: EngineWorld, stop: GracefulStop, milliseconds: int) -> Phase:
    world.advance(milliseconds)
    stop.look()
    return stop.phase


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


def test_nothing_is_held(caplog: pytest.LogCaptureFixture) -> None:
    world, _, _ = holding()
    stop = GracefulStop(world.last_settlements, HastyClock(), WAIT_MS)
    stop.begin()
    stop.look()
    assert stop.phase is Phase.ENDING
    assert lines(caplog) == ["INFO stopping"]


def test_what_is_held_is_settled_in_time(caplog: pytest.LogCaptureFixture) -> None:
    world, _, deliveries = holding(b"0", b"1")
    stop = begun(world)
    world.acknowledge(deliveries[0])
    assert pass_time(world, stop, 1_000) is Phase.SETTLING
    world.acknowledge(deliveries[1])
    assert pass_time(world, stop, 500) is Phase.ENDING
    assert lines(caplog) == [
        "INFO stopping: up to 10 s for 2 messages that 1 consumer holds; a second signal stops at once",
        "INFO stopping: consumers hold nothing any more, after 1.5 s",
    ]


def test_the_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    world, _, _ = holding(b"0")
    stop = begun(world)
    assert pass_time(world, stop, 5_000) is Phase.SETTLING
    assert pass_time(world, stop, 4_999) is Phase.SETTLING
    assert pass_time(world, stop, 1) is Phase.ENDING
    assert lines(caplog) == [
        "INFO stopping: up to 10 s for 1 message that 1 consumer holds; a second signal stops at once",
        "INFO stopping: 5.0 s more for 1 message that 1 consumer holds; a second signal stops at once",
        "WARNING stopping after 10.0 s (stop.drain-time-ms) without the settlements of 1 message that 1 consumer "
        "holds; they are delivered again: consumer 1 (client, subscription sub) holds 1 of queue://q",
    ]


def test_a_second_signal(caplog: pytest.LogCaptureFixture) -> None:
    world, _, _ = holding(b"0")
    stop = begun(world)
    assert pass_time(world, stop, 1_000) is Phase.SETTLING
    stop.signalled()
    assert stop.hurried.is_set()
    assert pass_time(world, stop, 0) is Phase.ENDING
    stop.signalled()
    assert pass_time(world, stop, 0) is Phase.ENDING, "further ones change nothing"
    assert lines(caplog)[-1].startswith("WARNING stopping after 1.0 s (a second signal) without the settlements of 1 ")


def test_zero_waits_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    world, _, _ = holding(b"0")
    assert begun(world, 0).phase is Phase.ENDING
    assert lines(caplog) == ["INFO stopping"]
    world.send(b"1")
    assert world.subscriber(prefetch=1).bodies() == [b"1"], "the engine is not paused"


def test_a_holder_that_goes_is_not_waited_for() -> None:
    world, client, _ = holding(b"0")
    stop = begun(world)
    world.lose(client)
    assert pass_time(world, stop, 0) is Phase.ENDING


@pytest.mark.parametrize("cause", ["second signal", "fault"])
async def test_the_wait_ends_at_once(cause: str) -> None:
    world, _, _ = holding(b"0")
    stop = GracefulStop(world.last_settlements, world.clock, WAIT_MS)
    stop.signalled()
    failed = asyncio.Event()
    waiting = asyncio.ensure_future(stop.settled(failed, world.broker.begin_turn))
    await asyncio.sleep(0)
    assert stop.phase is Phase.SETTLING
    if cause == "fault":
        failed.set()
    else:
        stop.signalled()
    await waiting
    assert stop.phase is (Phase.SETTLING if cause == "fault" else Phase.ENDING)


async def test_the_wait_ends_with_the_settlement() -> None:
    world, _, deliveries = holding(b"0")
    stop = GracefulStop(world.last_settlements, world.clock, WAIT_MS)
    stop.signalled()
    waiting = asyncio.ensure_future(stop.settled(asyncio.Event(), world.broker.begin_turn))
    await asyncio.sleep(0)
    world.acknowledge(*deliveries)
    await waiting
    assert stop.phase is Phase.ENDING
