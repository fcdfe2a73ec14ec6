"""The destinations that operators name: they must exist already."""

from __future__ import annotations

from config.matching import QUEUE
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.topic import Topic

Named = tuple[int, str]  # kind of config.matching and name


def named_destination(destinations: Destinations, named: Named) -> Queue | Topic:
    """Return the queue or topic of that name.  Raises: LookupError."""
    kind, name = named
    found = destinations.queues.get(name) if kind == QUEUE else destinations.topics.get(name)
    if found is None:
        raise LookupError(f"no {'queue' if kind == QUEUE else 'topic'} {name[:200]!r}")
    return found
