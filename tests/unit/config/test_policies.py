"""The policies: the worked table of docs/reference/semantics.md, "Redelivery", and the ends of every range."""

from __future__ import annotations

import pytest

from config.dead_letter_policy import DeadLetterPolicy
from config.policies import (
    MAXIMUM_PREFETCH,
    AddressSettings,
    ExpiryPolicy,
    PendingLimitPolicy,
    PrefetchPolicy,
    SlowConsumerPolicy,
    clamp_prefetch,
)
from config.redelivery_policy import LONGEST_DELAY_MS, RedeliveryPolicy

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


@pytest.mark.parametrize(("unit", "expected"), [(-1.0, 850), (-0.5, 925), (0.0, 1000), (0.5, 1075), (0.999, 1149)])
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


# HornetQ: min(trunc(delay x multiplier^(count - 1)), max); without a maximum, it is ten times the delay.
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RedeliveryPolicy(6, 5000, 5000, True, 2.0, 15000), [5000, 10000, 15000, 15000]),
        (RedeliveryPolicy(6, 1000, 1000, True, 4.0, maximum_redelivery_delay_factor=10.0), [1000, 4000, 10000, 10000]),
    ],
    ids=["an explicit maximum", "ten times the delay"],
)
def test_hornetqs_delays_are_the_same_policy(policy: RedeliveryPolicy, expected: list[int]) -> None:
    assert [policy.delay_ms(redelivery) for redelivery in range(1, 5)] == expected


def test_an_explicit_maximum_stands_above_the_factor() -> None:
    policy = RedeliveryPolicy(6, 1000, 1000, True, 4.0, 50_000, 10.0)
    assert policy.delay_ms(4) == 50_000


@pytest.mark.parametrize(
    ("is_topic", "is_durable", "is_browser", "expected"),
    [(False, False, False, 1000), (False, False, True, 500), (True, False, False, 32766), (True, True, False, 100)],
)
def test_prefetch_defaults_are_of_the_kind_of_consumer(
    is_topic: bool, is_durable: bool, is_browser: bool, expected: int
) -> None:
    assert PrefetchPolicy().default_for(is_topic, is_durable, is_browser) == expected


def test_non_persistent_messages_have_a_prefetch_of_their_own() -> None:
    policy = PrefetchPolicy(queue_prefetch=5)
    assert policy.non_persistent_queue_prefetch == 1000


@pytest.mark.parametrize(
    ("settings", "is_topic", "subscriber", "expected"),
    [
        (AddressSettings(), False, None, (False, "ActiveMQ.DLQ")),
        (AddressSettings(), True, "c:s", (False, "ActiveMQ.DLQ")),
        (AddressSettings(dead_letter_address=None), False, None, None),
        (AddressSettings(dead_letters=DeadLetterPolicy("discard")), False, None, None),
        (AddressSettings(dead_letters=DeadLetterPolicy("individual")), False, None, (False, "ActiveMQ.DLQ.Queue.a.b")),
        (AddressSettings(dead_letters=DeadLetterPolicy("individual")), True, "c:s", (False, "ActiveMQ.DLQ.Topic.a.b")),
        (
            AddressSettings(
                dead_letters=DeadLetterPolicy("individual", queue_prefix="", queue_suffix=".dead", topic_suffix=".t")
            ),
            False,
            None,
            (False, "a.b.dead"),
        ),
        (
            AddressSettings(
                dead_letters=DeadLetterPolicy(
                    "individual", use_queue_for_topic_messages=False, destination_per_durable_subscriber=True
                )
            ),
            True,
            "c:s",
            (True, "ActiveMQ.DLQ.Topic.a.b.c:s"),
        ),
        (
            AddressSettings(dead_letters=DeadLetterPolicy("individual", use_queue_for_queue_messages=False)),
            False,
            None,
            (True, "ActiveMQ.DLQ.Queue.a.b"),
        ),
    ],
)
def test_where_a_dead_letter_goes(
    settings: AddressSettings, is_topic: bool, subscriber: str | None, expected: tuple[bool, str] | None
) -> None:
    assert settings.dead_letter_destination(is_topic, "a.b", subscriber) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (AddressSettings(), None),
        (AddressSettings(expiry_address="Expired"), (False, "Expired")),
        (AddressSettings(expiry=ExpiryPolicy(strategy="individual")), (False, "EXP.a.b")),
        (AddressSettings(dead_letters=DeadLetterPolicy(process_expired=True)), (False, "ActiveMQ.DLQ")),
        (
            AddressSettings(expiry_address="Expired", dead_letters=DeadLetterPolicy(process_expired=True)),
            (False, "Expired"),
        ),
    ],
)
def test_where_an_expired_message_goes(settings: AddressSettings, expected: tuple[bool, str] | None) -> None:
    assert settings.expiry_destination(False, "a.b", None) == expected


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        (ExpiryPolicy(), 0, 0),
        (ExpiryPolicy(), 1_500, 1_500),
        (ExpiryPolicy(no_expiry=True, expiry_delay_ms=5), 1_500, 0),
        (ExpiryPolicy(expiry_delay_ms=200), 0, 1_200),
        (ExpiryPolicy(expiry_delay_ms=200), 9_000, 9_000),
        (ExpiryPolicy(expiry_delay_ms=200, max_expiry_delay_ms=100), 9_000, 9_000),
        (ExpiryPolicy(max_expiry_delay_ms=100), 0, 1_100),
        (ExpiryPolicy(max_expiry_delay_ms=100), 9_000, 1_100),
        (ExpiryPolicy(max_expiry_delay_ms=100), 1_050, 1_050),
        (ExpiryPolicy(min_expiry_delay_ms=100), 1_050, 1_100),
        (ExpiryPolicy(min_expiry_delay_ms=100), 0, 1_100),
        (ExpiryPolicy(min_expiry_delay_ms=100, max_expiry_delay_ms=300), 0, 1_300),
        (ExpiryPolicy(min_expiry_delay_ms=100, max_expiry_delay_ms=300), 1_200, 1_200),
        (ExpiryPolicy(ttl_ceiling_ms=100), 0, 0),
        (ExpiryPolicy(ttl_ceiling_ms=100), 9_000, 1_100),
        (ExpiryPolicy(ttl_ceiling_ms=100), 1_050, 1_050),
        (ExpiryPolicy(ttl_ceiling_ms=100, expiry_delay_ms=200), 9_000, 1_100),
        (ExpiryPolicy(ttl_ceiling_ms=100, expiry_delay_ms=200), 0, 1_100),
        (ExpiryPolicy(ttl_ceiling_ms=100, expiry_delay_ms=50), 0, 1_050),
    ],
)
def test_when_a_message_expires(policy: ExpiryPolicy, asked: int, expected: int) -> None:
    assert policy.effective_ms(asked, 1_000) == expected
    assert policy.is_unchanged is (policy == ExpiryPolicy())


@pytest.mark.parametrize(
    ("policy", "requested", "expected"),
    [
        (PendingLimitPolicy(), 0, -1),
        (PendingLimitPolicy(), 7, 7),
        (PendingLimitPolicy("constant", 1000), 0, 1000),
        (PendingLimitPolicy("constant", 1000), 7, 7),
        (PendingLimitPolicy("constant", 5), 7, 5),
        (PendingLimitPolicy("constant", 0), 7, 0),
        (PendingLimitPolicy("constant"), 7, 7),
        (PendingLimitPolicy("prefetch-rate"), 0, 50),
        (PendingLimitPolicy("prefetch-rate", multiplier=2.5), -1, 252),
    ],
)
def test_how_many_messages_may_wait_for_a_topic_consumer(
    policy: PendingLimitPolicy, requested: int, expected: int
) -> None:
    assert policy.limit_for(101, requested) == expected


def test_a_slow_consumers_threshold_is_a_rate() -> None:
    assert SlowConsumerPolicy(threshold=120, threshold_unit="MESSAGES_PER_MINUTE").threshold_per_second() == 2.0


@pytest.mark.parametrize(
    ("delay", "multiplier", "maximum", "expected"),
    [
        (5000, 2.0, 15000, [5000, 10000, 15000, 15000]),
        (1500, 1.5, 10000, [1500, 2250, 3375, 5062, 7593, 10000, 10000]),
        (1000, 1.1, -1, [1000, 1100, 1210, 1331, 1464, 1610, 1771]),  # in steps: 1463, 1609
        (3, 1.5, -1, [3, 4, 6, 10, 15, 22, 30]),  # in steps: 3, 4, 6, 9
        (1000, 0.5, -1, [1000, 500, 250, 125, 62]),
    ],
)
def test_a_back_off_from_the_base_rounds_once(delay: int, multiplier: float, maximum: int, expected: list[int]) -> None:
    policy = RedeliveryPolicy(
        initial_redelivery_delay_ms=delay,
        redelivery_delay_ms=delay,
        back_off_multiplier=multiplier,
        maximum_redelivery_delay_ms=maximum,
        maximum_redelivery_delay_factor=10.0,
        back_off_from_base=True,
    )
    assert [policy.delay_ms(redelivery) for redelivery in range(1, len(expected) + 1)] == expected


def test_a_back_off_from_the_base_stays_a_number() -> None:
    policy = RedeliveryPolicy(back_off_multiplier=1000.0, back_off_from_base=True)
    assert policy.delay_ms(1_000_000) == LONGEST_DELAY_MS


@pytest.mark.parametrize(("unit", "expected"), [(1.0, [1000, 2300, 5290]), (0.0, [1000, 2000, 4000])])
def test_jitter_that_compounds_starts_from_the_delay_before(unit: float, expected: list[int]) -> None:
    policy = RedeliveryPolicy(
        use_exponential_back_off=True,
        back_off_multiplier=2.0,
        use_collision_avoidance=True,
        collision_avoidance_spread="compounding",
    )
    assert [policy.drawn_ms(redelivery, lambda: unit) for redelivery in (1, 2, 3)] == expected


def test_jitter_is_fresh_by_default() -> None:
    policy = RedeliveryPolicy(use_exponential_back_off=True, back_off_multiplier=2.0, use_collision_avoidance=True)
    assert [policy.drawn_ms(redelivery, lambda: 1.0) for redelivery in (1, 2, 3)] == [1150, 2300, 4600]


def test_jitter_that_compounds_costs_no_loop_over_all_attempts() -> None:
    policy = RedeliveryPolicy(use_collision_avoidance=True, collision_avoidance_spread="compounding")
    assert policy.drawn_ms(10**9, lambda: 1.0) == 1150
