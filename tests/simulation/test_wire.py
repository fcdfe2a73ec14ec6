"""All features at once at the level of octets, and planted bugs: see tests/support/wire/wire_world.py."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.broker import Broker
from engine.consumers.client import Client
from tests.support.long_run import LongRun
from tests.support.wire.wire_world import WireWorld, run_seed
from tests.support.world.bodies import Violation
from tests.support.world.seeds import WIRE_SEEDS, seeds_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "wire_seed" in metafunc.fixturenames:
        metafunc.parametrize("wire_seed", seeds_of("wire"))


def test_wire_seed(wire_seed: int) -> None:
    run_seed(wire_seed)


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(run_seed)


def test_same_seed_gives_same_history() -> None:
    for seed in (2, 3):
        assert run_seed(seed).told == run_seed(seed).told


class _Sleepy(Broker):
    """Who waits for a window that several share is not woken once it opens."""

    def end_turn(self) -> int:
        self.subscribing.wakes.rooms.clear()
        return super().end_turn()


class _StillHolding(Broker):
    """What a connection held counts on when it has gone."""

    def disconnect(self, client: Client, is_lost: bool) -> None:
        self.holdings.used_bytes += client.held_bytes
        super().disconnect(client, is_lost)


class _LeavesHalfway(Broker):
    """What one turn does not finish of a departure is forgotten."""

    def begin_turn(self) -> None:
        self.steps.chores.clear()
        super().begin_turn()


class _Hasty(Broker):
    """Confirmations wait for nothing."""

    def end_turn(self) -> int:
        super().end_turn()
        return 0


@pytest.mark.parametrize(
    ("broker_class", "says"),
    [
        (_Sleepy, "has room and may have it"),
        (_StillHolding, "not the sum of those of all clients"),
        (_LeavesHalfway, ""),
        (_Hasty, "confirmed"),
    ],
)
def test_planted_bug_is_found(broker_class: type[Broker], says: str) -> None:
    assert says in first_found(broker_class)


def first_found(broker_class: type[Broker]) -> str:
    for seed in range(1, WIRE_SEEDS + 1):
        try:
            WireWorld(seed, broker_class).run()
        except (Violation, AssertionError, LookupError) as violation:
            return str(violation)
    raise AssertionError(f"{broker_class.__name__} is not found in {WIRE_SEEDS} seeds")


def test_the_seeds_see_what_they_are_for() -> None:
    seen = Counter[str]()
    for seed in range(1, 9):
        seen.update(run_seed(seed).counts)
    for what in (
        *("in flight", "delayed", "dead letters", "schedules", "replays", "browsers", "named subscriptions", "groups"),
        *("selections", "siblings", "temporary destinations", "waiting producers", "full addresses", "on disk alone"),
        *("the disk fails", "restarts", "purges", "retries", "vanishes", "the witness acts"),
    ):
        assert seen[what], what
