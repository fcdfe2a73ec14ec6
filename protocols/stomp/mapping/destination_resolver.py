"""The destinations of the names that one connection uses, temporary ones included.

The client writes ``/temp-queue/answers``; in the reply-to of its messages everybody else finds ``/remote-temp-queue/``
and the unique real name (as with ActiveMQ).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.api import EngineApi
from engine.consumers.client import Client
from engine.sources.composite import Destination, Source, Target
from engine.values.errors import EngineError
from engine.values.message import annotation
from protocols.stomp.mapping.destination_header import Address, Named, alias_for, header_for, named_in

F = TypeVar("F")


class DestinationResolver:
    """temporaries: made at their first mention in a SEND, a SUBSCRIBE or a reply-to; they end with the connection.

    aliases: real name -> the client's name, as in headers.
    scheduled: targets of SENDs that schedule, by their heads without the times (SendTarget).
    """

    __slots__ = ("engine", "context", "schedule_limits", "client", "temporaries", "aliases", "scheduled")

    def __init__(self, engine: EngineApi, client: Client) -> None:
        self.engine = engine
        self.context = engine.context
        self.schedule_limits = engine.scheduler.limits
        self.client = client
        self.aliases: dict[str, str] = {}
        self.temporaries: dict[Named, Target] = {}
        self.scheduled: dict[object, object] = {}

    def target(self, address: Address) -> Destination:
        """Return the destination of a SEND.  Raises: EngineError."""
        return self._found(address, self.engine.naming.targets)

    def source(self, address: Address) -> Source:
        """Return the destination of a SUBSCRIBE.  Raises: EngineError."""
        return self._found(address, self.engine.naming.sources)

    def with_reply_to(self, block: bytes, text: str) -> bytes:
        """Return a block of header lines in which others can use the reply-to ``text``.  Raises: LimitReached."""
        named = named_in(text)
        if named is None or not named.is_alias:
            return block
        destination = self._temporary(named)
        old = b"\n" + annotation("reply-to", text)
        new = b"\n" + annotation("reply-to", header_for(destination.kind, destination.name))
        return (b"\n" + block).replace(old, new, 1)[1:]

    def _found(self, address: Address, find: Callable[[Client, list[tuple[int, str]]], F]) -> F:
        """Return what ``find`` says an address is.  One that is refused leaves no new temporary destination."""
        known = len(self.temporaries)
        try:
            return find(self.client, self._named(address))
        except EngineError:
            while len(self.temporaries) > known:
                _, made = self.temporaries.popitem()
                del self.aliases[header_for(made.kind, made.name)]
                self.engine.close_temporary(made)
            raise

    def _named(self, address: Address) -> list[tuple[int, str]]:
        """Return kind and real name of each part."""
        return [(part.kind, self._temporary(part).name if part.is_alias else part.name) for part in address.parts]

    def _temporary(self, part: Named) -> Target:
        found = self.temporaries.get(part)
        if found is None:
            found = self.engine.open_temporary(self.client, part.kind)
            self.temporaries[part] = found
            self.aliases[header_for(found.kind, found.name)] = alias_for(part)
        return found
