"""Explain: each effective value, where it stands, and what it overrode."""

from __future__ import annotations

import pytest

from config.address_schema import ADDRESS
from config.destination_options import parse_destination
from config.loader import merged
from config.matching import QUEUE, TOPIC, AddressMatcher
from config.model import ServerConfig
from config.reports.explain import Explained, Explanation, Layer, explain, prefetch_values
from config.schema import leaves
from config.sources.detect import read

CONFIG = merged(
    [
        read(
            "base.yaml",
            b"listeners: {stomp: 'tcp://127.0.0.1:0?jms.prefetchPolicy.queuePrefetch=7'}\n"
            b"addresses:\n- match: '>'\n  nack: requeue\n  redelivery: {maximum-redeliveries: 2}\n",
        ),
        read("site.yaml", b"addresses:\n- match: a.b\n  nack: dead-letter\n"),
    ]
)


def value(found: Explanation, key: str) -> Explained:
    return next(each for each in found.values if each.key == key)


def test_nothing_set_is_the_default() -> None:
    found = explain(ServerConfig(), QUEUE, "a")
    assert [each.key for each in found.values] == list(leaves(ADDRESS))
    assert all(each.source == "default" and each.overrode == () for each in found.values)
    assert found.permissions == {}


def test_a_value_names_its_line_and_what_it_overrode() -> None:
    assert value(explain(CONFIG, QUEUE, "a.b"), "nack") == Explained(
        "nack", "dead-letter", "site.yaml:3", (("requeue", "base.yaml:4"), ("redeliver", "default"))
    )


def test_the_listener_stands_above_addresses_and_the_destination_above_it() -> None:
    listener = ("stomp", CONFIG.listeners.stomp.defaults)
    options = parse_destination("a.b?consumer.prefetchSize=3&consumer.maximumRedeliveries=9")
    found = explain(CONFIG, QUEUE, "a.b", listener, options)
    assert value(found, "prefetch.queue-prefetch") == Explained(
        "prefetch.queue-prefetch",
        "3",
        "the destination's own options",
        (("7", "jms.prefetchPolicy.queuePrefetch of listeners.stomp, base.yaml:1"), ("1000", "default")),
    )
    assert value(found, "redelivery.maximum-redeliveries").overrode[0] == ("2", "base.yaml:5")
    assert value(found, "prefetch.topic-prefetch").source == "default"


@pytest.mark.parametrize(
    ("kind", "query", "key"),
    [
        (TOPIC, "consumer.prefetchSize=3", "prefetch.topic-prefetch"),
        (TOPIC, "consumer.prefetchSize=3&consumer.subscriptionName=s", "prefetch.durable-topic-prefetch"),
        (QUEUE, "consumer.prefetchSize=3&consumer.browser=true", "prefetch.queue-browser-prefetch"),
    ],
)
def test_a_prefetch_is_that_of_its_kind_of_consumer(kind: int, query: str, key: str) -> None:
    found = explain(ServerConfig(), kind, "a", None, parse_destination(f"a?{query}"))
    assert [each.key for each in found.values if each.source != "default"] == [key]


def test_a_running_consumer_stands_above_all() -> None:
    found = explain(
        CONFIG, QUEUE, "a.b", above=[Layer(prefetch_values(QUEUE, 40_000, False, False, "the consumer itself"))]
    )
    assert value(found, "prefetch.queue-prefetch").value == "32766"
    assert value(found, "prefetch.queue-prefetch").source == "the consumer itself"


def test_a_rollback_that_waits_says_why() -> None:
    config = merged([read("p.yaml", b"addresses:\n- match: a\n  redelivery: {redelivery-delay-ms: 5s}\n")])
    found = value(explain(config, QUEUE, "a"), "redelivery.delays-rollback")
    assert (found.value, found.source) == ("true", "follows from a delay, p.yaml:3")
    assert AddressMatcher(config.addresses).settings_for(QUEUE, "a").redelivery.delays_rollback


def test_entries_of_a_group_that_give_way_are_named() -> None:
    config = merged([read("p.yaml", b"addresses:\n- {match: '>', group: g, nack: requeue}\n- {match: a, group: g}\n")])
    found = explain(config, QUEUE, "a")
    assert value(found, "nack").source == "default"
    assert found.left_out == ("> at p.yaml:2: another entry of its group is more specific, and only one applies",)


def test_permissions_are_told() -> None:
    config = merged([read("p.yaml", b"permissions: [{match: a, read: [x, y]}]")])
    found = explain(config, QUEUE, "a")
    assert found.permissions["read"] == found.permissions["browse"] == ("x", "y")
    assert found.permissions["write"] == ()


def test_what_is_explained_is_what_applies() -> None:
    settings = AddressMatcher(CONFIG.addresses).settings_for(QUEUE, "a.b")
    assert value(explain(CONFIG, QUEUE, "a.b"), "redelivery.maximum-redeliveries").value == str(
        settings.redelivery.maximum_redeliveries
    )
