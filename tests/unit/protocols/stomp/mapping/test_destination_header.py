"""Destinations as clients write them."""

from __future__ import annotations

import pytest

from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from engine.values.errors import InvalidDestination, InvalidOption
from protocols.stomp.mapping.destination_header import PARTS_MOST, Named, address_in


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
        ("/remote-temp-queue/ID:x", TEMP_QUEUE, "ID:x"),
        ("/remote-temp-topic/ID:x", TEMP_TOPIC, "ID:x"),
    ],
)
def test_what_is_named(text: str, kind: int, name: str) -> None:
    address = address_in(text)
    assert address.parts == (Named(kind, name),)
    assert (address.text, address.is_topic()) == (text, kind in (TOPIC, TEMP_TOPIC))


def test_a_temporary_destination_by_the_name_that_its_connection_gave_it() -> None:
    assert address_in("/temp-queue/a").parts == (Named(TEMP_QUEUE, "a", is_alias=True),)
    assert address_in("/temp-topic/a,/queue/b").parts == (Named(TEMP_TOPIC, "a", is_alias=True), Named(QUEUE, "b"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/queue/a,/topic/b,queue://c", [(QUEUE, "a"), (TOPIC, "b"), (QUEUE, "c")]),
        ("/topic/a,b", [(TOPIC, "a"), (TOPIC, "b")]),
        ("a,b,/topic/c,d", [(QUEUE, "a"), (QUEUE, "b"), (TOPIC, "c"), (QUEUE, "d")]),
    ],
)
def test_composite_destinations(text: str, parts: list[tuple[int, str]]) -> None:
    address = address_in(text + "?consumer.prefetchSize=1")
    assert address.parts == tuple(Named(kind, name) for kind, name in parts)
    assert (address.text, address.options.prefetch) == (text, 1)


def test_composite_destinations_have_a_limit() -> None:
    assert len(address_in(",".join(["a"] * PARTS_MOST)).parts) == PARTS_MOST
    with pytest.raises(InvalidDestination, match=f"the limit is {PARTS_MOST}"):
        address_in(",".join(["a"] * (PARTS_MOST + 1)))


@pytest.mark.parametrize(
    ("text", "routing_type", "kind"),
    [("a", "MULTICAST", TOPIC), ("a", " anycast ", QUEUE), ("/topic/a", "MULTICAST", TOPIC), ("a", None, QUEUE)],
)
def test_artemis_routing_types(text: str, routing_type: str | None, kind: int) -> None:
    assert address_in(text, routing_type).parts == (Named(kind, "a"),)


def test_a_routing_type_that_makes_no_sense() -> None:
    with pytest.raises(InvalidOption, match="routing type is 'BROADCAST'; allowed are ANYCAST and MULTICAST"):
        address_in("a", "BROADCAST")
    with pytest.raises(InvalidDestination, match="'/queue/a' contradicts the routing type MULTICAST"):
        address_in("/queue/a", "MULTICAST")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/", "does not begin with"),
        ("/queues/a", "does not begin with /queue/, /topic/, .*; a plain name without a slash is a queue"),
        ("/exchange/x/key", "is an exchange of RabbitMQ; allowed are /queue/NAME and /topic/NAME"),
        ("/reply-queue/x", "is a reply queue of RabbitMQ"),
        ("/queue/a,/nowhere/b", "'/nowhere/b' does not begin with"),
    ],
)
def test_destinations_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidDestination, match=reason):
        address_in(text)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("consumer.prefetch=1", "did you mean 'consumer.prefetchSize'"),
        ("nonsense=1", "nonsense: unknown option"),
        ("consumer.prefetchSize=abc", "consumer.prefetchSize: 'abc'"),
        ("consumer.prefetchSize=-1", "consumer.prefetchSize: '-1'"),
        ("consumer.prefetchSize=1&consumer.prefetchSize=2", "appears twice"),
    ],
)
def test_options_are_checked_wherever_a_destination_stands(query: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        address_in(f"/queue/a?{query}")
