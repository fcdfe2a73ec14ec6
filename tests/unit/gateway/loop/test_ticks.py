"""Who is due is looked at once its socket has been polled, in the event loop that the gateway runs in."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Coroutine

import uvloop

from gateway.loop.ticks import ROUNDS, Ticks
from tests.support.fakes import VirtualClock


class Listed:
    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen
        self.told_ms = -1

    def tick(self, now_ms: int) -> None:
        self.told_ms = now_ms
        self.seen.append(self.name)


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def run(main: Coroutine[None, None, None]) -> None:
    uvloop.run(main)


async def _octets_are_read_first(hops: int) -> None:
    """hops: tasks and callbacks between the poll and who takes the octets."""
    loop = asyncio.get_running_loop()
    clock = VirtualClock()
    clock.now_ms = 1_000
    ours, theirs = socket.socketpair()
    seen: list[str] = []

    def read(left: int) -> None:
        if left:
            loop.call_soon(read, left - 1)
        else:
            clock.now_ms = 5_000
            seen.append("read")

    def readable() -> None:
        ours.recv(100)
        read(hops)

    with ours, theirs:
        loop.add_reader(ours.fileno(), readable)
        await rounds(ROUNDS)  # the event loop watches it
        listed = Listed("looked at", seen)
        loop.call_later(0.001, theirs.send, b"in time")
        Ticks(loop, clock).call_later(1, listed.tick)
        time.sleep(0.01)  # both timers are due in the same round, and no socket is polled between them
        while "looked at" not in seen:
            await asyncio.sleep(0)
        loop.remove_reader(ours.fileno())
    assert seen == ["read", "looked at"]
    assert listed.told_ms == 1_000, "it is judged as of the time before the poll"


def test_what_came_in_time_is_read_before_the_look() -> None:
    run(_octets_are_read_first(0))


def test_what_goes_by_way_of_a_task_is_read_before_the_look_too() -> None:
    run(_octets_are_read_first(2))


async def _share() -> None:
    clock = VirtualClock()
    seen: list[str] = []
    calls: list[int] = []

    class CountingClock(VirtualClock):
        def monotonic_ms(self) -> int:
            calls.append(1)
            return clock.monotonic_ms()

    ticks = Ticks(asyncio.get_running_loop(), CountingClock())
    for number in range(100):
        ticks.call_later(0, Listed(str(number), seen).tick)
    cancelled = ticks.call_later(0, Listed("cancelled", seen).tick)
    cancelled.cancel()
    while len(seen) < 100:
        await asyncio.sleep(0)
    await rounds(2 * ROUNDS)
    assert sorted(seen, key=int) == [str(number) for number in range(100)], "each once"
    assert len(calls) < 100, "those of one round share a poll"


def test_those_that_are_due_together_share_one_poll() -> None:
    run(_share())
