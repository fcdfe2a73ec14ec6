"""The temporary destinations of one connection, and its consumers of advisories about those of all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import ADVISORY_PREFIX, TEMP_QUEUE, TEMP_TOPIC
from engine.values.errors import ConnectionForced
from protocols import map_message as words
from protocols.map_message import Map, Typed
from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.connection.peers import Peer, Peers
from protocols.openwire.mapping.destinations import KINDS
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import DestinationInfo, MessageDispatch
from protocols.openwire.wire.identities import ConsumerId, Destination, MessageId, ProducerId
from protocols.openwire.wire.messages import WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode
from protocols.session.lifecycle import SessionLifecycle

ADVISORY_STEPS: Final = 10  # of a turn
_TOPICS: Final = {
    identities.TEMP_QUEUE: Destination(identities.TOPIC, ADVISORY_PREFIX + "TempQueue"),
    identities.TEMP_TOPIC: Destination(identities.TOPIC, ADVISORY_PREFIX + "TempTopic"),
}


@dataclass(slots=True, eq=False)
class Temporaries(Peer):
    """A connection as the others see it.  own: its destinations.  watching: its consumers of advisories.

    broker_id: of the sender of advisories.
    """

    engine: EngineApi
    client: SessionLifecycle
    peers: Peers
    terms: Terms
    broker_id: str
    own: dict[Destination, Queue | Topic] = field(default_factory=dict)
    watching: dict[ConsumerId, OpenConsumer] = field(default_factory=dict)
    _sequence: int = 0

    def add(self, destination: Destination, connection_id: str) -> None:
        """Make a temporary destination under the client's name.  Raises: EngineError."""
        if destination in self.own:
            return  # a client that reconnects adds it again
        made = self.engine.open_temporary(self.client, KINDS[destination.kind], destination.name)
        self.own[destination] = made
        self.peers.added(destination, connection_id)

    def remove(self, destination: Destination) -> bool:
        """End a temporary destination; return whether it was there.  Raises: DestinationInUse."""
        made = self.own.get(destination)
        if made is None:
            return False
        self.engine.close_temporary(made)
        del self.own[destination]
        self.peers.removed(destination)
        return True

    def clear(self) -> None:
        """Tell the others that all are gone; the engine ends them with the connection."""
        for destination in self.own:
            self.peers.removed(destination)
        self.own.clear()
        self.watching.clear()

    def advise(self, info: DestinationInfo) -> None:
        if not self.client.is_ending:
            for found in self.watching.values():
                self.send(found, info, False)

    def taken_over(self) -> None:
        if not self.client.is_ending:
            self.client.fail(ConnectionForced("the client has connected again under the same connectionId"))

    def send(self, found: OpenConsumer, info: DestinationInfo, is_replayed: bool) -> None:
        destination = info.destination
        wanted = found.info.destination
        assert destination is not None and wanted is not None, "an advisory is about a destination"
        topic = _TOPICS[destination.kind]
        if topic.name not in wanted.name and ">" not in wanted.name:
            return
        self.engine.steps.left -= ADVISORY_STEPS
        self._sequence += 1
        producer = ProducerId(self.broker_id, 0, 0)
        text = Typed(words.STRING, self.broker_id)
        properties: Map = {"originBrokerId": text, "originBrokerName": text, "originBrokerURL": text}
        message = WireMessage(
            producer_id=producer,
            destination=topic,
            message_id=MessageId(None, producer, self._sequence, 0),
            type="Advisory",
            data_structure=info,
            target_consumer_id=found.consumer_id if is_replayed else None,
            marshalled_properties=write_map(properties),
        )
        dispatch = MessageDispatch(consumer_id=found.consumer_id, destination=topic, message=message)
        self.client.outbox.parts.append(encode(dispatch, self.terms.version))
        self.client.outbox.touch()

    def watch(self, found: OpenConsumer) -> None:
        """Let a consumer take advisories, and tell it of all that are there."""
        self.watching[found.consumer_id] = found
        self.peers.watchers[self] = None
        for info in self.peers.present():
            self.send(found, info, True)


def is_advisory(destination: Destination) -> bool:
    """Say whether all parts of a name are advisory topics."""
    return destination.kind == identities.TOPIC and all(
        part.strip().removeprefix("topic://").startswith(ADVISORY_PREFIX) for part in destination.name.split(",")
    )


def is_temporary(destination: Destination) -> bool:
    return KINDS[destination.kind] in (TEMP_QUEUE, TEMP_TOPIC)
