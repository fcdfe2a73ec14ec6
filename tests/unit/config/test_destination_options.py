"""Options of destinations and of SUBSCRIBE headers."""

from __future__ import annotations

import dataclasses
import operator

import pytest

from config.destination_options import (
    CONSUMER,
    NO_CONSUMER_OPTIONS,
    OPTIONS_MAX,
    ConsumerOptions,
    DestinationUri,
    consumer_options,
    parse_destination,
)
from config.options import Option, OptionError
from config.policies import AddressSettings


@pytest.mark.parametrize("name", ["TEST.QUEUE", "/queue/a", "a,topic://b", ""])
def test_a_destination_without_options_is_its_name(name: str) -> None:
    assert parse_destination(name) == DestinationUri(name)
    assert parse_destination(name + "?") == DestinationUri(name)


def test_the_example_of_the_manual() -> None:
    parsed = parse_destination("TEST.QUEUE?consumer.prefetchSize=10&consumer.exclusive=true")
    assert parsed.name == "TEST.QUEUE"
    assert parsed.consumer == ConsumerOptions(prefetch=10, is_exclusive=True)
    assert parsed.producer_notes == ()


def test_an_explicit_thousand_is_explicit() -> None:
    assert parse_destination("a?consumer.prefetchSize=1000").consumer.prefetch == 1000
    assert parse_destination("a?consumer.priority=0").consumer.prefetch is None


def test_what_is_not_said_is_left_to_others() -> None:
    assert ConsumerOptions() == NO_CONSUMER_OPTIONS
    assert (NO_CONSUMER_OPTIONS.prefetch, NO_CONSUMER_OPTIONS.is_exclusive, NO_CONSUMER_OPTIONS.priority) == (
        None,
        None,
        None,
    )


def test_values_are_percent_decoded() -> None:
    parsed = parse_destination("a?consumer.selector=colour%20%3D+%27red%26blue%27")
    assert parsed.consumer.selector == "colour = 'red&blue'"


def test_a_selector_may_hold_equals_signs() -> None:
    assert parse_destination("a?consumer.selector=b=c").consumer.selector == "b=c"


def test_redelivery_options_are_settings() -> None:
    parsed = parse_destination("a?consumer.maximumRedeliveries=3&consumer.redeliveryPolicy.redeliveryDelay=50")
    assert parsed.consumer.settings == {
        "redelivery.maximum_redeliveries": 3,
        "redelivery.redelivery_delay_ms": 50,
        "redelivery.delays_rollback": True,
    }


def test_no_delay_no_waiting_rollback() -> None:
    options = consumer_options([("maximumRedeliveries", "3")])
    assert options.settings == {"redelivery.maximum_redeliveries": 3}


def test_the_two_spellings_of_the_jitter() -> None:
    factor = consumer_options([("collisionAvoidanceFactor", "0.15")])
    percent = consumer_options([("collisionAvoidancePercent", "15")])
    assert factor == percent
    assert factor.settings == {"redelivery.collision_avoidance_percent": 15.0}


def test_a_known_option_without_an_effect_is_noted() -> None:
    options = consumer_options([("dispatchAsync", "false")], "activemq.")
    assert options.notes == ("activemq.dispatchAsync has no effect: always the case here",)


def test_producer_options_have_no_effect_and_are_noted() -> None:
    parsed = parse_destination("a?producer.windowSize=1024&producer.dispatchAsync=true")
    assert parsed.producer_notes == (
        "producer.windowSize has no effect: a producer's window follows the address: producer-window-size",
        "producer.dispatchAsync has no effect: always the case here",
    )
    assert parsed.consumer == NO_CONSUMER_OPTIONS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a?consumer.prefetchsize=1", r"consumer\.prefetchsize: unknown .*did you mean 'consumer.prefetchSize'"),
        ("a?prefetchSize=1", r"prefetchSize: unknown option \(did you mean 'consumer.prefetchSize'\?\); known are"),
        ("a?producer.prefetchSize=1", r"producer\.prefetchSize: unknown option"),
        ("a?consumer.redeliveryPolicy.prefetchSize=1", r"consumer\.redeliveryPolicy\.prefetchSize: unknown option"),
        ("a?consumer.prefetchSize=many", r"consumer\.prefetchSize: 'many', allowed is an integer from 0 to"),
        ("a?consumer.prefetchSize=-1", r"consumer\.prefetchSize: '-1', allowed is an integer from 0"),
        ("a?consumer.priority=128", "allowed is an integer from -128 to 127"),
        ("a?consumer.exclusive", r"'consumer\.exclusive': allowed are at most 100 options as in"),
        ("a?consumer.priority=1&consumer.priority=2", r"consumer\.priority: appears twice"),
        ("a?" + "&".join(f"consumer.x{at}=1" for at in range(OPTIONS_MAX + 1)), "allowed are at most 100 options"),
    ],
)
def test_what_cannot_be_taken_is_an_error(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_destination(text)


@pytest.mark.parametrize("option", [option for option in CONSUMER.values() if option.status == "honoured"])
def test_every_consumer_option_sets_something_that_is_there(option: Option) -> None:
    options = consumer_options([(option.name, option.example)])
    assert options != NO_CONSUMER_OPTIONS
    for path in options.settings:
        operator.attrgetter(path)(AddressSettings())


def test_settings_are_frozen() -> None:
    options = consumer_options([("maxRate", "5")])
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.priority = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        options.settings["x"] = 1  # type: ignore[index]
