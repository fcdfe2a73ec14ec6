"""Work that goes on over turns: clients take turns, whatever each of them has begun."""

from __future__ import annotations

from engine.consumers.consumer import INDIVIDUAL
from engine.consumers.turn_steps import NOBODY, TURN_STEPS, Chore, Steps
from engine.values.destination import QUEUE
from tests.support.engine.engine_world import EngineWorld

QUEUES = TURN_STEPS // 4
MANY = 50
FEW_TURNS = 10
MESSAGES = 2_000  # more than one turn takes from a lost consumer


class Going(Chore):
    """Notes when it goes on."""

    def __init__(self, name: str, turns: int, told: list[str]) -> None:
        self.name = name
        self.turns = turns
        self.told = told

    def go_on(self, steps: Steps) -> bool:
        self.told.append(self.name)
        self.turns -= 1
        return not self.turns


class Endless(Chore):
    def go_on(self, steps: Steps) -> bool:
        steps.left = steps.left_to_others()
        return False


def test_a_client_with_one_wildcard_does_not_wait_for_those_of_another() -> None:
    world = EngineWorld()
    for number in range(QUEUES):
        world.queue(f"q.{number}")
    busy, other = world.client("busy"), world.client("other")
    source = world.source(QUEUE, "q.>")
    for _ in range(MANY):
        world.consumer(busy, source, INDIVIDUAL, 1)
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
    for client, names in ((1, "abc"), (2, "x"), (NOBODY, "0")):
        for name in names:
            world.begin_chore(Going(name, 2, told), client)
    world.turn()
    assert "".join(told[:5]) == "ax0bx"


def test_what_is_nobodys_waits_for_one_of_each_client_at_most() -> None:
    world = EngineWorld()
    told: list[str] = []
    for name in "abc":
        world.begin_chore(Going(name, 2, told), 1)
    for name in "xyz":
        world.begin_chore(Going(name, 1, told))
    world.turn()
    assert "".join(told[:4]) == "axyz"


def test_a_lost_connection_does_not_wait_behind_all_that_another_has_begun() -> None:
    world = EngineWorld()
    lost = world.subscriber("q", INDIVIDUAL, MESSAGES)
    world.send(*[b"x"] * MESSAGES)
    heir = world.subscriber("q", INDIVIDUAL, MESSAGES)
    busy = world.client()
    for _ in range(MANY):
        world.begin_chore(Endless(), busy.client_number)
    world.hear(busy.client_number)
    world.broker.disconnect(lost, is_lost=True)
    turns = 0
    while len(heir.handed) < MESSAGES:
        world.broker.end_turn()
        world.begin_later(1)
        turns += 1
    assert turns < MANY
