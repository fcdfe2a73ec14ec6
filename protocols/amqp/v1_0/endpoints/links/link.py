"""Links, each one direction of messages between the peer and a node, and the session as they see it.

Link state (transport 2.6.7): delivery-count is the number of deliveries that the sender has begun, link-credit the
number that it may still begin.  Both ends compute with 32 bits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.values.delivery import Delivery
from engine.values.errors import PenstockError
from protocols.amqp.v1_0.endpoints.confirmations import Endpoint
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.states import ATTACH_RCVD, DETACHED, FAIL, LEFT, LINK, LINK_DISCARDING, advance
from protocols.amqp.v1_0.wire.composites.composite import error_of
from protocols.amqp.v1_0.wire.composites.delivery_states import State
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach, Flow, Transfer
from protocols.amqp.v1_0.wire.errors import NotAllowed

MASK: Final = 0xFFFFFFFF
LINK_OVERHEAD_BYTES: Final = 1024  # memory of a link's objects, rounded up


class Link(Endpoint):
    """handle: ours; peer_handle: what the peer calls it.  selector_characters: of its consumer's selector."""

    __slots__ = ("session", "name", "handle", "peer_handle", "delivery_count", "selector_characters")

    def __init__(self, session: SessionEndpoint, name: str, handle: int, peer_handle: int) -> None:
        super().__init__(advance(LINK, DETACHED, Attach.CODE))
        self.session = session
        self.name = name
        self.handle = handle
        self.peer_handle = peer_handle
        self.delivery_count = 0
        self.selector_characters = 0

    def name_bytes(self) -> int:
        """Return the octets of the name, and a little for the link itself."""
        return LINK_OVERHEAD_BYTES + len(self.name)

    def is_gone(self) -> bool:
        """Say whether it has ended, at least on our side."""
        return self.state in (DETACHED, LINK_DISCARDING)

    def is_behind(self) -> bool:
        """Say whether our attach has not left yet."""
        return self.state == ATTACH_RCVD

    def sent(self) -> None:
        self.state = advance(LINK, self.state, LEFT)

    def take(self, transfer: Transfer, payload: bytes) -> None:
        """Take one transfer frame."""
        raise NotAllowed(f"link {self.name[:200]!r} has the other direction: the peer receives on it")

    def flow(self, flow: Flow) -> None:
        """Take the peer's view of the link."""

    def grant(self) -> None:
        """Grant more credit; the session calls this for links on its list."""

    def finish_drain(self) -> bool:
        """Use up the credit if nothing can be delivered now; return whether the drain is over."""
        return True

    def rights_changed(self) -> None:
        """The permissions have changed: end what is not allowed any more."""

    def close(self, is_lost: bool, is_closing: bool) -> None:
        """Release everything.  is_closing: the peer ends the terminus, not only the link."""

    def end(self) -> None:
        """Its session has ended: release everything but the consumer, which ends with the session's other consumers."""

    def detach(self, error: PenstockError, is_closed: bool | None = True) -> None:
        """End the link because of an error; its terminus stays.  is_closed: that field of our detach."""
        if self.is_gone():
            return
        self.state = advance(LINK, self.state, FAIL)
        session = self.session
        session.discard(self)
        self.close(False, False)
        session.connection.send_fitted(session.channel, Detach(self.handle, is_closed, error_of(error)))


class SessionEndpoint(Endpoint):
    """A session, as its links see it.

    channel: ours.  unsettled: deliveries that the peer has received and not settled, of all links, by delivery-id.
    accepted_now, accepted_logged: delivery-ids of this turn to be accepted at its end, or once durable.
    low_links: links that may be granted more credit at the end of this turn.
    is_due: a rare frame is to be sent at the end of this turn.
    """

    __slots__ = ("connection", "channel", "unsettled", "accepted_now", "accepted_logged", "low_links", "is_due")

    def __init__(self, state: int, connection: ConnectionEndpoint, channel: int) -> None:
        super().__init__(state)
        self.connection = connection
        self.channel = channel
        self.unsettled: dict[int, Delivery] = {}
        self.accepted_now: list[int] = []
        self.accepted_logged: list[int] = []
        self.low_links: list[Link] = []
        self.is_due = False

    @abstractmethod
    def add_link(self, link: Link) -> None:
        """Register a link under both its handles."""

    @abstractmethod
    def discard(self, link: Link) -> None:
        """Drop frames on a link that we have ended, until the peer has detached it."""

    @abstractmethod
    def confirm_state(self, delivery_id: int, state: State, is_settled: bool, is_logged: bool) -> None:
        """Send the outcome of one of the peer's deliveries at the end of this turn, or once it is durable."""

    @abstractmethod
    def settle_logged(self, delivery_ids: list[int], state: State) -> None:
        """Settle an outcome that the peer has not settled, once it is durable (receiver settles second)."""

    @abstractmethod
    def send_link_flow(self, link: Link, credit: int, available: int, is_drained: bool) -> None:
        """Send the peer the state of a link."""

    @abstractmethod
    def list_draining(self, link: Link) -> None:
        """Call ``Link.finish_drain`` at the end of this turn and the next ones, until the drain is over."""
