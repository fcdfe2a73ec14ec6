"""Addresses and capabilities of termini <-> destinations."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from config.destination_options import ConsumerOptions, parse_destination
from config.options import OptionError
from engine.api import EngineApi
from engine.consumers.client import Client
from engine.sources.composite import Destination, Source
from engine.values.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from protocols.amqp.v1_0.wire.errors import InvalidField, NotFound

_PREFIXES: Final = (("queue://", QUEUE), ("topic://", TOPIC), ("/queue/", QUEUE), ("/topic/", TOPIC))

ENCODED_PREFIX: Final = "/queues/"  # RabbitMQ's second version of addresses: the name is percent-encoded
TEMPORARY_PREFIX: Final = "ID:"
PARTS_MOST: Final = 100  # of a composite destination

# Capabilities of a terminus that say what kind of node it is.
_KINDS: Final = {"queue": QUEUE, "topic": TOPIC, "temporary-queue": TEMP_QUEUE, "temporary-topic": TEMP_TOPIC}

# x-opt-jms-dest: the kind of one message's destination, as JMS clients annotate it.
JMS_DESTINATION_KINDS: Final = {0: QUEUE, 1: TOPIC, 2: TEMP_QUEUE, 3: TEMP_TOPIC}


def target_of(
    engine: EngineApi, client: Client, address: str, capabilities: list[str] | None, kind: int = 0
) -> Destination:
    """Return the destination of a producer's address, created at its first mention; a list in commas is one.

    kind: QUEUE or TOPIC if the message itself states it, else 0.  Raises: EngineError, InvalidField.
    """
    named, _ = _resolve(engine, address, capabilities, kind)
    return engine.naming.targets(client, named)


def source_of(
    engine: EngineApi, client: Client, address: str, capabilities: list[str] | None
) -> tuple[Source, ConsumerOptions]:
    """Return the destination of a consumer's address, and the options behind its ``?``.

    Raises: EngineError, InvalidField.
    """
    named, options = _resolve(engine, address, capabilities, 0)
    return engine.naming.sources(client, named), options


def _resolve(
    engine: EngineApi, address: str, capabilities: list[str] | None, kind: int
) -> tuple[list[tuple[int, str]], ConsumerOptions]:
    """A capability decides the kind, then a prefix, then an existing destination of that name; else it is a queue.

    In a list the own prefix of each destination decides first.
    """
    try:
        uri = parse_destination(address)
    except OptionError as error:
        raise InvalidField(f"destination option {error}") from None
    for capability in capabilities or ():
        kind = _KINDS.get(capability, kind)
    written = uri.name.split(",")
    if len(written) == 1:
        meant, name = _without_prefix(uri.name)
        return [(kind or meant or _known_kind(engine, name), name)], uri.consumer
    if len(written) > PARTS_MOST:
        raise InvalidField(f"{len(written)} destinations in one name; the limit is {PARTS_MOST}")
    named: list[tuple[int, str]] = []
    for one in written:
        meant, name = _without_prefix(one.strip())
        kind = kind or meant  # ``topic://a,b`` are two topics
        named.append((meant or kind or _known_kind(engine, name), name))
    return named, uri.consumer


def _without_prefix(text: str) -> tuple[int, str]:
    """Return kind and name of one address; the kind is 0 without a prefix.  Raises: NotFound."""
    if text.startswith("$"):  # management and token nodes of other services, never a queue
        raise NotFound(f"there is no node {text[:80]!r} here")
    if text.startswith(ENCODED_PREFIX):
        return QUEUE, unquote(text[len(ENCODED_PREFIX) :])
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            return kind, text[len(prefix) :]
    return 0, text


def _known_kind(engine: EngineApi, name: str) -> int:
    """Return the kind of a bare name: that of an existing destination, else a queue."""
    destinations = engine.destinations
    temporary = destinations.temporaries.get(name)
    if temporary is not None:
        return temporary.kind
    if name.startswith(TEMPORARY_PREFIX):
        return TEMP_QUEUE  # it has ended or belongs to another broker; others get no late answers by taking its name
    if name in destinations.queues:
        return QUEUE
    return TOPIC if name in destinations.topics else QUEUE
