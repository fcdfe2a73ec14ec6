"""Messages that wait at a gate: sent to an address that takes nothing now.

Their links are granted no more credit; what was granted is still taken, so what waits is bounded by the credit, and by
octets: beyond ``park_bytes`` a connection that only sends is no longer read, beyond ``park_max_bytes`` the link ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.sources.composite import Destination, held_part, reached
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import Message
from protocols.amqp.v1_0.wire.errors import ParkedTooMuch

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
    from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink

PARKED_OVERHEAD_BYTES: Final = 512


class Parked:
    __slots__ = ("link", "delivery_id", "is_settled", "destination", "message")

    def __init__(
        self, link: IncomingLink, delivery_id: int, is_settled: bool, destination: Destination, message: Message
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.is_settled = is_settled
        self.destination = destination
        self.message = message

    def refuse(self, error: EngineError) -> None:
        """Say that it will not be sent."""
        self.link.reject(self.delivery_id, self.is_settled, error)


class Parking:
    """parked: in the order they came.  addresses: what they wait for, so that none overtakes another."""

    __slots__ = ("connection", "parked", "parked_bytes", "addresses", "is_reading_paused")

    def __init__(self, connection: AmqpConnection) -> None:
        self.connection = connection
        self.parked: list[Parked] = []
        self.parked_bytes = 0
        self.addresses: set[str] = set()
        self.is_reading_paused = False

    def holds(self, destination: Destination) -> bool:
        """Say whether messages to ``destination`` wait, behind which others must."""
        return bool(self.addresses) and any(target.uri() in self.addresses for target in reached(destination))

    def take_all(self) -> list[Parked]:
        """Return all in order; those that must still wait are parked again by the caller."""
        parked = self.parked
        self.parked = []
        self.parked_bytes = 0
        self.addresses = set()
        return parked

    def forget(self, link: IncomingLink) -> int:
        """Drop what waits of a link that has gone; return how many that were."""
        if not self.parked:
            return 0
        parked = self.take_all()
        for one in parked:
            if one.link is not link:
                self._add(one)
        return len(parked) - len(self.parked)

    def park(
        self,
        link: IncomingLink,
        delivery_id: int,
        is_settled: bool,
        destination: Destination,
        message: Message,
        gate: int,
    ) -> None:
        """Keep a message until its gate opens.  Raises: ParkedTooMuch beyond the limit."""
        connection = self.connection
        settings = connection.settings
        if self.parked_bytes + message.size > settings.block_park_max_bytes and self.parked:
            raise ParkedTooMuch(
                f"{self.parked_bytes} octets wait to be sent to {destination.uri()}; "
                f"the limit is {settings.block_park_max_bytes}"
            )
        self._add(Parked(link, delivery_id, is_settled, destination, message))
        if gate != gates.OPEN:
            connection.broker.flow.park(connection, gate, held_part(destination))
        # A connection that also receives is read on: its dispositions stand behind its transfers in one stream.
        if self.parked_bytes >= settings.block_park_bytes and not connection.consumers and not self.is_reading_paused:
            self.is_reading_paused = True
            connection.socket.pause_reading()

    def admit(self) -> None:
        """A gate has opened: send what waits, as far as it goes."""
        parked = self.take_all()
        for one in parked:
            one.link.is_held = False
        for one in parked:
            self._send_again(one)
        for one in parked:
            if not one.link.is_held:
                one.link.grant()

    def may_read_again(self) -> bool:
        """Say, once, that so little waits now that the connection is read again."""
        if not self.is_reading_paused or self.parked_bytes >= self.connection.settings.block_park_bytes:
            return False
        self.is_reading_paused = False
        return True

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Reject what has waited for room in the destination ``uri``."""
        released: dict[IncomingLink, None] = {}
        for one in self.take_all():
            if all(target.uri() != uri for target in reached(one.destination)):
                self._add(one)
                continue
            released[one.link] = None
            one.refuse(error)
        for link in released:
            if not any(one.link is link for one in self.parked):
                link.is_held = False
                link.grant()

    # -- the steps

    def _send_again(self, one: Parked) -> None:
        link = one.link
        if link.is_held or self.holds(one.destination):
            link.park(one.delivery_id, one.is_settled, one.destination, one.message, gates.OPEN)
            return
        try:
            gate = self.connection.broker.send(one.destination, one.message)
        except EngineError as error:  # the address fails what it has no room for
            one.refuse(error)
            return
        if gate != gates.OPEN:
            link.park(one.delivery_id, one.is_settled, one.destination, one.message, gate)
        elif not one.is_settled:
            link.confirm(one.delivery_id, one.message)

    def _add(self, one: Parked) -> None:
        self.parked.append(one)
        self.connection.is_holding = True
        self.parked_bytes += one.message.size + PARKED_OVERHEAD_BYTES
        self.addresses.update(target.uri() for target in reached(one.destination))
