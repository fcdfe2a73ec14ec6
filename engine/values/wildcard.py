"""Names that match several destinations; config.matching has their grammar.

engine.sources.topics.wildcard_joins matches subscriptions with topics, engine.sources.registry finds queues.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Final

from config.matching import InvalidPattern, Pattern
from engine.values.destination import ADVISORY_PREFIX, check_size, uri
from engine.values.errors import InvalidDestination

_WILDCARDS: Final = frozenset("*>#")


class Wildcard:
    """All queues, or all topics, whose names match: those that exist and those to come.

    ``*`` is one element, ``>`` (ActiveMQ) or ``#`` (HornetQ, Artemis, RabbitMQ) any number of further ones at the end.
    prefix: how all these names begin.  It decides about most names: a wildcard is compared with thousands.
    """

    __slots__ = ("kind", "name", "pattern", "prefix", "sees_advisories")

    def __init__(self, kind: int, name: str) -> None:
        """Raises: InvalidDestination."""
        check_size(name)
        try:
            self.pattern = Pattern.parse(name)
        except InvalidPattern as error:
            raise InvalidDestination(f"wildcard destination {name[:200]!r} {error}") from error
        self.kind = kind
        self.name = name
        self.prefix = ".".join(takewhile(lambda element: element not in _WILDCARDS, self.pattern.elements))
        self.sees_advisories = name.startswith("ActiveMQ.")

    def uri(self) -> str:
        return uri(self.kind, self.name)

    def matches(self, name: str) -> bool:
        """Say whether ``name`` is one of these.  Advisory topics match only wildcards below ``ActiveMQ.``."""
        if not name.startswith(self.prefix) or (name.startswith(ADVISORY_PREFIX) and not self.sees_advisories):
            return False
        return self.pattern.matches(tuple(name.split(".")))


def is_wildcard(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)
