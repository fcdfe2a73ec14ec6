"""Work that goes on over turns: clients take turns, whatever each of them has begun."""

from __future__ import annotations

from engine.consumers.consumer import INDIVIDUAL
from engine.consumers.turn_steps import TURN_STEPS, Chore, Steps
from engine.values.destination import QUEUE
from tests.support.engine.engine_world import EngineWorld

QUEUES = TURN_STEPS // 4
MANY = 50
FEW_TURNS = 10


class Going(Chore):
    """Notes when it goes on, and begins another one the first time."""

    def __init__(self, name: str, turns: int, told: list[str], also: Chore | None = None) -> None:
        self.name = name
        self.turns = turns
        self.told = told
        self.also = also

    def go_on(self, steps: Steps) -> bool:
        self.told.append(self.name)
        self.turns -= 1
        if self.also is not None:
            steps.begin(self.also)
            self.also = None
        return not self.turns


def test_a_client_with_one_wildcard_does_not_wait_for_those_of_another() -> None:
    world = EngineWorld()
    for number in range(QUEUES):
        world.queue(f"q.{number}")
    busy, other = world.client("busy"), world.client("other")
    source = world.source(QUEUE, "q.>")
    world.hear(busy.client_number)
    for _ in range(MANY):
        world.consumer(busy, source, INDIVIDUAL, 1)
    world.hear(other.client_number)
    world.consumer(other, source, INDIVIDUAL, 1, name="other")
    for _ in range(FEW_TURNS):
        world.turn()
        world.begin_later(0)
    joined = sum(one.client is other for queue in world.queues() for one in queue.consumers.values())
    assert joined == QUEUES
    assert len(world.chores()) >= MANY - FEW_TURNS


def test_clients_take_turns_and_so_do_the_chores_of_each() -> None:
    world = EngineWorld()
    told: list[str] = []
    for client, names in ((1, "abc"), (2, "x"), (0, "0")):
        world.hear(client)
        for name in names:
            world.begin_chore(Going(name, 2, told))
    world.turn()
    assert "".join(told[:5]) == "ax0bx"


def test_what_a_chore_begins_is_of_its_client() -> None:
    world = EngineWorld()
    told: list[str] = []
    world.hear(1)
    world.begin_chore(Going("a", 1, told, also=Going("b", 1, told)))
    world.begin_chore(Going("c", 1, told))
    world.hear(2)
    world.begin_chore(Going("x", 1, told))
    world.turn()
    assert told[:2] == ["a", "x"]
    world.begin_later(0)
    world.turn()
    assert told == ["a", "x", "c", "b"]
