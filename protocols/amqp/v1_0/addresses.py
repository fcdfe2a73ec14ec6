"""Addresses and capabilities of termini <-> destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from config.destination_options import ConsumerOptions, parse_destination
from config.options import OptionError
from engine.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC
from engine.queue import Queue
from engine.topic import Topic
from engine.wildcard import Wildcard
from protocols.amqp.v1_0.errors import InvalidField

if TYPE_CHECKING:
    from protocols.amqp.v1_0.connection import AmqpConnection

_PREFIXES: Final = (
    ("queue://", QUEUE),
    ("topic://", TOPIC),
    ("/queue/", QUEUE),
    ("/topic/", TOPIC),
)

# Capabilities of a terminus that say what kind of node it is.
_KINDS: Final = {"queue": QUEUE, "topic": TOPIC, "temporary-queue": TEMP_QUEUE, "temporary-topic": TEMP_TOPIC}

# x-opt-jms-dest: what JMS clients say of the destination of one message.
JMS_DESTINATION_KINDS: Final = {0: QUEUE, 1: TOPIC, 2: TEMP_QUEUE, 3: TEMP_TOPIC}


def target_of(connection: AmqpConnection, address: str, capabilities: list[str] | None, kind: int = 0) -> Queue | Topic:
    """Return what an address means to a producer, made at its first mention.

    kind: QUEUE or TOPIC where the message itself says so, 0 where it does not.  Raises: EngineError, InvalidField.
    """
    kind, name, _ = _resolve(connection, address, capabilities, kind)
    return connection.broker.target(connection, kind, name)


def source_of(
    connection: AmqpConnection, address: str, capabilities: list[str] | None
) -> tuple[Queue | Topic | Wildcard, ConsumerOptions]:
    """Return what an address means to a consumer, and the options behind its ``?``.

    Raises: EngineError, InvalidField.
    """
    kind, name, options = _resolve(connection, address, capabilities, 0)
    return connection.broker.source(connection, kind, name), options


def _resolve(
    connection: AmqpConnection, address: str, capabilities: list[str] | None, kind: int
) -> tuple[int, str, ConsumerOptions]:
    """A capability decides, then a prefix, then a destination of that name that is there; else it is a queue."""
    try:
        uri = parse_destination(address)
    except OptionError as error:
        raise InvalidField(f"destination option {error}") from None
    name = uri.name
    for prefix, meant in _PREFIXES:
        if name.startswith(prefix):
            kind = kind or meant
            name = name[len(prefix) :]
            break
    for capability in capabilities or ():
        kind = _KINDS.get(capability, kind)
    if kind == 0:
        destinations = connection.broker.destinations
        temporary = destinations.temporaries.get(name)
        if temporary is not None:
            kind = temporary.kind
        else:
            kind = TOPIC if name in destinations.topics and name not in destinations.queues else QUEUE
    return kind, name, uri.consumer
