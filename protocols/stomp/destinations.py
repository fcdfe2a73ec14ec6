"""Destinations as STOMP clients of all four brokers write them (wire/stomp.md 11 to 13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.destination_options import ConsumerOptions, parse_destination
from config.options import OptionError
from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidDestination, InvalidOption

PARTS_MOST: Final = 100  # of a composite destination

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
_ROUTING_TYPES: Final = {"ANYCAST": QUEUE, "MULTICAST": TOPIC}  # Artemis


@dataclass(frozen=True, slots=True)
class Named:
    """One destination: its kind, and its name without a prefix."""

    kind: int
    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """What a header ``destination`` says.

    text: as written, without options.  parts: one, or those of a composite destination.  options: those behind ``?``.
    """

    text: str
    parts: tuple[Named, ...]
    options: ConsumerOptions

    def is_topic(self) -> bool:
        """Say whether it is topics alone."""
        return all(part.kind == TOPIC for part in self.parts)


def address_in(text: str, routing_type: str | None = None) -> Address:
    """Return what ``text`` names.

    routing_type: Artemis' destination-type or subscription-type, which says what a name without a prefix is.
    Raises: InvalidDestination, InvalidOption.
    """
    try:
        uri = parse_destination(text)
    except OptionError as error:
        raise InvalidOption(f"destination option {error}") from None
    written = uri.name.split(",")
    if len(written) > PARTS_MOST:
        raise InvalidDestination(f"{len(written)} destinations are named at once, the limit is {PARTS_MOST}")
    asked = _routing_kind(routing_type)
    default = asked
    parts: list[Named] = []
    for one in written:
        part = _named(one, default or QUEUE)
        if asked and part.kind != asked:
            raise InvalidDestination(f"destination {one[:200]!r} is not what the routing type says: {routing_type}")
        default = default or part.kind  # ``/topic/a,b`` are two topics
        parts.append(part)
    return Address(uri.name, tuple(parts), uri.consumer)


def single_part(address: Address) -> Named:
    """Raises: InvalidDestination for several destinations, which the engine does not take at once yet."""
    if len(address.parts) > 1:
        raise InvalidDestination(f"{address.text[:200]!r} names no single destination, which is what is allowed here")
    return address.parts[0]


def _named(text: str, default: int) -> Named:
    """default: kind of a name without a prefix."""
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            return Named(kind, text.removeprefix(prefix))
    for prefix, reason in _ELSEWHERE:
        if text.startswith(prefix):
            raise InvalidDestination(f"destination {text[:200]!r} {reason}")
    if text.startswith("/"):
        raise InvalidDestination(
            f"destination {text[:200]!r} does not begin with /queue/ or /topic/; "
            "a plain name without a slash is a queue"
        )
    return Named(default, text)


def _routing_kind(routing_type: str | None) -> int:
    if routing_type is None:
        return 0
    kind = _ROUTING_TYPES.get(routing_type.strip().upper())
    if kind is None:
        raise InvalidOption(f"routing type is {routing_type[:80]!r}; allowed are ANYCAST and MULTICAST")
    return kind
