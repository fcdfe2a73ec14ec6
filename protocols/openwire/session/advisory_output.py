"""Advisories that a connection writes itself: they pass no window, and nothing keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.api import EngineApi
from engine.consumers.turn_steps import Chore, Steps
from engine.features.advisory_state import Present
from engine.values.destination import ADVISORY_PREFIX
from protocols import map_message as words
from protocols.connection import ProtocolConnection
from protocols.map_message import Map, Typed
from protocols.openwire.connection.negotiation import Terms
from protocols.openwire.mapping.advisory import properties_of, structure_of
from protocols.openwire.mapping.destinations import parts_of
from protocols.openwire.session.open_consumer import OpenConsumer
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import MessageDispatch, Structure
from protocols.openwire.wire.identities import ConsumerId, Destination, MessageId, ProducerId
from protocols.openwire.wire.messages import WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode

ADVISORY_STEPS: Final = 30  # of a turn
TEMPORARY_TOPICS: Final = {
    identities.TEMP_QUEUE: Destination(identities.TOPIC, ADVISORY_PREFIX + "TempQueue"),
    identities.TEMP_TOPIC: Destination(identities.TOPIC, ADVISORY_PREFIX + "TempTopic"),
}
_TEMPORARY_NAMES: Final = frozenset(topic.name for topic in TEMPORARY_TOPICS.values())


@dataclass(slots=True, eq=False)
class AdvisoryOutput:
    """broker_id: of the sender of advisories."""

    engine: EngineApi
    client: ProtocolConnection
    terms: Terms
    broker_id: str
    _sequence: int = 0

    def send(self, consumer_id: ConsumerId, topic: Destination, structure: Structure | None, properties: Map) -> None:
        """Write an advisory for one consumer."""
        self.engine.steps.left -= ADVISORY_STEPS
        self._sequence += 1
        producer = ProducerId(self.broker_id, 0, 0)
        text = Typed(words.STRING, self.broker_id)
        every: Map = {"originBrokerId": text, "originBrokerName": text, "originBrokerURL": text}
        message = WireMessage(
            producer_id=producer,
            destination=topic,
            message_id=MessageId(None, producer, self._sequence, 0),
            type="Advisory",
            data_structure=structure,
            target_consumer_id=consumer_id,
            marshalled_properties=write_map({**every, **properties}),
        )
        dispatch = MessageDispatch(consumer_id=consumer_id, destination=topic, message=message)
        octets = encode(dispatch, self.terms.version)
        outbox = self.client.outbox
        outbox.parts.append(octets)
        outbox.size_bytes += len(octets)
        if outbox.size_bytes > outbox.limit_bytes:
            self.client.is_output_full = True
        outbox.touch()

    def replay(self, found: OpenConsumer, wanted: Destination) -> None:
        """Tell a new consumer of the advisory topics ``wanted`` what is there already.  Raises: InvalidDestination."""
        for _, name in parts_of(wanted):
            present = self.engine.advisories.present(name)
            if present:
                replay = Replay(self, found, Destination(identities.TOPIC, name), present)
                self.engine.steps.take_up(replay, self.client.client_number)


class Replay(Chore):
    """Tells one consumer of what was there before it, some in each turn: there may be thousands.

    present: what is left, the next one last.
    """

    __slots__ = ("output", "found", "topic", "present")

    def __init__(
        self,
        output: AdvisoryOutput,
        found: OpenConsumer,
        topic: Destination,
        present: list[Present],
    ) -> None:
        self.output = output
        self.found = found
        self.topic = topic
        self.present = present
        present.reverse()

    def go_on(self, steps: Steps) -> bool:
        output = self.output
        least = steps.left_to_others()
        while self.present and self.found.consumer is not None and not output.client.is_ending:
            if steps.left <= least:
                return False
            steps.left -= 1
            advisory = output.engine.advisories.announced.about(self.present.pop())
            if advisory is not None:
                structure = structure_of(advisory.name, advisory.fields, self.topic.name)
                output.send(self.found.consumer_id, self.topic, structure, properties_of(advisory.headers))
        return True


def is_advisory(destination: Destination) -> bool:
    """Say whether all parts of a name are advisory topics."""
    return destination.kind == identities.TOPIC and all(
        part.strip().removeprefix("topic://").startswith(ADVISORY_PREFIX) for part in destination.name.split(",")
    )


def has_temporaries(destination: Destination) -> bool:
    """Say whether one of these advisory topics is about temporary destinations alone.  Raises: InvalidDestination."""
    return any(name in _TEMPORARY_NAMES for _, name in parts_of(destination))


def others_than_temporaries(destination: Destination) -> Destination | None:
    """Return the advisory topics that are not about temporary destinations, None if there are none.

    Raises: InvalidDestination.
    """
    names = [name for _, name in parts_of(destination) if name not in _TEMPORARY_NAMES]
    return Destination(identities.TOPIC, ",".join(names)) if names else None
