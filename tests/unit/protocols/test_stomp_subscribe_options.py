"""What a SUBSCRIBE may ask for, in every dialect."""

from __future__ import annotations

import pytest

from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidOption
from protocols.stomp.subscribe_options import subscription_options


@pytest.mark.parametrize(
    ("headers", "options", "prefetch"),
    [
        ({}, {}, None),
        ({"activemq.prefetchSize": " 5 "}, {}, 5),
        ({}, {"consumer.prefetchSize": "7"}, 7),
        ({"activemq.prefetchSize": "5"}, {"consumer.prefetchSize": "7"}, 5),
        ({"activemq.prefetchSize": "0"}, {}, 0),
    ],
)
def test_where_the_prefetch_comes_from(headers: dict[str, str], options: dict[str, str], prefetch: int | None) -> None:
    assert subscription_options(headers, options, QUEUE, is_strict=True) == (prefetch, [])


@pytest.mark.parametrize(
    ("headers", "options"),
    [({"activemq.prefetchSize": "-1"}, {}), ({"activemq.prefetchSize": ""}, {}), ({}, {"consumer.prefetchSize": "x"})],
)
def test_a_prefetch_that_makes_no_sense(headers: dict[str, str], options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="allowed is a whole number from 0"):
        subscription_options(headers, options, QUEUE, is_strict=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"selector": "a = 1"},
        {"activemq.subscriptionName": "d"},
        {"durable-subscription-name": "d"},
        {"durable-subscriber-name": "d"},
        {"browser": "true"},
        {"activemq.exclusive": "True"},
        {"activemq.noLocal": "1"},
        {"activemq.retroactive": "true"},
    ],
)
def test_what_is_not_done_yet_is_refused_rather_than_ignored(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="is not supported by this version"):
        subscription_options(headers, {}, QUEUE, is_strict=False)


@pytest.mark.parametrize("name", ["browser", "activemq.exclusive", "activemq.noLocal", "activemq.retroactive"])
def test_the_same_switched_off_is_nothing(name: str) -> None:
    assert subscription_options({name: "false"}, {}, QUEUE, is_strict=True) == (None, [])


def test_hints_without_effect_are_taken() -> None:
    headers = {"activemq.dispatchAsync": "false", "activemq.subcriptionName": "x", "activemq.priority": "3"}
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (None, [])


def test_misspelt_headers_are_warned_about_or_refused() -> None:
    headers = {"activemq.prefetchsize": "1"}
    prefetch, warnings = subscription_options(headers, {}, QUEUE, is_strict=False)
    assert prefetch is None
    assert warnings == ["SUBSCRIBE has an unknown header 'activemq.prefetchsize'; known is activemq.prefetchSize"]
    with pytest.raises(InvalidOption, match=r"unknown header 'activemq\.prefetchsize'"):
        subscription_options(headers, {}, QUEUE, is_strict=True)


@pytest.mark.parametrize(
    ("headers", "prefetch"),
    [
        ({"prefetch-count": "9"}, 9),
        ({"prefetch-count": "9", "activemq.prefetchSize": "3"}, 3),
        ({"prefetch-count": "0"}, 2**31 - 1),
    ],
)
def test_rabbitmq_s_prefetch(headers: dict[str, str], prefetch: int) -> None:
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (prefetch, [])


@pytest.mark.parametrize("headers", [{"durable": "true"}, {"auto-delete": "false"}])
def test_rabbitmq_s_durable_subscription_is_refused_on_topics_only(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="is not supported by this version"):
        subscription_options(headers, {}, TOPIC, is_strict=False)
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (None, [])


@pytest.mark.parametrize("name", ["consumer.prefetchSize", "consumer-window-size"])
def test_a_prefetch_that_would_have_no_effect_is_warned_about(name: str) -> None:
    _, warnings = subscription_options({name: "1"}, {}, QUEUE, is_strict=False)
    assert warnings == [f"SUBSCRIBE has an unknown header {name!r}; known is activemq.prefetchSize"]


def test_a_warning_is_one_short_line_and_there_are_few_of_them() -> None:
    headers = {f"activemq.x\n2026-01-01 forged{number}{'y' * 500}": "1" for number in range(100)}
    _, warnings = subscription_options(headers, {}, QUEUE, is_strict=False)
    assert len(warnings) == 4
    assert warnings[-1] == "SUBSCRIBE has 97 more unknown headers"
    assert all("\n" not in text and len(text) < 200 for text in warnings)
