"""Several destinations as one: a message is sent to all of them or to none; a subscription takes from each."""

from __future__ import annotations

from typing import Final, Literal

from config.matching import AddressMatcher
from config.policies import AddressSettings
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import KIND_NAMES, QUEUE, TOPIC
from engine.values.errors import InvalidOption
from engine.values.options import SubscribeOptions
from engine.values.wildcard import Wildcard

Target = Queue | Topic  # what one message belongs to

_KINDS: Final = {name: kind for kind, name in KIND_NAMES.items()}


class Composite:
    """Destinations named by a list, as in ActiveMQ: ``queue://a,topic://b``.  One that is named twice counts once."""

    __slots__ = ("parts",)

    # A message to several destinations has no number of its own; each copy gets the number of its destination.
    destination_id = 0
    is_indirect: Literal[True] = True

    def __init__(self, parts: list[Target]) -> None:
        assert parts, "a composite destination has parts"
        self.parts = list(dict.fromkeys(parts))

    def uri(self) -> str:
        return ",".join(part.uri() for part in self.parts)


class CompositeSource:
    """Several sources to receive from as one; its parts may be wildcards.  One that is named twice counts once."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Target | Wildcard]) -> None:
        assert parts, "a composite destination has parts"
        self.parts = list({part.uri(): part for part in parts}.values())

    @property
    def kind(self) -> int:
        return self.parts[0].kind

    @property
    def name(self) -> str:
        """Return the names as one text, without the ``queue://`` or ``topic://`` of the first part."""
        return ",".join([self.parts[0].name, *(part.uri() for part in self.parts[1:])])

    def uri(self) -> str:
        return ",".join(part.uri() for part in self.parts)


Destination = Target | Composite
Source = Target | Wildcard | CompositeSource


def parts_named(kind: int, name: str) -> list[tuple[int, str]]:
    """Return kind and name of each part of what is named so; of a single destination itself.

    A name has a comma only where ``CompositeSource.name`` has put one.
    """
    first, *others = name.split(",")
    parts = [(kind, first)]
    for other in others:
        form, _, part = other.partition("://")
        parts.append((_KINDS[form], part))
    return parts


def reached(destination: Destination) -> list[Target]:
    """Return all targets of a message to ``destination``, including those that copy it from virtual topics."""
    parts = destination.parts if isinstance(destination, Composite) else [destination]
    found: list[Target] = []
    for part in parts:
        found.append(part)
        if isinstance(part, Topic):
            found += part.copies
    return found


def paced_part(destination: Destination) -> Target | None:
    """Return the first part that limits the rate of each producer, None if there is none."""
    if not isinstance(destination, Composite):
        return destination if _has_rate(destination) else None
    return next((part for part in destination.parts if _has_rate(part)), None)


def _has_rate(target: Target) -> bool:
    return target.intake is not None and target.intake.rate > 0


def is_several(source: Source) -> bool:
    """Say whether messages from ``source`` may be of several destinations."""
    return not isinstance(source, Queue | Topic)


def settings_of(source: Source, addresses: AddressMatcher) -> AddressSettings:
    """Return the settings of a source; of a list, those of its first part."""
    first = source.parts[0] if isinstance(source, CompositeSource) else source
    return addresses.settings_for(first.kind, first.name) if isinstance(first, Wildcard) else first.settings


def check_options(source: Source, options: SubscribeOptions) -> None:
    """Raises: InvalidOption for a contradiction between source and options."""
    if options.replay is not None:
        if isinstance(source, CompositeSource | Wildcard):
            raise InvalidOption(f"{source.uri()} is several destinations; a replay reads one queue or topic")
        if options.is_durable or options.is_shared or options.subscription:
            raise InvalidOption(
                f"a replay of {source.uri()} settles nothing and cannot be durable or shared; "
                "leave out the subscription's name, or the start of the replay"
            )
        return
    is_one_queue = isinstance(source, Queue)
    if options.is_browser and not is_one_queue:
        raise InvalidOption(f"{source.uri()} cannot be browsed; a browser looks at one queue")
    parts = source.parts if isinstance(source, CompositeSource) else [source]
    for part in parts:
        if options.is_retroactive and isinstance(part, Wildcard) and part.kind == TOPIC:
            raise InvalidOption(f"{part.uri()} is many topics; retroactive is for a subscription to one")
    if not (options.is_durable or options.is_shared or options.subscription):
        return
    if isinstance(source, CompositeSource):
        raise InvalidOption(f"{source.uri()} is several destinations; a named subscription has one topic or wildcard")
    if source.kind == QUEUE or is_one_queue:
        raise InvalidOption(f"{source.uri()} is a queue; durable and shared subscriptions are for topics")
