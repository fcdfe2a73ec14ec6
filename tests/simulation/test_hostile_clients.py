"""The random operations of tests/security on a gateway without sockets, threads and disk: a seed decides everything.

The laws are in tests/support/hostile/random_lives.py.
"""

from __future__ import annotations

import gc
from typing import Any, Final

import pytest

from engine.broker import Broker
from engine.dispatch.dispatcher import Dispatcher
from engine.sources.queue import Queue
from gateway.connections.session_socket import SessionSocket
from protocols.amqp.v1_0.endpoints.confirmations import Endpoint
from protocols.connection import ProtocolConnection
from tests.support.engine.broker_view import BrokerView
from tests.support.hostile.random_lives import Plant, RandomLives
from tests.support.long_run import LongRun
from tests.support.uncollected import uncollected
from tests.support.world.bodies import Violation
from tests.support.world.bugs import ChoresForgotten, HoardingBroker, SleepyBroker
from tests.support.world.known_seeds import known_first
from tests.support.world.seeds import asked_or, telling

SEEDS: Final = 5
MIXED_SEEDS: Final = 3
OPERATIONS: Final = 500  # of a life
LONG_OPERATIONS: Final = 4_000
OPERATIONS_OF_A_FAILURE: Final = 600
LEFT_BY_NOBODY: Final = (ProtocolConnection, SessionSocket, Endpoint)  # Endpoint: sessions and links of AMQP
LIVES_MOST: Final = 3
SEEDS_OF_A_BUG: Final = 10
OPERATIONS_OF_A_BUG: Final = 300
HANGS_S: Final = 1.0  # a turn with a planted endless loop lasts longer


def run_seed(seed: int, operations: int, has_web: bool | None = None) -> list[object]:
    lives = RandomLives(seed, operations, LIVES_MOST, has_web=has_web)
    with telling("hostile", seed):
        lives.run()
    return lives.told


@pytest.mark.parametrize("seed", asked_or(range(1, SEEDS + 1)))
def test_hostile_seed(seed: int) -> None:
    run_seed(seed, OPERATIONS)


@pytest.mark.parametrize("seed", [8060053, 8060094])
def test_seeds_that_once_failed(seed: int) -> None:
    """A thinned segment had the settlement of a closed subscription without what it had kept."""
    run_seed(seed, OPERATIONS_OF_A_FAILURE)


def test_hostile_seed_with_http() -> None:
    assert run_seed(2, 300, has_web=True) == run_seed(2, 300, has_web=True)


def run_mixed_seed(seed: int, operations: int) -> None:
    with telling("mixed", seed):
        RandomLives(seed, operations, LIVES_MOST, is_mixed=True).run()


@pytest.mark.parametrize("seed", asked_or(range(1, MIXED_SEEDS + 1)))
def test_mixed_seed(seed: int) -> None:
    run_mixed_seed(seed, OPERATIONS)


def test_more_mixed_seeds(long_run: LongRun) -> None:
    long_run.take(lambda seed: run_mixed_seed(seed, LONG_OPERATIONS))


def test_more_seeds(long_run: LongRun) -> None:
    long_run.take(lambda seed: run_seed(seed, LONG_OPERATIONS))


def test_same_seed_gives_same_history() -> None:
    assert run_seed(2, 300) == run_seed(2, 300)


class Uncollected(RandomLives):
    """A run without the garbage collector.  left: what it would have found of the gateway once all clients had left."""

    def __init__(self, seed: int, operations: int) -> None:
        super().__init__(seed, operations, LIVES_MOST)
        self.left: set[str] = set()

    def run(self) -> None:
        with uncollected():
            try:
                super().run()
            finally:
                gc.set_debug(0)

    def _live(self, is_last: bool) -> None:
        gc.collect()
        super()._live(is_last)

    def _check_nothing_held(self) -> None:
        super()._check_nothing_held()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        self.left |= {type(one).__name__ for one in gc.garbage if isinstance(one, LEFT_BY_NOBODY)}
        gc.garbage.clear()


@pytest.mark.parametrize("seed", range(1, 6))
def test_nobody_leaves_a_session_to_the_garbage_collector(seed: int) -> None:
    lives = Uncollected(seed, 300)
    lives.run()
    assert lives.left == set()


@pytest.mark.interpreted
def test_the_seeds_are_not_idle() -> None:
    seen: set[str] = set()
    for seed in (6, 7):
        lives = RandomLives(seed, OPERATIONS, LIVES_MOST)
        lives.run()
        seen |= lives.seen
    assert seen == {
        *("in flight", "delayed", "dead letters", "schedules", "replays", "browsers", "named subscriptions", "groups"),
        *("selections", "siblings", "temporary destinations", "waiting producers", "full addresses", "on disk alone"),
        *("short memory", "temporary files"),
    }


class _Again:
    """Every queue that was dispatched is dispatched again, in the next round.  No subclass: it is compiled."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def run(self, queue: Queue) -> None:
        self._dispatcher.run(queue)
        queue.mark_dirty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatcher, name)


class _ForEver(_Again):
    """The first queue that is dispatched is dispatched for ever."""

    def run(self, queue: Queue) -> None:
        while True:
            self._dispatcher.run(queue)


def _marks_again(broker: Broker) -> None:
    BrokerView(broker).replace_dispatcher(_Again)


def _does_not_return(broker: Broker) -> None:
    BrokerView(broker).replace_dispatcher(_ForEver)


class _Hasty(Broker):
    """Confirmations wait for nothing."""

    __slots__ = ()

    def end_turn(self) -> int:
        super().end_turn()
        return 0


def _becomes(broker_class: type[Broker]) -> Plant:
    def plant(broker: Broker) -> None:
        broker.__class__ = broker_class

    return plant


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (_marks_again, "the event loop never rests"),
        (_does_not_return, "a turn has not ended"),
        (_becomes(HoardingBroker), "not the sum of those of all clients"),
        (_becomes(SleepyBroker), "has room and may have it"),
        (_becomes(ChoresForgotten), ""),
        (_becomes(_Hasty), "confirmed"),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, says: str) -> None:
    assert says in _first_found(plant)


def _first_found(plant: Plant) -> str:
    for seed in known_first(range(1, SEEDS_OF_A_BUG + 1)):
        try:
            RandomLives(seed, OPERATIONS_OF_A_BUG, LIVES_MOST, plant, HANGS_S).run()
        except Violation as violation:
            return str(violation)
    raise AssertionError(f"{plant} is not found in {SEEDS_OF_A_BUG} seeds")
