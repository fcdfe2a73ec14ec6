"""When a delivery was handed over, from a sample a second."""

from __future__ import annotations

from engine.values.hand_over_times import INTERVAL_MS, SAMPLES_MAX, HandOvers
from tests.support.engine.engine_world import EngineWorld


def test_a_tag_was_handed_over_at_or_after_the_sample_before_it() -> None:
    times = HandOvers()
    times.sample(1, 1_000)
    times.sample(5, 3_000)
    assert [times.since_ms(tag) for tag in (1, 4, 5, 900)] == [1_000, 1_000, 3_000, 3_000]


def test_a_quiet_second_moves_the_sample_instead_of_adding_one() -> None:
    times = HandOvers()
    times.sample(1, 1_000)
    times.sample(1, 2_000)
    assert list(times.samples) == [(1, 2_000)]
    assert times.since_ms(1) == 2_000


def test_what_is_older_than_the_samples_is_not_known() -> None:
    times = HandOvers()
    for number in range(1, SAMPLES_MAX + 10):
        times.sample(number, number * INTERVAL_MS)
    assert len(times.samples) == SAMPLES_MAX
    assert times.since_ms(1) == 0


def test_the_broker_samples_as_time_passes() -> None:
    world = EngineWorld()
    client = world.client()
    world.consumer(client)
    world.advance(INTERVAL_MS)
    first_ms = world.clock.wall_ms()
    world.broker.begin_turn()
    world.send(b"1")
    world.advance(3 * INTERVAL_MS)
    world.broker.begin_turn()
    world.send(b"2")
    early, late = client.take()
    assert world.handed_over_ms(early) == first_ms
    assert world.handed_over_ms(late) == first_ms + 3 * INTERVAL_MS
