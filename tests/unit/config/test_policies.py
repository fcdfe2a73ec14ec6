"""RedeliveryPolicy and PrefetchPolicy: the worked table of semantics.md, section 2.5, and the ends of every range."""

from __future__ import annotations

import pytest

from config.policies import LONGEST_DELAY_MS, MAXIMUM_PREFETCH, RedeliveryPolicy, clamp_prefetch

# initial, redeliveryDelay, back-off, multiplier, maximum delay -> the 1st to the 7th redelivery.
WORKED_TABLE = [
    (1000, 1000, False, 5.0, -1, [1000, 1000, 1000, 1000, 1000, 1000, 1000]),
    (1000, 1000, True, 5.0, -1, [1000, 5000, 25000, 125000, 625000, 3125000, 15625000]),
    (500, 1000, True, 2.0, 5000, [500, 1000, 2000, 4000, 5000, 5000, 5000]),
    (0, 1000, True, 2.0, -1, [0, 1000, 2000, 4000, 8000, 16000, 32000]),
    (100, 2000, True, 1.0, -1, [100, 2000, 2000, 2000, 2000, 2000, 2000]),
    (200, 1000, True, 3.0, 500, [200, 1000, 1000, 1000, 1000, 1000, 1000]),
    (60000, 1000, False, 5.0, 5000, [60000, 1000, 1000, 1000, 1000, 1000, 1000]),
    (1500, 1000, True, 1.5, 10000, [1500, 2250, 3375, 5062, 7593, 10000, 10000]),
]


@pytest.mark.parametrize(("initial", "delay", "back_off", "multiplier", "maximum", "expected"), WORKED_TABLE)
def test_worked_table(
    initial: int, delay: int, back_off: bool, multiplier: float, maximum: int, expected: list[int]
) -> None:
    policy = RedeliveryPolicy(
        initial_redelivery_delay_ms=initial,
        redelivery_delay_ms=delay,
        use_exponential_back_off=back_off,
        back_off_multiplier=multiplier,
        maximum_redelivery_delay_ms=maximum,
    )
    assert [policy.delay_ms(redelivery) for redelivery in range(1, 8)] == expected


@pytest.mark.parametrize(("initial", "delay", "back_off", "multiplier", "maximum", "expected"), WORKED_TABLE)
def test_each_delay_follows_from_the_one_before(
    initial: int, delay: int, back_off: bool, multiplier: float, maximum: int, expected: list[int]
) -> None:
    policy = RedeliveryPolicy(6, initial, delay, back_off, multiplier, maximum)
    assert [policy.next_delay_ms(previous) for previous in expected[:-1]] == expected[1:]


def test_defaults_are_activemqs() -> None:
    policy = RedeliveryPolicy()
    assert (policy.maximum_redeliveries, policy.delay_ms(1), policy.delay_ms(6)) == (6, 1000, 1000)
    assert (policy.back_off_multiplier, policy.collision_avoidance_percent) == (5.0, 15)


def test_a_back_off_without_limit_stops_growing_where_a_clock_would_overflow() -> None:
    policy = RedeliveryPolicy(use_exponential_back_off=True, back_off_multiplier=1000.0)
    assert policy.delay_ms(1_000_000_000) == LONGEST_DELAY_MS
    assert policy.delay_ms(3) == 1_000_000_000


def test_a_huge_count_costs_no_loop_where_the_delay_is_constant() -> None:
    assert RedeliveryPolicy().delay_ms(10**12) == 1000


def test_redeliveries_are_counted_from_one() -> None:
    with pytest.raises(AssertionError, match="not counted from 1"):
        RedeliveryPolicy().delay_ms(0)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [(-1.0, 850), (-0.5, 925), (0.0, 1000), (0.5, 1075), (0.999, 1149)],
)
def test_jitter_spreads_both_ways(unit: float, expected: int) -> None:
    assert RedeliveryPolicy(use_collision_avoidance=True).jittered_ms(1000, unit) == expected


def test_no_jitter_unless_asked_for() -> None:
    assert RedeliveryPolicy().jittered_ms(1000, -1.0) == 1000


def test_jitter_never_makes_a_delay_negative() -> None:
    policy = RedeliveryPolicy(use_collision_avoidance=True, collision_avoidance_percent=100)
    assert policy.jittered_ms(1000, -1.0) == 0


@pytest.mark.parametrize(
    ("maximum", "failed_attempts", "exhausted"),
    [(6, 6, False), (6, 7, True), (0, 0, False), (0, 1, True), (-1, 0, False), (-1, 10**9, False)],
)
def test_a_message_is_delivered_once_and_maximum_redeliveries_times(
    maximum: int, failed_attempts: int, exhausted: bool
) -> None:
    assert RedeliveryPolicy(maximum_redeliveries=maximum).is_exhausted(failed_attempts) is exhausted


@pytest.mark.parametrize(
    ("requested", "granted"), [(0, 0), (1, 1), (32_766, 32_766), (32_767, MAXIMUM_PREFETCH), (10**9, 32_766)]
)
def test_prefetch_is_clamped(requested: int, granted: int) -> None:
    assert clamp_prefetch(requested) == granted
