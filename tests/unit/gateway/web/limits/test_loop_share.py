"""What requests of HTTP may take of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from gateway.web.limits.loop_share import SLICE_S, LoopShare, in_thread


class Clock:
    """Goes on only with work."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def request(clock: Clock, events: list[str], steps: int, step_s: float) -> int:
    for _ in range(steps):
        clock.now_s += step_s
        events.append("request")
        await asyncio.sleep(0)
    return steps


async def messaging(events: list[str]) -> None:
    while True:
        events.append("messaging")
        await asyncio.sleep(0)


async def test_messaging_runs_between_two_slices_of_all_requests() -> None:
    clock, events = Clock(), ["messaging"]
    share = LoopShare(clock)
    other = asyncio.create_task(messaging(events))
    done = await asyncio.gather(*(share.within(request(clock, events, 3, SLICE_S / 4)) for _ in range(40)))
    other.cancel()
    assert done == [3] * 40
    runs = [len(run) for run in "".join("r" if event == "request" else "m" for event in events).split("m")]
    assert sum(runs) == 120 and max(runs) <= 4, f"requests had {max(runs)} steps before messaging had its turn"


async def test_requests_go_on_in_their_order() -> None:
    clock, events = Clock(), list[str]()
    share = LoopShare(clock)

    async def named(name: str) -> None:
        await asyncio.sleep(0)
        clock.now_s += SLICE_S
        events.append(name)

    await asyncio.gather(*(share.within(named(f"{number}")) for number in range(5)))
    assert events == ["0", "1", "2", "3", "4"]


async def test_a_single_request_that_takes_little_waits_for_nothing() -> None:
    share, events = LoopShare(Clock()), list[str]()
    work = share.within(request(Clock(), events, 1, 0.0))
    work.send(None)
    with pytest.raises(StopIteration):
        work.send(None)


async def test_who_is_cancelled_gives_its_turn_to_the_next() -> None:
    clock, events = Clock(), list[str]()
    share = LoopShare(clock)
    tasks = [asyncio.create_task(share.within(request(clock, events, 2, SLICE_S))) for _ in range(6)]
    await asyncio.sleep(0)
    for cancelled in tasks[1:4]:
        cancelled.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in found] == [int, *[asyncio.CancelledError] * 3, int, int]


async def test_errors_and_time_limits_reach_the_work() -> None:
    share = LoopShare()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError("here")

    async def limited() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "too late"
        return "in time"

    with pytest.raises(LookupError, match="here"):
        await share.within(failing())
    assert await share.within(limited()) == "too late"
    assert await share.within(in_thread(lambda: 7)) == 7
