"""The producers of one connection, and the windows that they have asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from engine.api import EngineApi
from engine.sources.composite import Destination
from engine.values.errors import LimitReached
from protocols.connection import ProtocolConnection
from protocols.openwire.connection.responses import Responses
from protocols.openwire.errors import RequestError
from protocols.openwire.mapping.destinations import target_of
from protocols.openwire.wire.commands import ProducerAck, ProducerInfo
from protocols.openwire.wire.identities import ProducerId

NAMED_STEPS: Final = 6  # of a turn, for each destination that a producer names
SCANNED_A_STEP: Final = 10  # producers of a connection, of which a session's are looked for
MESSAGE_BYTES: Final = 1_024  # that a client adds to the size of each message


class OpenProducer:
    """destination: None for one whose messages name their own.  number: in producer advisories, 0 for none."""

    __slots__ = ("window_size", "destination", "number")

    def __init__(self, window_size: int, destination: Destination | None, number: int) -> None:
        self.window_size = window_size
        self.destination = destination
        self.number = number


@dataclass(slots=True, eq=False)
class Producers:
    engine: EngineApi
    client: ProtocolConnection
    responses: Responses
    most: int
    connection_id: str = ""
    open: dict[ProducerId, OpenProducer] = field(default_factory=dict)

    def add(self, info: ProducerInfo) -> None:
        """Raises: RequestError, EngineError."""
        name = info.producer_id
        if name is None:
            raise RequestError("ProducerInfo has no producerId")
        if name.connection_id != self.connection_id:
            raise RequestError(f"the producer {str(name)[:200]} belongs to another connection")
        if name in self.open:
            return  # a client that reconnects adds it again
        if len(self.open) >= self.most:
            raise LimitReached(f"{self.most} producers are open on this connection, which is the limit")
        destination = None
        number = 0
        if info.destination is not None:
            steps = self.engine.steps
            before = steps.left
            destination = target_of(self.engine, self.client, info.destination)
            made = before - steps.left  # destinations; the engine counts its part, and here it counts for the share
            self.client.share.charge(made + NAMED_STEPS * (info.destination.name.count(",") + 1))
            number = self.engine.advisories.producer_added(self.client, destination)
        self.open[name] = OpenProducer(info.window_size, destination, number)

    def check(self, name: ProducerId | None) -> None:
        """Raises: RequestError for the producer of another connection."""
        if name is None or name.connection_id != self.connection_id:
            raise RequestError(f"a message is of the producer {str(name)[:200]}, which belongs to another connection")

    def remove(self, name: ProducerId) -> None:
        found = self.open.pop(name, None)
        if found is not None and found.destination is not None:
            self.engine.advisories.producer_removed(self.client, found.destination, found.number)

    def remove_session(self, session_id: int) -> None:
        self.client.share.charge(len(self.open) // SCANNED_A_STEP)
        for name in [one for one in self.open if one.session_id == session_id]:
            self.remove(name)

    def remove_all(self) -> None:
        for name in list(self.open):
            self.remove(name)

    def give_back(self, name: ProducerId | None, size_bytes: int) -> None:
        """Give back the window that a message without a response has taken.  size_bytes: of content and properties."""
        found = self.open.get(name) if name is not None else None
        if found is not None and found.window_size > 0:
            self.responses.add(ProducerAck(producer_id=name, size=MESSAGE_BYTES + size_bytes))
