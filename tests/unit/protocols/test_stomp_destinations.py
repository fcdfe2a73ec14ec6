"""Destinations as clients write them."""

from __future__ import annotations

import pytest

from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidDestination, InvalidOption
from protocols.stomp.destinations import split_destination


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("/queue/a.b", QUEUE, "a.b"),
        ("/queue/a/b", QUEUE, "a/b"),
        ("/topic/a", TOPIC, "a"),
        ("queue://a", QUEUE, "a"),
        ("topic://a", TOPIC, "a"),
        ("plain", QUEUE, "plain"),
        ("/amq/queue/a", QUEUE, "a"),
        ("jms.queue.a.b", QUEUE, "a.b"),
        ("jms.topic.a", TOPIC, "a"),
        ("jms.other", QUEUE, "jms.other"),
    ],
)
def test_destinations(text: str, kind: int, name: str) -> None:
    assert split_destination(text) == (kind, name, {})


def test_options_of_a_destination() -> None:
    assert split_destination("/queue/a?consumer.prefetchSize=10") == (QUEUE, "a", {"consumer.prefetchSize": "10"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/temp-queue/a", "does not begin with"),
        ("/", "does not begin with"),
        ("/queues/a", "does not begin with /queue/ or /topic/; a plain name without a slash is a queue"),
        ("/exchange/x/key", "is an exchange of RabbitMQ; allowed are /queue/NAME and /topic/NAME"),
        ("/reply-queue/x", "is a reply queue of RabbitMQ"),
    ],
)
def test_destinations_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidDestination, match=reason):
        split_destination(text)


@pytest.mark.parametrize("query", ["consumer.prefetch=1", "nonsense", "consumer.prefetchSize=1&x=y"])
def test_unknown_options_are_refused_by_name(query: str) -> None:
    with pytest.raises(InvalidOption, match=r"unknown destination option .*; allowed is consumer.prefetchSize"):
        split_destination(f"/queue/a?{query}")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("consumer.prefetchSize=abc", "allowed is a whole number"),
        ("consumer.prefetchSize=-1", "allowed is a whole number"),
        ("consumer.prefetchSize=1&consumer.prefetchSize=2", "is there twice"),
    ],
)
def test_options_are_checked_wherever_a_destination_stands(query: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        split_destination(f"/queue/a?{query}")
