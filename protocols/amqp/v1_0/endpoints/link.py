"""Links: one direction of messages between the peer and a node.

Link state (transport 2.6.7): delivery-count counts the deliveries that the sender has begun, link-credit how many more
it may begin; both ends compute with 32 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.values.errors import PenstockError
from protocols.amqp.v1_0.endpoints.confirmations import Answered
from protocols.amqp.v1_0.wire.errors import NotAllowed, error_of
from protocols.amqp.v1_0.wire.performatives import Detach, Flow, Transfer

if TYPE_CHECKING:
    from protocols.amqp.v1_0.endpoints.session import AmqpSession

MASK: Final = 0xFFFFFFFF
LINK_OVERHEAD_BYTES: Final = 1024  # of a link's objects, rounded up


class Link(Answered):
    """handle: ours; peer_handle: what the peer calls it.

    is_detaching: we have said detach, and drop what comes until the peer has.
    """

    __slots__ = ("session", "name", "handle", "peer_handle", "is_detaching", "delivery_count")

    def __init__(self, session: AmqpSession, name: str, handle: int, peer_handle: int) -> None:
        super().__init__()
        self.session = session
        self.name = name
        self.handle = handle
        self.peer_handle = peer_handle
        self.is_detaching = False
        self.delivery_count = 0

    def name_bytes(self) -> int:
        """Return what the name takes, and a little for the link itself."""
        return LINK_OVERHEAD_BYTES + len(self.name)

    def take(self, transfer: Transfer, payload: bytes) -> None:
        """Take one transfer frame."""
        raise NotAllowed(f"link {self.name[:200]!r} goes the other way: the peer receives on it")

    def flow(self, flow: Flow) -> None:
        """Take the peer's view of the link."""

    def settled(self, delivery_id: int) -> None:
        """The peer has settled a delivery that it sent."""

    def close(self, is_lost: bool, is_closing: bool) -> None:
        """Let go of everything.  is_closing: the peer wants the terminus gone, not only the link."""

    def end(self) -> None:
        """Its session has ended: let go of everything but a consumer, which ends with all others of the session."""

    def detach(self, error: PenstockError, is_closed: bool | None = True) -> None:
        """End the link because of an error; its terminus stays.  is_closed: what the peer is told, None for not."""
        self.is_detaching = True
        self.close(False, False)
        detach = Detach(self.handle, is_closed, error_of(error))
        self.session.connection.send_fitted(self.session.channel, detach)
