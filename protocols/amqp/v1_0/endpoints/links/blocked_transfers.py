"""Messages that wait at a gate: they were sent to an address that accepts nothing now.

Their links get no more credit.  Messages within the granted credit are still accepted, so the credit bounds how many
wait.  Octets bound them, too: beyond ``park_bytes`` a connection that only sends is no longer read, beyond
``park_max_bytes`` the link ends.
"""

from __future__ import annotations

from typing import Final

from engine.limits.blocked_producer import BlockLimit
from engine.sources.composite import Destination
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import Message
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.target_link import TargetLink
from protocols.amqp.v1_0.wire.errors import ParkedTooMuch
from protocols.blocked_sends import BlockedSend, BlockedSends, addresses_of

TRANSFER_OVERHEAD_BYTES: Final = 512  # memory of a message's objects, rounded up


class BlockedTransfer(BlockedSend):
    __slots__ = ("link", "delivery_id", "is_settled", "destination", "message")

    def __init__(
        self, link: TargetLink, delivery_id: int, is_settled: bool, destination: Destination, message: Message
    ) -> None:
        super().__init__(addresses_of(destination), message.size + TRANSFER_OVERHEAD_BYTES)
        self.link = link
        self.delivery_id = delivery_id
        self.is_settled = is_settled
        self.destination = destination
        self.message = message

    def refuse(self, error: EngineError) -> None:
        """Report that it will not be sent."""
        self.link.reject(self.delivery_id, self.is_settled, error)


class BlockedTransfers(BlockedSends[BlockedTransfer]):
    """is_reading_paused: the connection is not read, because too much waits.

    short_links: links that get credit once their full address has room.
    """

    __slots__ = ("is_reading_paused", "short_links")

    def __init__(self, connection: ConnectionEndpoint) -> None:
        settings = connection.settings
        super().__init__(connection, BlockLimit(settings.block_park_bytes, settings.block_park_max_bytes))
        self.is_reading_paused = False
        self.short_links: dict[TargetLink, None] = {}

    def forget(self, link: TargetLink) -> None:
        """Drop the waiting messages of a link that has gone."""
        self.short_links.pop(link, None)
        if self.waiting:
            for one in self.take_all():
                if one.link is not link:
                    self.add(one)

    def park_transfer(self, one: BlockedTransfer, gate: int) -> None:
        """Keep a message until its gate opens; its link gets no more credit.  Raises: ParkedTooMuch."""
        one.link.is_held = True
        if not self.park(one, one.destination, gate):
            raise ParkedTooMuch(
                f"{self.size_bytes} octets wait to be sent to {one.destination.uri()}; "
                f"the limit is {self.limit.most_bytes}"
            )

    def admit(self) -> None:
        """A gate has opened: send as many of the waiting messages as possible."""
        waiting = self.take_all()
        for one in waiting:
            one.link.is_held = False
        for one in waiting:
            self._send_again(one)
        for one in waiting:
            if not one.link.is_held:
                one.link.grant()
        short_links = self.short_links
        self.short_links = {}
        for link in short_links:
            link.room_found()

    def pause_reading(self) -> None:
        """Stop reading the connection until little waits again."""
        if not self.is_reading_paused:
            self.is_reading_paused = True
            self.connection.socket.pause_reading()

    def may_read_again(self) -> bool:
        """Return True once when so little waits that the connection is read again."""
        if not self.is_reading_paused or not self.is_low():
            return False
        self.is_reading_paused = False
        return True

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Reject the messages that have waited for room in the destination ``uri``."""
        released: dict[TargetLink, None] = {}
        for one in self.take_all():
            if uri not in one.addresses:
                self.add(one)
                continue
            released[one.link] = None
            one.refuse(error)
        for link in released:
            if not any(one.link is link for one in self.waiting):
                link.waited()

    # -- the steps

    def _send_again(self, one: BlockedTransfer) -> None:
        link = one.link
        if link.is_held or self.holds(one.destination):
            self.park_transfer(one, gates.OPEN)
            return
        try:
            gate = self.connection.door.send(one.destination, one.message)
        except EngineError as error:  # the policy of the address is FAIL
            one.refuse(error)
            return
        if gate != gates.OPEN:
            self.park_transfer(one, gate)
        elif not one.is_settled:
            link.confirm(one.delivery_id, one.message)
