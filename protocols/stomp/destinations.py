"""Destinations as STOMP clients of all four brokers write them (wire/stomp.md 11 to 13)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidDestination, InvalidOption
from protocols.stomp.header_values import number

PREFETCH_OPTION: Final = "consumer.prefetchSize"
PREFETCH_MOST: Final = 2**31 - 1  # that may be written; the broker takes it down to its own most

_PREFIXES: Final = (
    ("/queue/", QUEUE),
    ("/topic/", TOPIC),
    ("queue://", QUEUE),
    ("topic://", TOPIC),
    ("/amq/queue/", QUEUE),
    ("jms.queue.", QUEUE),
    ("jms.topic.", TOPIC),
)
# What other brokers know there and nobody could mean here.
_ELSEWHERE: Final = (
    ("/exchange/", "is an exchange of RabbitMQ; allowed are /queue/NAME and /topic/NAME"),
    ("/reply-queue/", "is a reply queue of RabbitMQ; answer to the reply-to of the message"),
)


def split_destination(text: str) -> tuple[int, str, dict[str, str]]:
    """Return kind and name of a destination, and the options behind its ``?``.

    Raises: InvalidDestination, InvalidOption.
    """
    name, _, query = text.partition("?")
    options = _parse_options(query) if query else {}
    for prefix, kind in _PREFIXES:
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            return kind, rest, options
    for prefix, reason in _ELSEWHERE:
        if name.startswith(prefix):
            raise InvalidDestination(f"destination {name[:200]!r} {reason}")
    if name.startswith("/"):
        raise InvalidDestination(
            f"destination {name[:200]!r} does not begin with /queue/ or /topic/; "
            "a plain name without a slash is a queue"
        )
    return QUEUE, name, options


def _parse_options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name != PREFETCH_OPTION:
            raise InvalidOption(f"unknown destination option {name[:80]!r}; allowed is {PREFETCH_OPTION}")
        if name in options:
            raise InvalidOption(f"destination option {name} is there twice")
        number(name, value, 0, PREFETCH_MOST)
        options[name] = value
    return options
