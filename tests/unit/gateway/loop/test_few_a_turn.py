"""A few calls after each turn, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from functools import partial

from gateway.loop.few_a_turn import FewATurn

MOST = 4


async def test_a_few_read_on_after_each_turn_in_their_order() -> None:
    reads = FewATurn(asyncio.get_running_loop(), MOST)
    read: list[int] = []
    for number in range(2 * MOST + 1):
        reads.later(partial(read.append, number))
    counts = []
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(len(read))
    assert counts == [MOST, 2 * MOST, 2 * MOST + 1]
    assert read == sorted(read)


async def test_who_rests_again_comes_after_those_that_rest_already() -> None:
    reads = FewATurn(asyncio.get_running_loop(), MOST)
    read: list[str] = []

    def greedy() -> None:
        read.append("greedy")
        if len(read) < 3 * MOST:
            reads.later(greedy)

    for _ in range(MOST):
        reads.later(greedy)
    reads.later(partial(read.append, "modest"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert read.index("modest") == MOST
