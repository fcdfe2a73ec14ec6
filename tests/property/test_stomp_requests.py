"""What a client may ask for: whatever stands in its headers, it is understood or refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import hypothesis.strategies as st
from hypothesis import given

from config.destination_options import CONSUMER
from config.model import NO_DEFAULTS
from engine.consumers.consumer import CLIENT
from engine.values.errors import EngineError
from protocols.stomp.mapping.connect_options import connection_defaults
from protocols.stomp.mapping.destination_header import address_in
from protocols.stomp.mapping.nack_options import refusal_in
from protocols.stomp.mapping.subscribe_options import DURABLE_NAMES, SHARED_NAMES, Asked, subscribe_options

T = TypeVar("T")

VALUES = st.one_of(
    st.sampled_from(["", "0", "1", "-1", "true", "False", "yes", "10 ", "1e9", "2147483648", "ANYCAST", "a = 1"]),
    st.text(max_size=12),
)
SUBSCRIBE_NAMES = st.one_of(
    st.sampled_from([f"activemq.{name}" for name in CONSUMER]),
    st.sampled_from([*DURABLE_NAMES, *SHARED_NAMES, "selector", "browser", "durable", "auto-delete", "persistent"]),
    st.sampled_from(["no-local", "prefetch-count", "consumer-window-size", "x-priority", "x-message-ttl", "exclusive"]),
    st.text(max_size=8).map("activemq.".__add__),
)
DESTINATIONS = st.one_of(
    st.lists(
        st.sampled_from(
            [
                "/queue/a",
                "/topic/b",
                "/temp-queue/c",
                "/remote-temp-topic/d",
                "jms.queue.e",
                "f",
                "/exchange/g",
                "/h",
                "",
            ]
        ),
        min_size=1,
        max_size=4,
    ).map(",".join),
    st.text(max_size=20),
)
QUERIES = st.one_of(
    st.just(""),
    st.dictionaries(st.sampled_from([f"consumer.{name}" for name in CONSUMER]), VALUES, max_size=3).map(
        lambda options: "?" + "&".join(f"{name}={value}" for name, value in options.items())
    ),
)


def understood(ask: Callable[[], T]) -> T | None:
    """Return what was asked for, None if it was refused; anything but a refusal in words is raised."""
    try:
        return ask()
    except EngineError as error:
        refusal = str(error)
    assert refusal
    return None


@given(headers=st.dictionaries(SUBSCRIBE_NAMES, VALUES, max_size=6), text=DESTINATIONS, query=QUERIES)
def test_a_subscribe_is_understood_or_refused(headers: dict[str, str], text: str, query: str) -> None:
    def ask() -> Asked:
        address = address_in(text + query, headers.get("subscription-type"))
        return subscribe_options(headers, address.options, CLIENT, "s", address.is_topic(), NO_DEFAULTS, False)

    asked = understood(ask)
    if asked is not None:
        assert len(asked.warnings) <= 4
        assert all("\n" not in warning for warning in asked.warnings)
        assert asked.options.subscription or not (asked.options.is_durable or asked.options.is_shared)


@given(text=st.one_of(DESTINATIONS, st.text()), routing_type=st.one_of(st.none(), VALUES))
def test_a_destination_is_understood_or_refused(text: str, routing_type: str | None) -> None:
    address = understood(lambda: address_in(text, routing_type))
    assert address is None or address.parts


@given(headers=st.dictionaries(st.text(max_size=20).map("activemq.".__add__), VALUES, max_size=5))
def test_a_connect_is_understood_or_refused(headers: dict[str, str]) -> None:
    understood(lambda: connection_defaults(headers, NO_DEFAULTS, False))


@given(headers=st.dictionaries(st.sampled_from(["requeue", "delay", "reason"]), VALUES))
def test_a_nack_is_understood_or_refused(headers: dict[str, str]) -> None:
    refusal = understood(lambda: refusal_in(headers))
    assert refusal is None or refusal.delay_ms is None or refusal.delay_ms >= 0
