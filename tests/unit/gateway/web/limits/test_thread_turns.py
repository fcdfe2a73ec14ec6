"""Reads of the store for requests."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.web.limits.request_memory import RequestMemory
from gateway.web.limits.thread_turns import ThreadTurns


async def test_a_turn_ends_with_its_thread() -> None:
    turns = ThreadTurns(RequestMemory())
    began, may_end = threading.Event(), threading.Event()
    seen: list[str] = []

    def slow() -> None:
        began.set()
        may_end.wait(60)
        seen.append("first")

    first = asyncio.create_task(turns.done("a", slow))
    assert await asyncio.to_thread(began.wait, 60)
    second = asyncio.create_task(turns.done("b", lambda: seen.append("second")))
    first.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not first.done()
    may_end.set()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    assert seen == ["first", "second"]


async def test_errors_reach_the_asker() -> None:
    def fails() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await ThreadTurns(RequestMemory()).done("a", fails)


async def test_a_thread_hears_that_nobody_waits_for_it() -> None:
    began, left = threading.Event(), threading.Event()

    def search() -> bool:
        began.set()
        return left.wait(60)

    asked = asyncio.create_task(ThreadTurns(RequestMemory()).done("a", search, left.set))
    assert await asyncio.to_thread(began.wait, 60)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert left.is_set()
