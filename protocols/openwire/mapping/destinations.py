"""Destinations of commands <-> destinations of the engine.

A name with commas is composite; a part may have a prefix, and one without has the kind of the whole.
"""

from __future__ import annotations

from typing import Final

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.sources.composite import Destination as EngineDestination
from engine.sources.composite import Source
from engine.values import destination as kinds
from engine.values.errors import InvalidDestination
from protocols.openwire.wire import identities as wire
from protocols.openwire.wire.identities import Destination

PARTS_MOST: Final = 100  # of a composite destination
TEMPORARY_PREFIX: Final = "ID:"

_PREFIXES: Final = (
    ("queue://", kinds.QUEUE),
    ("topic://", kinds.TOPIC),
    ("temp-queue://", kinds.TEMP_QUEUE),
    ("temp-topic://", kinds.TEMP_TOPIC),
)
KINDS: Final = {
    wire.QUEUE: kinds.QUEUE,
    wire.TOPIC: kinds.TOPIC,
    wire.TEMP_QUEUE: kinds.TEMP_QUEUE,
    wire.TEMP_TOPIC: kinds.TEMP_TOPIC,
}
WIRE_KINDS: Final = {kind: code for code, kind in KINDS.items()}


def parts_of(destination: Destination) -> list[tuple[int, str]]:
    """Return kind and name of each part.  Raises: InvalidDestination."""
    whole = KINDS[destination.kind]
    written = destination.name.split(",")
    if len(written) > PARTS_MOST:
        raise InvalidDestination(f"{len(written)} destinations in one name; the limit is {PARTS_MOST}")
    found: list[tuple[int, str]] = []
    for part in written:
        name = part.strip() if len(written) > 1 else part
        kind = whole
        for prefix, meant in _PREFIXES:
            if name.startswith(prefix):
                kind = meant
                name = name.removeprefix(prefix)
                break
        found.append((kind, name))
    return found


def target_of(engine: EngineApi, client: Client, destination: Destination) -> EngineDestination:
    """Return the destination of a message, made at its first mention.  Raises: EngineError."""
    return engine.naming.targets(client, _named(engine, destination))


def source_of(engine: EngineApi, client: Client, destination: Destination) -> Source:
    """Return the destination of a consumer.  Raises: EngineError."""
    return engine.naming.sources(client, _named(engine, destination))


def wire_destination(kind: int, name: str) -> Destination:
    return Destination(WIRE_KINDS[kind], name)


def _named(engine: EngineApi, destination: Destination) -> list[tuple[int, str]]:
    return [(_meant(engine, kind, name), name) for kind, name in parts_of(destination)]


def _meant(engine: EngineApi, kind: int, name: str) -> int:
    """Return the kind that is meant: temporary destinations of other protocols are shown as queues and topics."""
    if kind not in (kinds.QUEUE, kinds.TOPIC) or not name.startswith(TEMPORARY_PREFIX):
        return kind
    temporary = engine.destinations.temporaries.get(name)
    if temporary is not None:
        return temporary.kind
    return kinds.TEMP_QUEUE if kind == kinds.QUEUE else kinds.TEMP_TOPIC
