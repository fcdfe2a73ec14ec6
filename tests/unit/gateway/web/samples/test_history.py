"""The figures of the last hour: their gaps, their rates and their bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.values.broker_stats import DestinationStats
from gateway.web.samples.history import AT_ONCE, DESTINATIONS_MAX, INTERVAL_S, POINTS, History
from gateway.web.samples.rates import RateSampler
from tests.support.engine.snapshots import broker, destination


class Sampled:
    """A history, and the rates that it needs."""

    def __init__(self) -> None:
        self.history = History()
        self._rates = RateSampler()

    def at(self, interval: float, *rows: DestinationStats) -> int:
        """Take a sample at a number of intervals; return how many steps the history took."""
        now_s = interval * INTERVAL_S
        stats = broker(*rows)
        for _ in self._rates.sample(stats.destinations, now_s):
            pass
        return len(list(self.history.sample(stats, self._rates, now_s)))

    def has_points(self, kind: str, name: str) -> bool:
        return any(point is not None for column in self.history.of_destination(kind, name).values() for point in column)


def orders(enqueued: int) -> DestinationStats:
    return destination("orders", enqueued=enqueued)


def test_an_hour_ends_with_the_last_sample_and_has_gaps() -> None:
    sampled = Sampled()
    for interval in (100, 101, 103):
        sampled.at(interval, orders(10 * interval))
    depth = sampled.history.of_gateway()["depth"]
    assert len(depth) == POINTS
    assert depth[-5:] == [None, 996.0, 1006.0, None, 1026.0]
    assert sampled.has_points("queue", "orders")


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    sampled = Sampled()
    for interval in (0, POINTS - 1):
        sampled.at(interval, orders(10))
    assert sampled.history.of_gateway()["depth"][0] == 6.0
    sampled.at(POINTS, orders(10))
    assert sampled.history.of_gateway()["depth"][0] is None
    sampled.at(10 * POINTS, orders(10))
    assert sampled.history.of_gateway()["depth"] == [None] * (POINTS - 1) + [6.0]


@pytest.mark.parametrize("gap", [1, 2, 5, POINTS - 7, POINTS - 1, POINTS, POINTS + 9])
@pytest.mark.parametrize("first", [0, 3, POINTS - 4])
def test_a_gap_is_empty_wherever_it_begins(gap: int, first: int) -> None:
    sampled = Sampled()
    for interval in range(first, first + POINTS):
        sampled.at(interval, orders(10))
    sampled.at(first + POINTS + gap, orders(10))
    missed = min(gap, POINTS - 1)
    expected = [6.0] * (POINTS - 1 - missed) + [None] * missed + [6.0]
    assert sampled.history.of_gateway()["depth"] == expected
    assert sampled.history.of_gateway()["connections"].count(None) == missed


def test_one_point_of_an_interval() -> None:
    sampled = Sampled()
    sampled.at(5, orders(10))
    assert sampled.at(5.5, orders(900)) == 0
    assert sampled.history.of_gateway()["depth"][-1] == 6.0


def test_rates_are_those_since_the_point_before() -> None:
    sampled = Sampled()
    for interval, enqueued in ((0, 1), (0.9, 10), (1, 301), (3, 501), (4, 0)):
        sampled.at(interval, destination("orders", enqueued=enqueued, acknowledged=0), destination("idle"))
    own = sampled.history.of_destination("queue", "orders")
    assert own["enqueued_per_s"][-4:] == [30.0, None, 10.0, 0.0], "below zero is a destination that was made again"
    assert sampled.history.of_gateway()["enqueued_per_s"][-4:] == [30.0, None, 10.0, 0.0]


def test_messages_of_a_destination_that_is_gone_have_counted() -> None:
    sampled = Sampled()
    sampled.at(0, orders(1_000), destination("b", enqueued=100))
    sampled.at(1, destination("b", enqueued=200))
    assert sampled.history.of_gateway()["enqueued_per_s"][-1] == 10.0


def test_idle_destinations_have_no_ring() -> None:
    sampled = Sampled()
    idle = replace(destination("idle", enqueued=0, acknowledged=0), delivered=0, in_flight=0)
    sampled.at(0, idle, orders(10))
    assert not sampled.has_points("queue", "idle")
    assert not sampled.has_points("topic", "orders")
    sampled.at(1, replace(idle, enqueued=1, depth=1))
    assert sampled.has_points("queue", "idle")
    for interval in range(2, POINTS + 2):
        sampled.at(interval, idle)
    assert not sampled.has_points("queue", "orders"), "it is gone, so it makes room"
    assert not sampled.has_points("queue", "idle")


def test_the_number_of_rings_is_bounded_and_the_work_divided() -> None:
    sampled = Sampled()
    rows = [destination(str(number)) for number in range(DESTINATIONS_MAX + 50)]
    assert sampled.at(0, *rows) == -(-len(rows) // AT_ONCE)
    kept = [one for one in rows if sampled.has_points("queue", one.name)]
    assert len(kept) == DESTINATIONS_MAX
