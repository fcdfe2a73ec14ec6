"""Messages that wait at a gate: they were sent to an address that accepts nothing now.

Their links get no more credit.  Messages within the granted credit are still accepted, so the credit bounds how many
wait.  Octets bound them, too: beyond ``park_bytes`` a connection that only sends is no longer read, beyond
``park_max_bytes`` the link ends.
"""

from __future__ import annotations

from typing import Final

from engine.limits.parked_producers import BlockLimit
from engine.sources.composite import Destination, paced_part
from engine.values import gates
from engine.values.errors import EngineError
from engine.values.message import Message
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.target_link import TargetLink
from protocols.amqp.v1_0.wire.errors import ParkedTooMuch
from protocols.blocked_sends import BlockedSend, BlockedSends, addresses_of, kept_bytes, send_paced

TRANSFER_OVERHEAD_BYTES: Final = 512  # memory of a message's objects, rounded up
GONE_PART: Final = 4  # messages of gone links are dropped once they are one in this many


class BlockedTransfer(BlockedSend):
    __slots__ = ("link", "delivery_id", "is_settled", "destination", "message")

    def __init__(
        self, link: TargetLink, delivery_id: int, is_settled: bool, destination: Destination, message: Message
    ) -> None:
        size_bytes = TRANSFER_OVERHEAD_BYTES + message.size + kept_bytes(destination)
        super().__init__(addresses_of(destination), size_bytes)
        self.link = link
        self.delivery_id = delivery_id
        self.is_settled = is_settled
        self.destination = destination
        self.message = message

    def refuse(self, error: EngineError) -> None:
        """Report that it will not be sent."""
        self.link.reject(self.delivery_id, self.is_settled, error)


class BlockedTransfers(BlockedSends[BlockedTransfer]):
    """short_links: links that get credit once their full address has room.
    held: link -> its waiting messages.  Those of links that have gone are dropped later, because thousands of links may
    end one by one; gone_count: the number of such messages.
    counts: how many messages wait for each address.
    """

    __slots__ = ("short_links", "held", "gone_count", "counts")

    def __init__(self, connection: ConnectionEndpoint) -> None:
        settings = connection.settings
        super().__init__(connection, BlockLimit(settings.block_park_bytes, settings.block_park_max_bytes))
        self.short_links: dict[TargetLink, None] = {}
        self.held: dict[TargetLink, list[BlockedTransfer]] = {}
        self.gone_count = 0
        self.counts: dict[str, int] = {}

    def add(self, one: BlockedTransfer) -> None:
        super().add(one)
        self.held.setdefault(one.link, []).append(one)
        for address in one.addresses:
            self.counts[address] = self.counts.get(address, 0) + 1

    def take_all(self) -> list[BlockedTransfer]:
        held = self.held
        waiting = [one for one in super().take_all() if one.link in held]
        self.held = {}
        self.gone_count = 0
        self.counts = {}
        return waiting

    def forget(self, link: TargetLink) -> None:
        """Drop the waiting messages of a link that has gone."""
        self.short_links.pop(link, None)
        for one in self.held.pop(link, ()):
            self.gone_count += 1
            self.size_bytes -= one.size_bytes
            for address in one.addresses:
                self.counts[address] -= 1
                if not self.counts[address]:
                    self.addresses.discard(address)
        if self.gone_count and GONE_PART * self.gone_count >= len(self.waiting):
            for one in self.take_all():
                self.add(one)

    def send(self, destination: Destination, message: Message) -> int:
        """Send a message that may count for the rate of its connection.  Raises: AddressFull, InvalidDestination."""
        engine = self.connection.engine
        paced = paced_part(destination)
        if paced is None:
            return engine.send(destination, message)
        return send_paced(engine, self.connection, paced, destination, message)

    def park_transfer(self, one: BlockedTransfer, gate: int) -> None:
        """Keep a message until its gate opens; its link gets no more credit.  Raises: ParkedTooMuch."""
        one.link.is_waiting = True
        if not self.park(one, one.destination, gate):
            raise ParkedTooMuch(
                f"{self.size_bytes} octets wait to be sent to {one.destination.uri()}; "
                f"the limit is {self.limit.most_bytes}"
            )

    def admit(self) -> None:
        """A gate has opened: send as many of the waiting messages as possible."""
        waiting = self.take_all()
        for one in waiting:
            one.link.is_waiting = False
        for one in waiting:
            self._send_again(one)
        for one in waiting:
            if not one.link.is_waiting:
                one.link.grant()
        short_links = self.short_links
        self.short_links = {}
        for link in short_links:
            link.room_found()

    def pause_reading(self) -> None:
        """Stop reading the connection until little waits again."""
        self.connection.share.stop(True)
        self.connection.socket.pause_reading()

    def may_read_again(self) -> bool:
        """Return True once when so little waits that the connection is read again."""
        share = self.connection.share
        if not share.is_stopped or not self.is_low():
            return False
        share.stop(False)
        return True

    def waited_too_long(self, uri: str, error: EngineError) -> None:
        """Reject the first message that waits for room in the destination ``uri``; the next one waits from now on."""
        waiting = self.take_all()
        late = next((one for one in waiting if uri in one.addresses), None)
        for one in waiting:
            if one is not late:
                self.add(one)
        if late is not None:
            late.refuse(error)
            if late.link not in self.held:
                late.link.waited()

    # -- the steps

    def _send_again(self, one: BlockedTransfer) -> None:
        link = one.link
        if link.is_waiting or self.holds(one.destination):
            self.park_transfer(one, gates.OPEN)
            return
        try:
            gate = self.send(one.destination, one.message)
        except EngineError as error:  # the policy of the address is FAIL
            one.refuse(error)
            return
        if gate != gates.OPEN:
            self.park_transfer(one, gate)
        elif not one.is_settled:
            link.confirm(one.delivery_id, one.message)
