"""Destinations: ``queue://N`` and ``topic://N``, hierarchical with ``.``."""

from __future__ import annotations

from typing import Final

from config import reserved_names
from engine.values.errors import InvalidDestination

QUEUE: Final = 1
TOPIC: Final = 2
SUBSCRIPTION: Final = 3  # a durable subscription of a topic, in the store; numbered together with destinations
TEMP_QUEUE: Final = 4  # of one connection, never in the store
TEMP_TOPIC: Final = 5

KIND_NAMES: Final = {QUEUE: "queue", TOPIC: "topic", TEMP_QUEUE: "temp-queue", TEMP_TOPIC: "temp-topic"}
KINDS_BY_NAME: Final = {KIND_NAMES[kind]: kind for kind in (QUEUE, TOPIC)}  # the kinds that a log holds

NAME_MAX_BYTES: Final = 1024
ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."  # topics on which the broker reports about itself; never in the store
SCHEDULE_QUEUE: Final = reserved_names.SCHEDULE
DUPLICATE_IDS_QUEUE: Final = reserved_names.DUPLICATE_IDS
PREPARED_QUEUE: Final = reserved_names.PREPARED_TRANSACTIONS
INTERNAL_QUEUES: Final = reserved_names.RESERVED_NAMES

_NO_NAME: Final = frozenset("*>#?,")


def uri(kind: int, name: str) -> str:
    """Return the destination as ActiveMQ writes it, for example ``queue://orders.eu``."""
    return f"{KIND_NAMES[kind]}://{name}"


def is_topic(kind: int) -> bool:
    return kind in (TOPIC, TEMP_TOPIC)


def advisory_name(event: str, kind: int, name: str) -> str:
    """Return the advisory topic of an event at a destination."""
    return f"{ADVISORY_PREFIX}{event}.{'Topic' if is_topic(kind) else 'Queue'}.{name}"


def advised_destination(topic: str) -> tuple[int, str] | None:
    """Return kind and name of the destination that an advisory topic is about, None for any other topic."""
    if not topic.startswith(ADVISORY_PREFIX):
        return None
    _, form, name = (*topic.removeprefix(ADVISORY_PREFIX).split(".", 2), "", "")[:3]
    if not name or form not in ("Queue", "Topic"):
        return None
    return QUEUE if form == "Queue" else TOPIC, name


def check_name(name: str) -> None:
    """Raises: InvalidDestination if ``name`` cannot name exactly one destination."""
    check_size(name)
    if name in INTERNAL_QUEUES:
        raise InvalidDestination(f"{name} is reserved for the gateway; any other name is allowed")
    if any(character < " " or character in _NO_NAME for character in name):
        raise InvalidDestination(
            f"destination name {name[:200]!r} has a control character or one of * > # ? , which do not name one "
            "destination"
        )
    if "" in name.split("."):
        raise InvalidDestination(
            f"destination name {name[:200]!r} has an empty element; elements are separated by one '.', and a name "
            "neither begins nor ends with it"
        )


def check_size(name: str) -> None:
    size = len(name.encode())
    if not 0 < size <= NAME_MAX_BYTES:
        raise InvalidDestination(f"a destination name has 1 to {NAME_MAX_BYTES} octets, this one has {size}")
