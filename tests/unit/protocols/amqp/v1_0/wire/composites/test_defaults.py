"""Options of an AMQP address and defaults of its connection: the same as in every protocol."""

from __future__ import annotations

import pytest

from config.destination_options import parse_destination
from config.model import NO_DEFAULTS
from config.sources.uri import parse_endpoint
from engine.values.options import SubscribeOptions
from protocols.amqp.v1_0.mapping.subscribe_options import subscription
from protocols.amqp.v1_0.wire.composites.termini import Source


def asked(address: str, query: str = "", is_topic: bool = False) -> SubscribeOptions:
    defaults = parse_endpoint(f"tcp://h:1?{query}", ("tcp",)).defaults
    options, _ = subscription("link", Source(address), parse_destination(address).consumer, is_topic, defaults)
    return options


def test_without_either_everything_is_left_to_the_address() -> None:
    options, _ = subscription("link", Source("a"), parse_destination("a").consumer, False, NO_DEFAULTS)
    assert (options.window_bytes, options.rate, dict(options.redelivery)) == (None, None, {})
    assert not options.is_exclusive


def test_the_listeners_uri_is_a_default() -> None:
    options = asked("a", "jms.redeliveryPolicy.maximumRedeliveries=3&consumerWindowSize=7&jms.exclusiveConsumer=true")
    assert dict(options.redelivery) == {"maximum_redeliveries": 3}
    assert (options.window_bytes, options.is_exclusive) == (7, True)


def test_the_addresss_own_options_stand_above_it() -> None:
    address = "a?consumer.maximumRedeliveries=9&consumer.windowSize=5&consumer.exclusive=false&consumer.maxRate=2"
    options = asked(
        address,
        "jms.redeliveryPolicy.maximumRedeliveries=3&jms.redeliveryPolicy.useExponentialBackOff=true"
        "&consumerWindowSize=7&jms.exclusiveConsumer=true",
    )
    assert dict(options.redelivery) == {"maximum_redeliveries": 9, "use_exponential_back_off": True}
    assert (options.window_bytes, options.rate, options.is_exclusive) == (5, 2, False)


@pytest.mark.parametrize(("is_topic", "expected"), [(True, (True, 4)), (False, (False, 0))])
def test_some_are_of_topics_only(is_topic: bool, expected: tuple[bool, int]) -> None:
    options = asked("a", "jms.useRetroactiveConsumer=true&jms.prefetchPolicy.maximumPendingMessageLimit=4", is_topic)
    assert (options.is_retroactive, options.pending_limit) == expected


def test_no_retroactive_consumer_where_its_address_says_so() -> None:
    assert not asked("a?consumer.retroactive=false", "jms.useRetroactiveConsumer=true", is_topic=True).is_retroactive
