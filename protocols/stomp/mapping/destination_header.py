"""Destinations as STOMP clients of all four brokers write them (docs/reference/stomp.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.destination_options import ConsumerOptions, parse_destination
from config.options import OptionError
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, is_topic
from engine.values.errors import InvalidDestination, InvalidOption

PARTS_MOST: Final = 100  # destinations in a composite one

_PREFIXES: Final = (
    ("/queue/", QUEUE),
    ("/topic/", TOPIC),
    ("queue://", QUEUE),
    ("topic://", TOPIC),
    ("/amq/queue/", QUEUE),
    ("jms.queue.", QUEUE),
    ("jms.topic.", TOPIC),
    ("/remote-temp-queue/", TEMP_QUEUE),
    ("/remote-temp-topic/", TEMP_TOPIC),
    ("temp-queue://", TEMP_QUEUE),
    ("temp-topic://", TEMP_TOPIC),
)
_ALIASES: Final = (("/temp-queue/", TEMP_QUEUE), ("/temp-topic/", TEMP_TOPIC))
# Prefixes of other brokers that have no meaning here.
_ELSEWHERE: Final = (
    ("/exchange/", "is an exchange of RabbitMQ; allowed are /queue/NAME and /topic/NAME"),
    ("/reply-queue/", "is a reply queue of RabbitMQ; answer to the reply-to of the message"),
)
_WRITTEN: Final = {
    QUEUE: "/queue/",
    TOPIC: "/topic/",
    TEMP_QUEUE: "/remote-temp-queue/",
    TEMP_TOPIC: "/remote-temp-topic/",
}
_ROUTING_TYPES: Final = {"ANYCAST": QUEUE, "MULTICAST": TOPIC}  # Artemis


@dataclass(frozen=True, slots=True)
class Named:
    """One destination: its kind, and its name without a prefix.

    is_alias: a temporary destination under this connection's own name for it.
    """

    kind: int
    name: str
    is_alias: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of a header ``destination``.

    text: as written, without options.  parts: one, or those of a composite destination.  options: those behind ``?``.
    """

    text: str
    parts: tuple[Named, ...]
    options: ConsumerOptions

    def is_topic(self) -> bool:
        """Say whether all parts are topics."""
        return all(is_topic(part.kind) for part in self.parts)


def address_in(text: str, routing_type: str | None = None) -> Address:
    """Return the destination that ``text`` names.

    routing_type: Artemis' destination-type or subscription-type, the kind of a name without a prefix.
    Raises: InvalidDestination, InvalidOption.
    """
    try:
        uri = parse_destination(text)
    except OptionError as error:
        raise InvalidOption(f"destination option {error}") from None
    written = uri.name.split(",")
    if len(written) > PARTS_MOST:
        raise InvalidDestination(f"{len(written)} destinations in one name; the limit is {PARTS_MOST}")
    asked = _routing_kind(routing_type)
    default = asked
    parts: list[Named] = []
    for one in written:
        part = named_in(one)
        if part is None:
            part = _plain(one, default or QUEUE)
        if asked and part.kind != asked:
            raise InvalidDestination(f"destination {one[:200]!r} contradicts the routing type {routing_type}")
        default = default or part.kind  # ``/topic/a,b`` are two topics
        parts.append(part)
    return Address(uri.name, tuple(parts), uri.consumer)


def named_in(text: str) -> Named | None:
    """Return the destination of a name with a known prefix, None without one."""
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            return Named(kind, text.removeprefix(prefix))
    for prefix, kind in _ALIASES:
        if text.startswith(prefix):
            return Named(kind, text.removeprefix(prefix), is_alias=True)
    return None


def header_for(kind: int, name: str) -> str:
    """Return the name of a destination in a MESSAGE."""
    return _WRITTEN[kind] + name


def alias_for(named: Named) -> str:
    """Return a temporary destination as its own connection writes it."""
    prefix = next(prefix for prefix, kind in _ALIASES if kind == named.kind)
    return prefix + named.name


def _plain(text: str, default: int) -> Named:
    """Return one destination.  default: kind of a name without a prefix."""
    for prefix, reason in _ELSEWHERE:
        if text.startswith(prefix):
            raise InvalidDestination(f"destination {text[:200]!r} {reason}")
    if text.startswith("/"):
        raise InvalidDestination(
            f"destination {text[:200]!r} does not begin with /queue/, /topic/, /temp-queue/ or /temp-topic/; "
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
