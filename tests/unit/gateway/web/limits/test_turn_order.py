"""Whose turn it is."""

from __future__ import annotations

import asyncio

from gateway.web.limits.turn_order import TurnOrder


class Line:
    """Tasks that have their turns one after the other; each writes its name."""

    def __init__(self) -> None:
        self.order = TurnOrder()
        self.had: list[str] = []
        self.first_may_end = asyncio.Event()

    async def one(self, holder: str) -> None:
        async with self.order.turn(holder):
            self.had.append(holder)
            if len(self.had) == 1:
                await self.first_may_end.wait()

    async def come(self, holders: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.one(holder)) for holder in holders]
        await asyncio.sleep(0)
        return tasks


async def test_holders_take_turns() -> None:
    line = Line()
    tasks = await line.come("aaaaabcb")
    line.first_may_end.set()
    await asyncio.gather(*tasks)
    assert "".join(line.had) == "aabcabaa"


async def test_a_turn_that_nobody_waits_for_any_more_is_passed_on() -> None:
    line = Line()
    tasks = await line.come("abcd")
    tasks[1].cancel()
    line.first_may_end.set()
    await asyncio.sleep(0)
    tasks[2].cancel()  # its turn has just come
    await asyncio.wait(tasks)
    assert "".join(line.had) == "ad"
    await line.one("e")
    assert "".join(line.had) == "ade"
