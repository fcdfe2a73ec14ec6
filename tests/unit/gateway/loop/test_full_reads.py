"""Sockets with full reads: a few read on after each turn, in the order in which they began to rest."""

from __future__ import annotations

import asyncio
from functools import partial

from gateway.loop.full_reads import READS_A_TURN, FullReads


async def test_a_few_read_on_after_each_turn_in_their_order() -> None:
    reads = FullReads(asyncio.get_running_loop())
    read: list[int] = []
    for number in range(2 * READS_A_TURN + 1):
        reads.rest(partial(read.append, number))
    counts = []
    for _ in range(3):
        await asyncio.sleep(0)
        counts.append(len(read))
    assert counts == [READS_A_TURN, 2 * READS_A_TURN, 2 * READS_A_TURN + 1]
    assert read == sorted(read)


async def test_who_rests_again_comes_after_those_that_rest_already() -> None:
    reads = FullReads(asyncio.get_running_loop())
    read: list[str] = []

    def greedy() -> None:
        read.append("greedy")
        if len(read) < 3 * READS_A_TURN:
            reads.rest(greedy)

    for _ in range(READS_A_TURN):
        reads.rest(greedy)
    reads.rest(partial(read.append, "modest"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert read.index("modest") == READS_A_TURN
