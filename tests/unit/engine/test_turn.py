"""A turn ends, whatever its dispatch causes."""

from __future__ import annotations

from engine.consumers.turn_steps import TURN_STEPS
from engine.limits.producer_gates import OwnSender
from engine.sources.queue import Queue
from tests.support.engine.engine_world import EngineWorld


class Restless(OwnSender):
    """Makes the next round of dispatch due in each round, as a defect would."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.rounds = 0

    def gates_opened(self) -> bool:
        self.rounds += 1
        self.queue.mark_dirty()
        return False


def test_rounds_of_dispatch_without_end_end_with_the_steps_of_the_turn() -> None:
    world = EngineWorld()
    client = world.subscriber()
    world.turn()
    restless = Restless(world.queue("q"))
    flow = world.broker.producer_gates
    flow.own_senders.append(restless)
    flow.disk_reason = "the disk is nearly full"  # so that the gates are looked at in each round
    flow.block()
    restless.queue.mark_dirty()
    world.broker.end_turn()
    assert 1 < restless.rounds < TURN_STEPS
    assert world.is_more_to_come(), "the next turn goes on"
    flow.own_senders.remove(restless)
    flow.disk_reason = ""
    world.broker.begin_turn()
    world.send(b"1")
    assert client.bodies() == [b"1"]
