"""The temporary destinations of one connection, and its consumers of advisories about those of all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC
from engine.values.errors import ConnectionForced, InvalidDestination, LimitReached
from protocols.openwire.connection.connection_ids import ConnectionIds
from protocols.openwire.connection.peers import Peer, Peers
from protocols.openwire.mapping.destinations import KINDS
from protocols.openwire.session.advisory_output import TEMPORARY_TOPICS, AdvisoryOutput
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.wire.commands import DestinationInfo
from protocols.openwire.wire.identities import ConsumerId, Destination
from protocols.peer_socket import host_of
from protocols.session.lifecycle import SessionLifecycle

WATCHING_MOST: Final = 10  # consumers of advisories on one connection; clients have one


@dataclass(slots=True, eq=False)
class Temporaries(Peer):
    """A connection as the others see it.  own: its destinations.  watching: its consumers of advisories, with the names
    of the topics.
    """

    engine: EngineApi
    client: SessionLifecycle
    peers: Peers
    connection_ids: ConnectionIds
    output: AdvisoryOutput
    watching: dict[ConsumerId, str]
    own: dict[Destination, Queue | Topic] = field(default_factory=dict)

    def add(self, destination: Destination, connection_id: str) -> None:
        """Make a temporary destination under the client's name.  Raises: InvalidDestination, LimitReached."""
        if destination in self.own:
            return  # a client that reconnects adds it again
        owner, _, number = destination.name.rpartition(":")
        if owner != connection_id or not number:
            raise InvalidDestination(
                f"a temporary destination has the name {destination.name[:200]!r}; those of this connection have "
                f"{connection_id}:NUMBER, without another colon"
            )
        if not self.connection_ids.holds(connection_id, self):
            raise InvalidDestination(
                f"the connection id {connection_id} belongs to another user; no temporary destination may have its name"
            )
        made = self.engine.open_temporary(self.client, KINDS[destination.kind], destination.name)
        self.own[destination] = made
        self.peers.added(destination, connection_id, self.client.client_number, self.engine.steps)

    def remove(self, destination: Destination) -> bool:
        """End a temporary destination; return whether it was there.  Raises: DestinationInUse."""
        made = self.own.get(destination)
        if made is None:
            return False
        self.engine.close_temporary(made)
        del self.own[destination]
        self.peers.removed(destination, self.engine.steps)
        return True

    def clear(self) -> None:
        """Tell the others that all are gone; the engine ends them with the connection."""
        for destination in self.own:
            self.peers.removed(destination, self.engine.steps)
        self.own.clear()
        self.watching.clear()

    def advise(self, info: DestinationInfo) -> None:
        """Send an advisory to each consumer of this connection that wants it."""
        if self.client.is_ending:
            return
        destination = info.destination
        assert destination is not None, "an advisory is about a destination"
        topic = TEMPORARY_TOPICS[destination.kind]
        for consumer_id, name in self.watching.items():
            if topic.name in name or ">" in name or "*" in name:
                self.output.send(consumer_id, topic, info, {})

    def taken_over(self) -> None:
        if not self.client.is_ending:
            self.client.fail(ConnectionForced("the client has connected again under the same connectionId"))

    def watch(self, found: OpenConsumer) -> None:
        """Let a consumer take advisories.  Raises: LimitReached."""
        if len(self.watching) >= WATCHING_MOST:
            raise LimitReached(f"{WATCHING_MOST} consumers of a connection take advisories, which is the limit")
        destination = found.info.destination
        assert destination is not None, "a consumer has a destination"
        self.watching[found.consumer_id] = destination.name
        application = f"{self.client.user}\n{host_of(self.client.socket.peer())}"
        self.peers.watch(self.client.client_number, self, application, self.engine.steps)


def is_temporary(destination: Destination) -> bool:
    return KINDS[destination.kind] in (TEMP_QUEUE, TEMP_TOPIC)
