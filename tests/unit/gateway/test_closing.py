"""The end of a gateway whose disk works, refuses, or does not answer any more."""

from __future__ import annotations

import threading

import pytest

from engine.values.errors import StoreError
from gateway.closing import close_within


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
