"""What a CONNECT may set for the subscriptions of its connection."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from config.model import NO_DEFAULTS, ConnectionDefaults
from engine.values.errors import InvalidOption
from protocols.stomp.mapping.connect_options import WARNINGS_MOST, connection_defaults

LISTENER = ConnectionDefaults(
    MappingProxyType({"prefetch.queue_prefetch": 7, "prefetch.topic_prefetch": 9}), client_id="of the listener"
)


def test_what_says_nothing_leaves_the_listener_s_defaults() -> None:
    headers = {"accept-version": "1.2", "host": "h", "login": "l", "activemq.failoverReconnect": "true"}
    assert connection_defaults(headers, LISTENER, is_strict=True) == (LISTENER, [])


def test_the_connection_stands_above_the_listener() -> None:
    headers = {
        "activemq.prefetchPolicy.queuePrefetch": "1",
        "activemq.redeliveryPolicy.maximumRedeliveries": "3",
        "activemq.redeliveryPolicy.initialRedeliveryDelay": "250",
        "activemq.useRetroactiveConsumer": "true",
    }
    defaults, warnings = connection_defaults(headers, LISTENER, is_strict=True)
    assert warnings == []
    assert defaults.values == {
        "prefetch.queue_prefetch": 1,
        "prefetch.non_persistent_queue_prefetch": 1,
        "prefetch.topic_prefetch": 9,
        "redelivery.maximum_redeliveries": 3,
        "redelivery.initial_redelivery_delay_ms": 250,
        "redelivery.delays_rollback": True,
    }
    assert (defaults.is_retroactive, defaults.is_exclusive, defaults.client_id) == (True, False, "of the listener")
    assert defaults.sources["prefetch.queue_prefetch"] == "header activemq.prefetchPolicy.queuePrefetch of CONNECT"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"activemq.prefetchPolicy.queuePrefetch": "-1"}, r"activemq\.prefetchPolicy\.queuePrefetch: '-1'"),
        ({"activemq.userName": "me"}, "activemq.userName has no effect; use the header login"),
        ({"activemq.clientID": "me"}, "use the header client-id"),
    ],
)
def test_what_makes_no_sense(headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        connection_defaults(headers, NO_DEFAULTS, is_strict=False)


@pytest.mark.parametrize(
    "header",
    [
        "activemq.prefetchPolicy.queueprefetch",
        "ActiveMQ.prefetchPolicy.queuePrefetch",
        "ACTIVEMQ.prefetchPolicy.queuePrefetch",
    ],
)
def test_misspelt_headers_are_warned_about_or_refused(header: str) -> None:
    headers = {header: "1"}
    defaults, warnings = connection_defaults(headers, NO_DEFAULTS, is_strict=False)
    assert defaults is NO_DEFAULTS
    (warning,) = warnings
    assert "did you mean 'activemq.prefetchPolicy.queuePrefetch'" in warning
    with pytest.raises(InvalidOption, match="did you mean"):
        connection_defaults(headers, NO_DEFAULTS, is_strict=True)


def test_there_are_few_warnings() -> None:
    headers = {f"activemq.x\n{number}": "1" for number in range(90)}
    _, warnings = connection_defaults(headers, NO_DEFAULTS, is_strict=False)
    assert len(warnings) == WARNINGS_MOST
    assert all("\n" not in text for text in warnings)
