"""Rates: messages a second between the last two samples."""

from __future__ import annotations

from gateway.web.samples.rates import Rates
from tests.support.engine.snapshots import broker, destination, rates_after, stat_document


def test_rates_are_per_second_between_the_last_two_samples() -> None:
    sampler = rates_after(
        (10.0, broker(destination("a", enqueued=0, acknowledged=0))),
        (11.0, broker(destination("a", enqueued=1000, acknowledged=10))),
        (13.0, broker(destination("a", enqueued=1500, acknowledged=10), destination("b", enqueued=8, acknowledged=2))),
    )
    assert sampler.rates_of("queue", "a") == Rates(250.0, 0.0, 0.0)
    assert sampler.rates_of("queue", "b") == Rates(4.0, 2.0, 1.0)
    assert sampler.rates_of("topic", "a") is None


def test_one_sample_gives_no_rate() -> None:
    sampler = rates_after((10.0, broker(destination("a"))))
    assert sampler.rates_of("queue", "a") is None
    document = stat_document(broker(destination("a")), sampler)
    assert document["destinations"][0]["rates"] is None


def test_two_samples_at_the_same_moment_are_no_division_by_zero() -> None:
    sampler = rates_after((10.0, broker(destination("a"))), (10.0, broker(destination("a"))))
    assert sampler.rates_of("queue", "a") is None


def test_a_counter_that_began_anew_gives_no_negative_rate() -> None:
    sampler = rates_after((0.0, broker(destination("a", enqueued=100))), (1.0, broker(destination("a", enqueued=4))))
    rates = sampler.rates_of("queue", "a")
    assert rates is not None
    assert rates.enqueued == 0.0


def test_the_document_is_json() -> None:
    sampler = rates_after((0.0, broker(destination("a"))), (1.0, broker(destination("a"))))
    document = stat_document(broker(destination("a")), sampler)
    assert document["destinations"][0]["rates"] == {"enqueued": 0.0, "delivered": 0.0, "acknowledged": 0.0}
