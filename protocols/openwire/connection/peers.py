"""What OpenWire connections know of each other: ids of connections, and temporary destinations.

A client publishes to a temporary destination only if it has heard of it: by an advisory when it is made, or by a replay
when the client subscribes to these advisories.  Nothing of this is kept in the log.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from protocols.openwire.wire.commands import DestinationInfo
from protocols.openwire.wire.identities import ConnectionId, Destination

ADDED = 0
REMOVED = 1


class Peer:
    """A connection as the others see it."""

    __slots__ = ()

    @abstractmethod
    def advise(self, info: DestinationInfo) -> None:
        """Send an advisory about a temporary destination to the consumers that want it."""

    @abstractmethod
    def taken_over(self) -> None:
        """A new connection has the id of this one, whose client has lost it: end."""


@dataclass(slots=True, eq=False)
class Peers:
    """connections: by the id that the client has chosen.  temporaries: with the connection that owns each.

    watchers: connections with consumers of these advisories.
    """

    connections: dict[str, Peer] = field(default_factory=dict)
    temporaries: dict[Destination, str] = field(default_factory=dict)
    watchers: dict[Peer, None] = field(default_factory=dict)

    def enter(self, connection_id: str, peer: Peer) -> None:
        """Note a connection; one with the same id ends first, whose client has reconnected."""
        former = self.connections.pop(connection_id, None)
        if former is not None:
            former.taken_over()
        self.connections[connection_id] = peer

    def leave(self, connection_id: str, peer: Peer) -> None:
        """Forget a connection, which owns no temporary destination any more."""
        self.watchers.pop(peer, None)
        if self.connections.get(connection_id) is peer:
            del self.connections[connection_id]

    def added(self, destination: Destination, connection_id: str) -> None:
        self.temporaries[destination] = connection_id
        self._advise(destination, connection_id, ADDED)

    def removed(self, destination: Destination) -> None:
        connection_id = self.temporaries.pop(destination, None)
        if connection_id is not None:
            self._advise(destination, connection_id, REMOVED)

    def present(self) -> list[DestinationInfo]:
        """Return an advisory for each temporary destination, for a new watcher."""
        return [info_of(destination, owner, ADDED) for destination, owner in self.temporaries.items()]

    def _advise(self, destination: Destination, connection_id: str, operation: int) -> None:
        info = info_of(destination, connection_id, operation)
        for peer in list(self.watchers):
            peer.advise(info)


def info_of(destination: Destination, connection_id: str, operation: int) -> DestinationInfo:
    return DestinationInfo(connection_id=ConnectionId(connection_id), destination=destination, operation_type=operation)
