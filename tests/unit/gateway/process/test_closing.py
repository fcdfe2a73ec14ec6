"""The end of a gateway whose disk works, refuses, or does not answer any more."""

from __future__ import annotations

import asyncio
import threading
from typing import cast

import pytest

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.ports.timers import TimerTarget
from engine.store.file_store import FileStore
from engine.values.errors import StoreError
from gateway.app import _close_store
from gateway.loop.engine_loop import EngineLoop, LoopTimers
from gateway.process.closing import close_within
from gateway.process.workers import ThreadWorkers
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore


async def test_a_store_that_closes() -> None:
    closed: list[str] = []
    assert await close_within(lambda: closed.append("yes"), 60) == ""
    assert closed == ["yes"]


async def test_a_disk_that_refuses() -> None:
    def refuse() -> None:
        raise StoreError("data/checkpoint: no space left")

    assert await close_within(refuse, 60) == "data/checkpoint: no space left"


async def test_a_disk_that_does_not_answer_holds_nobody_up() -> None:
    never = threading.Event()

    def hang() -> None:
        never.wait()

    assert await close_within(hang, 0.01) == "the disk has not answered for 0.01 s"
    never.set()


async def test_our_own_fault_is_not_swallowed() -> None:
    def fail() -> None:
        raise AssertionError("ours")

    with pytest.raises(AssertionError, match="ours"):
        await close_within(fail, 60)


class Writes(TimerTarget):
    """Something that is due at any time: an expiry, a schedule."""

    def __init__(self) -> None:
        self.fired = 0

    def timer_fired(self, key: int) -> None:
        self.fired += 1


class ClosingStore:
    """Takes its time on its thread, until a timer of the event loop has had the chance to fire."""

    def __init__(self) -> None:
        self.may_close = threading.Event()

    def wind_down(self) -> None: ...

    def close(self) -> None:
        assert self.may_close.wait(20)


async def test_nothing_is_written_behind_the_clean_end() -> None:
    loop = asyncio.get_running_loop()
    clock, store = VirtualClock(), ScriptedStore()
    broker = Broker(store, clock, VirtualTimers(clock), AddressMatcher(()), 1024)
    engine_loop = EngineLoop(loop, broker, store, clock)
    timers = LoopTimers(loop, clock)
    timers.engine_loop = engine_loop
    closing = ClosingStore()
    workers = ThreadWorkers(loop)
    workers.attach(engine_loop)
    ended = loop.create_task(_close_store(cast(FileStore, closing), workers, engine_loop))
    writes = Writes()
    while not engine_loop.is_shut and not ended.done():
        await asyncio.sleep(0)
    timers.call_at(clock.monotonic_ms(), writes, 1)
    for _ in range(20):
        await asyncio.sleep(0.001)
    closing.may_close.set()
    assert await ended
    assert writes.fired == 0
    assert not engine_loop.failed.is_set()
