"""The simulation: with the present configuration it repeats what happened, and with another one it obeys laws."""

from __future__ import annotations

import random

import pytest

from config.matching import AddressEntry
from engine.values.destination import QUEUE
from engine.values.outcomes import CAUSE_NAMES, OUTCOME_NAMES
from tests.support.engine.engine_world import address
from tests.support.what_if.recorded_world import ALWAYS, RecordedWorld, Sent, every, takes
from tests.support.what_if.scenarios import scenario
from what_if.figures import Figures
from what_if.model.consumers import REFERENCE
from what_if.model.simulation import Simulation, simulate
from what_if.run import really, run
from what_if.trace.trace import Owner, Trace

Q = Owner(QUEUE, "q")


def figures(trace: Trace, *addresses: AddressEntry, **values: object) -> Figures:
    return simulate(trace, scenario(*addresses, **values))[Q]


def simulated_ends(trace: Trace, *addresses: AddressEntry) -> list[tuple[int, int, str, str]]:
    """Return time, message, outcome and cause of each delivery of the messages of the trace."""
    simulation = Simulation(trace, scenario(*addresses))
    simulation.store.events = []
    simulation.run()
    return sorted(
        (
            time_ms,
            REFERENCE.unpack(message.body)[0],
            OUTCOME_NAMES.get(outcome, "failed"),
            CAUSE_NAMES[cause],
        )
        for time_ms, _, message, outcome, cause in simulation.store.events
    )


SETTINGS = {
    "plain": [],
    "no delay": [address("q", redelivery__initial_redelivery_delay_ms=0, redelivery__redelivery_delay_ms=0)],
    "back-off": [
        address(
            "q",
            redelivery__redelivery_delay_ms=20,
            redelivery__initial_redelivery_delay_ms=10,
            redelivery__use_exponential_back_off=True,
            redelivery__back_off_multiplier=2.0,
            redelivery__maximum_redeliveries=3,
        )
    ],
    "one at a time": [address("q", prefetch__queue_prefetch=1)],
    "priorities": [address("q", queue__prioritized_messages=True)],
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("seed", range(8))
def test_with_the_present_configuration_it_repeats_what_happened(settings: list[AddressEntry], seed: int) -> None:
    chance = random.Random(seed)
    sent = sorted(
        (
            Sent(
                chance.randrange(5, 1_500),
                failures=chance.choice([0] * 8 + [1, 2, ALWAYS]),
                priority=chance.choice([4, 4, 4, 7]),
                expires_in_ms=chance.choice([0] * 9 + [3]),
            )
            for _ in range(200)
        ),
        key=lambda one: one.at_ms,
    )
    slowness = [1 + number for number in range(chance.randrange(1, 4))]
    consumers = [("q", lambda number, attempt, slow=slow: slow + (number * 7 + attempt) % 5) for slow in slowness]
    recorded = RecordedWorld(sent, consumers, *settings, length_ms=9_000)
    assert len(recorded.rows) > 200
    assert simulated_ends(recorded.trace(), *settings) == recorded.ends()


def test_what_really_happened_has_the_figures_of_its_repetition() -> None:
    recorded = RecordedWorld(every(3, 300, failures=0), [("q", takes(5))], length_ms=3_000)
    trace = recorded.trace()
    assert really(trace).figures == run(trace, scenario()).figures


def test_equal_seeds_give_equal_reports() -> None:
    trace = RecordedWorld(every(3, 300), [("q", lambda number, attempt: number % 7)]).trace()
    drawn = [run(trace, scenario(is_drawn=True, seed=seed)).figures for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("seed", range(5))
def test_more_consumers_never_raise_the_mean_depth(seed: int) -> None:
    chance = random.Random(seed)
    sent = sorted((Sent(chance.randrange(1_000)) for _ in range(150)), key=lambda one: one.at_ms)
    trace = RecordedWorld(sent, [("q", lambda number, attempt: 3 + number % 9)]).trace()
    depths = [figures(trace, consumers=count, prefetch=1).mean_depth() for count in (1, 2, 3, 4, 8)]
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]


def test_a_slow_consumer_holds_less_with_a_prefetch_of_one() -> None:
    trace = RecordedWorld(every(0, 200), [("q", takes(50)), ("q", takes(1))], length_ms=6_000).trace()
    large, small = (figures(trace, prefetch=prefetch) for prefetch in (1_000, 1))
    assert large.acknowledged == small.acknowledged == 200
    assert large.longest_ms >= 5_000
    assert small.longest_ms <= 300


def test_without_redeliveries_all_failing_messages_become_dead_letters() -> None:
    sent = [Sent(number * 5, failures=number % 3) for number in range(60)]
    trace = RecordedWorld(sent, [("q", takes(1))], length_ms=5_000).trace()
    present = figures(trace)
    assert (present.dead, present.acknowledged, present.redelivered) == (0, 60, 60)
    found = figures(trace, address("q", redelivery__maximum_redeliveries=0))
    assert (found.dead, found.acknowledged, found.redelivered) == (40, 20, 0)


def test_a_message_that_was_given_up_fails_with_more_redeliveries_too() -> None:
    delays = {"redelivery__initial_redelivery_delay_ms": 10, "redelivery__redelivery_delay_ms": 10}
    once = address("q", redelivery__maximum_redeliveries=1, **delays)
    twice = address("q", redelivery__maximum_redeliveries=3, **delays)
    trace = RecordedWorld([Sent(0, failures=ALWAYS), *every(10, 50)], [("q", takes(1))], once).trace()
    assert (figures(trace, once).redelivered, figures(trace, once).dead) == (1, 1)
    assert (figures(trace, twice).redelivered, figures(trace, twice).dead) == (3, 1)


def test_a_full_address_blocks_producers() -> None:
    trace = RecordedWorld(every(1, 100), [("q", takes(10))]).trace()
    blocked = figures(trace, address("q", full__max_size_messages=10, full__address_full_policy="BLOCK"))
    assert blocked.deepest <= 11  # a settlement is written at the end of its turn
    assert blocked.blocked_ms > 500
    assert blocked.acknowledged == 100
    dropping = figures(trace, address("q", full__max_size_messages=10, full__address_full_policy="FAIL"))
    assert dropping.refused + dropping.acknowledged == 100
    assert dropping.refused > 50
    discarding = figures(trace, address("q", full__max_size_messages=10, full__address_full_policy="DROP"))
    assert discarding.dropped > 50
    assert discarding.dropped + discarding.acknowledged == 100


def test_a_shorter_expiry_drops_what_waits() -> None:
    trace = RecordedWorld(every(1, 100), [("q", takes(10))]).trace()
    assert figures(trace).expired == 0
    assert figures(trace, address("q", expiry__expiry_delay_ms=200), prefetch=1).expired > 50
