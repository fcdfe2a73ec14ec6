"""Messages that wait at a gate: sent to an address that takes nothing now.

Their links are granted no more credit; what was granted is still taken, so what waits is bounded by the credit, and by
octets: beyond ``park_bytes`` a connection that only sends is no longer read, beyond ``park_max_bytes`` the link ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.limits.blocked_producer import BlockLimit
from engine.sources.composite import Destination
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import Message
from protocols.amqp.v1_0.wire.errors import ParkedTooMuch
from protocols.blocked_sends import BlockedSend, BlockedSends, addresses_of

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
    from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink

TRANSFER_OVERHEAD_BYTES: Final = 512  # of a message's objects, rounded up


class BlockedTransfer(BlockedSend):
    __slots__ = ("link", "delivery_id", "is_settled", "destination", "message")

    def __init__(
        self, link: IncomingLink, delivery_id: int, is_settled: bool, destination: Destination, message: Message
    ) -> None:
        super().__init__(addresses_of(destination), message.size + TRANSFER_OVERHEAD_BYTES)
        self.link = link
        self.delivery_id = delivery_id
        self.is_settled = is_settled
        self.destination = destination
        self.message = message

    def refuse(self, error: EngineError) -> None:
        """Say that it will not be sent."""
        self.link.reject(self.delivery_id, self.is_settled, error)


class BlockedTransfers(BlockedSends[BlockedTransfer]):
    """is_reading_paused: so much waits that the connection is not read."""

    __slots__ = ("is_reading_paused",)

    def __init__(self, connection: AmqpConnection) -> None:
        settings = connection.settings
        super().__init__(
            connection.broker, connection, BlockLimit(settings.block_park_bytes, settings.block_park_max_bytes)
        )
        self.is_reading_paused = False

    def forget(self, link: IncomingLink) -> int:
        """Drop what waits of a link that has gone; return how many that were."""
        if not self.waiting:
            return 0
        waiting = self.take_all()
        for one in waiting:
            if one.link is not link:
                self.add(one)
        return len(waiting) - len(self.waiting)

    def park_transfer(self, one: BlockedTransfer, gate: int) -> None:
        """Keep a message until its gate opens.  Raises: ParkedTooMuch beyond the limit."""
        if not self.park(one, one.destination, gate):
            raise ParkedTooMuch(
                f"{self.size_bytes} octets wait to be sent to {one.destination.uri()}; "
                f"the limit is {self.limit.most_bytes}"
            )

    def admit(self) -> None:
        """A gate has opened: send what waits, as far as it goes."""
        waiting = self.take_all()
        for one in waiting:
            one.link.is_held = False
        for one in waiting:
            self._send_again(one)
        for one in waiting:
            if not one.link.is_held:
                one.link.grant()

    def may_read_again(self) -> bool:
        """Say, once, that so little waits now that the connection is read again."""
        if not self.is_reading_paused or not self.is_low():
            return False
        self.is_reading_paused = False
        return True

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Reject what has waited for room in the destination ``uri``."""
        released: dict[IncomingLink, None] = {}
        for one in self.take_all():
            if uri not in one.addresses:
                self.add(one)
                continue
            released[one.link] = None
            one.refuse(error)
        for link in released:
            if not any(one.link is link for one in self.waiting):
                link.is_held = False
                link.grant()

    # -- the steps

    def _send_again(self, one: BlockedTransfer) -> None:
        link = one.link
        if link.is_held or self.holds(one.destination):
            link.is_held = True
            self.park_transfer(one, gates.OPEN)
            return
        try:
            gate = self.broker.send(one.destination, one.message)
        except EngineError as error:  # the address fails what it has no room for
            one.refuse(error)
            return
        if gate != gates.OPEN:
            link.is_held = True
            self.park_transfer(one, gate)
        elif not one.is_settled:
            link.confirm(one.delivery_id, one.message)
