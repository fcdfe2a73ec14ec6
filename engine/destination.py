"""Destinations: ``queue://N`` and ``topic://N``, hierarchical with ``.``."""

from __future__ import annotations

from typing import Final

QUEUE: Final = 1
TOPIC: Final = 2
SUBSCRIPTION: Final = 3  # a durable subscription of a topic, in the store: it takes its number from the same space

KIND_NAMES: Final = {QUEUE: "queue", TOPIC: "topic"}
KINDS_BY_NAME: Final = {name: kind for kind, name in KIND_NAMES.items()}

NAME_MAX_BYTES: Final = 1024


def uri(kind: int, name: str) -> str:
    """Return the destination as ActiveMQ writes it, for example ``queue://orders.eu``."""
    return f"{KIND_NAMES[kind]}://{name}"
