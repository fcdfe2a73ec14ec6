"""The one place where a name given by a client becomes a destination, and where its permissions are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from config.permissions import Action
from engine.consumers.client import Client
from engine.consumers.permissions import Access
from engine.consumers.turn_steps import Steps
from engine.consumers.user_quota import Quotas
from engine.sources.composite import Composite, CompositeSource, Destination, Source, Target
from engine.sources.queue import Queue
from engine.sources.registry import Destinations
from engine.sources.topics.durable_wildcards import DurableWildcards
from engine.sources.topics.topic import Topic
from engine.values.destination import QUEUE, TOPIC
from engine.values.wildcard import Wildcard, is_wildcard

MADE_STEPS: Final = 25  # of a turn, for a new destination

Found = TypeVar("Found")


@dataclass(slots=True, eq=False)
class Naming:
    """Finds destinations for clients; the first mention makes a queue or topic."""

    destinations: Destinations
    access: Access
    quotas: Quotas
    durable_wildcards: DurableWildcards
    steps: Steps

    def target(self, client: Client, kind: int, name: str) -> Target:
        """Return a destination for ``client`` to send to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        self.require(client, "write", kind, name)
        if self.destinations.is_new(kind, name):
            self._require_new(client, [(kind, name)])
            return self._made(client, kind, name)
        return self.destinations.target(kind, name)

    def source(self, client: Client, kind: int, name: str) -> Target | Wildcard:
        """Return a source for ``client`` to subscribe to.  Raises: AccessDenied, InvalidDestination, LimitReached."""
        self._require_source(client, kind, name)
        if self.destinations.is_new(kind, name):
            self._require_new(client, [(kind, name)])
            return self._made(client, kind, name)
        return self.destinations.source(kind, name)

    def targets(self, client: Client, named: list[tuple[int, str]]) -> Destination:
        """Return what a list of kinds and names stands for; one that is refused makes none of them.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        if len(named) == 1:
            return self.target(client, *named[0])
        for kind, name in named:
            self.require(client, "write", kind, name)
        return Composite(self._all(client, named, self.destinations.target))

    def sources(self, client: Client, named: list[tuple[int, str]]) -> Source:
        """Return what ``client`` subscribes to by a list of kinds and names, in the same way.

        Raises: AccessDenied, InvalidDestination, LimitReached.
        """
        if len(named) == 1:
            return self.source(client, *named[0])
        for kind, name in named:
            self._require_source(client, kind, name)
        parts = self._all(client, named, self.destinations.source)
        return CompositeSource(parts)

    def open_temporary(self, client: Client, kind: int, name: str = "") -> Queue | Topic:
        """Make a destination that only ``client`` may receive from and that ends with it.

        kind: engine.values.destination.TEMP_QUEUE or TEMP_TOPIC.  name: chosen by the client; "" for one of ours.
        Raises: LimitReached; InvalidDestination if the name is taken or names no single destination.
        """
        self.quotas.destinations.require(client.holder)
        self.steps.left -= MADE_STEPS
        temporary = self.destinations.open_temporary(kind, client.client_number, name)
        self.quotas.made(client, temporary)
        return temporary

    def made_again(self, client: Client | None, ended: Target, is_owed: bool) -> Target:
        """Return the destination with the name of one that was deleted; if it is new, it counts for ``client``.

        is_owed: a confirmed message needs it, so no limit refuses it.  Raises: InvalidDestination for a temporary
        destination; LimitReached, AccessDenied unless it is owed.
        """
        destinations = self.destinations
        is_new = destinations.is_new(ended.kind, ended.name)
        if client is not None and is_new and not is_owed:
            return self.target(client, ended.kind, ended.name)
        if not is_owed:
            return destinations.target(ended.kind, ended.name)
        made = destinations.own_queue(ended.name) if ended.kind == QUEUE else destinations.own_topic(ended.name)
        if client is not None and is_new:
            self.quotas.made(client, made)
        return made

    def _all(
        self, client: Client, named: list[tuple[int, str]], find: Callable[[int, str], Found]
    ) -> list[Found | Target]:
        """Return what a list names, each once; nothing is made unless all may be."""
        distinct = dict.fromkeys(named)
        known = {one: find(*one) for one in distinct if not self.destinations.is_new(*one)}
        self._require_new(client, [one for one in distinct if one not in known])
        return [known[one] if one in known else self._made(client, *one) for one in distinct]

    def _made(self, client: Client, kind: int, name: str) -> Target:
        """Return a queue or topic that ``client`` is the first to name, and may make."""
        self.steps.left -= MADE_STEPS
        target = self.destinations.target(kind, name)
        self.quotas.made(client, target)
        return target

    def _require_new(self, client: Client, named: list[tuple[int, str]]) -> None:
        """Require that ``client`` may make these.  Raises: InvalidDestination, LimitReached."""
        if named:
            self.quotas.destinations.require(client.holder, len(named))
            self.durable_wildcards.require_topics(client, [name for kind, name in named if kind == TOPIC])
            self.destinations.check_new(named)

    def _require_source(self, client: Client, kind: int, name: str) -> None:
        action: Action = "read"
        if kind == QUEUE and not self.access.allows(client, "read", kind, name):
            if self.access.allows(client, "browse", kind, name):
                action = "browse"  # ``subscribe`` checks whether it only browses
        self.require(client, action, kind, name)

    def require(self, client: Client, action: Action, kind: int, name: str) -> None:
        """Require a permission, and that to create a destination that is not there.  Raises: AccessDenied."""
        if self.access.is_open or kind not in (QUEUE, TOPIC):
            return  # only the owner of a temporary destination receives from it, and everybody may send to it
        self.access.require(client, action, kind, name)
        known = self.destinations.queues if kind == QUEUE else self.destinations.topics
        if name not in known and not is_wildcard(name):
            self.access.require(client, "create", kind, name)
