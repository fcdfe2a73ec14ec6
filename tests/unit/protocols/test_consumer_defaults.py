"""What a connection's defaults mean for one of its subscriptions."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.consumers.consumer import AUTO
from engine.values.options import SubscribeOptions
from protocols.consumer_defaults import redelivery_in, with_defaults

PREFETCH = {
    "prefetch.queue_prefetch": 1,
    "prefetch.topic_prefetch": 2,
    "prefetch.durable_topic_prefetch": 3,
    "prefetch.queue_browser_prefetch": 4,
}


def defaults(values: dict[str, object], limit: int = 0) -> ConnectionDefaults:
    return ConnectionDefaults(MappingProxyType(values), maximum_pending_message_limit=limit)


def test_a_connection_that_says_nothing_changes_nothing() -> None:
    options = SubscribeOptions(AUTO, name="s")
    assert with_defaults(options, NO_DEFAULTS, is_topic=True) is options


@pytest.mark.parametrize(
    ("options", "is_topic", "prefetch"),
    [
        (SubscribeOptions(AUTO), False, 1),
        (SubscribeOptions(AUTO), True, 2),
        (SubscribeOptions(AUTO, subscription="n", is_durable=True), True, 3),
        (SubscribeOptions(AUTO, is_browser=True), False, 4),
        (SubscribeOptions(AUTO, prefetch=9), False, 9),
        (SubscribeOptions(AUTO, prefetch=0), True, 0),
    ],
)
def test_prefetch_by_the_kind_of_subscription(options: SubscribeOptions, is_topic: bool, prefetch: int) -> None:
    assert with_defaults(options, defaults(dict(PREFETCH)), is_topic).prefetch == prefetch


def test_what_the_subscription_says_stands_above() -> None:
    values: dict[str, object] = {
        "redelivery.maximum_redeliveries": 1,
        "redelivery.redelivery_delay_ms": 2,
        "flow.consumer_window_size_bytes": 3,
        "flow.consumer_max_rate_per_second": 4,
    }
    open_ones = with_defaults(SubscribeOptions(AUTO), defaults(values), is_topic=False)
    assert (open_ones.window_bytes, open_ones.rate) == (3, 4)
    assert open_ones.redelivery == {"maximum_redeliveries": 1, "redelivery_delay_ms": 2}
    own = SubscribeOptions(AUTO, window_bytes=-1, rate=7, redelivery={"maximum_redeliveries": 8})
    mixed = with_defaults(own, defaults(values), is_topic=False)
    assert (mixed.window_bytes, mixed.rate) == (-1, 7)
    assert mixed.redelivery == {"maximum_redeliveries": 8, "redelivery_delay_ms": 2}


@pytest.mark.parametrize(("is_topic", "own", "limit"), [(True, 0, 5), (True, 2, 2), (False, 0, 0)])
def test_the_pending_limit_is_of_topics(is_topic: bool, own: int, limit: int) -> None:
    options = SubscribeOptions(AUTO, pending_limit=own)
    assert with_defaults(options, defaults({}, 5), is_topic).pending_limit == limit


def test_redelivery_among_other_settings() -> None:
    assert redelivery_in({"redelivery.delays_rollback": True, "prefetch.queue_prefetch": 1}) == {
        "delays_rollback": True
    }
