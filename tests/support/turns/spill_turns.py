"""Turns in which selectors search temporary files."""

from __future__ import annotations

from engine.backlog.spiller import LOW_BYTES
from engine.consumers.consumer import INDIVIDUAL
from engine.ports.workers import READ_LANE
from tests.support.engine.engine_world import MIB, address
from tests.support.engine.spill_world import SpillWorld
from tests.support.turns.turn_lines import run_elsewhere
from tests.support.turns.turn_scenarios import Input, scenario


class _Spilled(SpillWorld):
    """Nearly all messages are in temporary files.  Deliveries are unchecked: a check would count as part of a turn."""

    def __init__(self) -> None:
        paging = address("q", full__max_size_messages=1, full__address_full_policy="PAGE")
        super().__init__(paging, memory_limit_bytes=256 * MIB)

    def turn(self) -> int:
        while True:
            offset = self.broker.end_turn()
            self.broker.begin_turn()
            has_read = bool(self.spill_workers.jobs) or self.workers.finish(READ_LANE)
            while self.spill_workers.jobs:
                job, _ = self.spill_workers.jobs.popleft()
                run_elsewhere(job)
                job.finish()
            if not has_read and not self.broker.has_more_to_do():
                return offset


@scenario("many selectors look through temporary files: asked one by one")
def _(count: int) -> Input:
    return _looking(count, "n LIKE 'a{}%'")


@scenario("many selectors look through temporary files: all match")
def _(count: int) -> Input:
    return _looking(count, "n = 'x' AND m{} IS NULL")


def _looking(count: int, selector: str) -> Input:
    world = _Spilled()
    queue = world.queue("q")
    for _ in range(4):
        world.broker.send(queue, world.message(queue, b"x" * LOW_BYTES, persistent=False))  # enough to be in memory
    for _ in range(count):
        world.broker.send(queue, world.message(queue, b"", persistent=False, headers="n:x"))
    world.turn()
    client = world.client()
    for number in range(count // 20):
        world.consumer(client, "q", INDIVIDUAL, 1, selector=selector.format(number))
    return lambda: world.advance(0)
