"""Links on which the peer receives or looks up a subscription.

Credit: ``flow`` gives what the peer grants to the consumer's window (engine.consumers.credit_window).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.consumers.client import Outlet
from engine.consumers.consumer import Consumer
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values import gates
from engine.values.delivery import Delivery
from engine.values.errors import DATA_FAULTS
from engine.values.message import AMQP_1_0, STOMP, Message
from protocols.amqp.v1_0.endpoints.links.link import MASK, Link, SessionEndpoint
from protocols.amqp.v1_0.mapping.amqp_form import conversion_steps
from protocols.amqp.v1_0.mapping.outgoing_message import last_resort, outgoing_sections
from protocols.amqp.v1_0.wire.composites.delivery_states import State
from protocols.amqp.v1_0.wire.composites.performatives import Flow
from protocols.amqp.v1_0.wire.errors import NotImplementedHere
from protocols.amqp.v1_0.wire.frames.frame_encoder import TransferHead
from protocols.amqp.v1_0.wire.types.values import Symbol

# Gates that open by themselves soon: a drain waits for the messages behind them.
_MAY_STILL_COME: Final = frozenset(
    (gates.OPEN, gates.PAGING, gates.SOCKET_PAUSED, gates.SESSION_WINDOW, gates.REFUSING, gates.RATE)
)


NO_LIMIT: Final = 1 << 62
TXN_ID: Final = Symbol("txn-id")
REWRITE_STEPS: Final = 3  # for a message whose header section changes on the way


class Carrier(Outlet):
    """The outlet of a session's links: its outgoing window."""

    @abstractmethod
    def deliver(self, link: OutgoingLink, delivery: Delivery) -> int:
        """Send one message; return its octets."""

    @abstractmethod
    def settle_sent(self) -> None:
        """Settle what was sent as settled and whose turn has not ended yet."""

    @abstractmethod
    def forget(self, link: OutgoingLink, consumer: Consumer) -> None:
        """Forget what an ending link has sent to its consumer and what it was about to send."""


class OutgoingLink(Link):
    """A consumer of the peer.

    is_settled: deliveries are settled when sent.  is_draining: the peer asked for a sign when nothing more comes.
    drained_count: consumers, of a link of several queues, to which nothing more comes for this drain.
    payload_max: octets of a message that fit into one frame.
    size_most: the peer's max-message-size; larger messages are left for other consumers.
    durable: client id and name of the durable subscription that a detach leaves and a close ends.
    node: the temporary destination that was made for it, and ends with it.
    """

    __slots__ = (
        "carrier",
        "consumer",
        "is_settled",
        "is_draining",
        "drained_count",
        "head",
        "payload_max",
        "default_outcome",
        "size_most",
        "durable",
        "node",
    )

    def __init__(
        self,
        session: SessionEndpoint,
        carrier: Carrier,
        name: str,
        handle: int,
        peer_handle: int,
        is_settled: bool,
        default_outcome: State | None,
        size_most: int,
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.carrier = carrier
        self.consumer: Consumer | None = None
        self.is_settled = is_settled
        self.is_draining = False
        self.drained_count = 0
        self.head = TransferHead(session.channel, handle)
        self.payload_max = session.connection.peer_frame_size - self.head.size
        self.default_outcome = default_outcome
        self.size_most = size_most or NO_LIMIT
        self.durable: tuple[str, str] | None = None
        self.node: Queue | Topic | None = None

    def release(self) -> None:
        self.sent()
        if self.consumer is not None:
            self.consumer.start()

    def sections(self, delivery: Delivery) -> tuple[bytes, bytes]:
        """Return the octets of a message as they are sent, in two parts."""
        consumer = self.consumer
        assert consumer is not None, "messages come to links with a consumer"
        connection = self.session.connection
        message = delivery.message
        steps = connection.engine.steps
        form: Message | None = None
        try:
            if message.encoding == AMQP_1_0:
                steps.left -= REWRITE_STEPS
            elif message.encoding == STOMP:
                steps.left -= conversion_steps(message)
            else:
                converter = connection.settings.converter
                assert converter is not None, "a gateway that takes other protocols has a converter"
                form, taken = converter.stomp_form(message)
                steps.left -= taken + conversion_steps(form)
            if steps.left <= 0:
                connection.hold_output()  # the rest follows in the next turn
            # A wildcard's queue has its name; a destination may have ended meanwhile.
            found = connection.engine.destinations.by_id.get(message.destination_id, consumer.queue)
            return outgoing_sections(delivery, found, connection.context, form)
        except DATA_FAULTS as error:
            name = connection.context.message_id(delivery.message)
            connection.socket.conversion_failed(f"{name} is sent unconverted: {type(error).__name__}: {error}")
            return last_resort(delivery, connection.context)

    def flow(self, flow: Flow) -> None:
        session = self.session
        consumer = self.consumer
        if flow.properties and TXN_ID in flow.properties:
            raise NotImplementedHere(
                "a flow has txn-id: acquisition in a transaction (4.4.3); allowed are outcomes in it"
            )
        if flow.link_credit is not None and consumer is not None:
            # The peer's view of delivery-count may be behind ours: subtract the deliveries on their way.
            seen = 0 if flow.delivery_count is None else flow.delivery_count
            credit = (seen + flow.link_credit - self.delivery_count) & MASK
            if credit > 0x7FFFFFFF:
                credit = 0  # below zero: it has lowered its credit while messages were on their way
            consumer.grant(credit)
        self.is_draining = bool(flow.drain)
        if self.is_draining:
            self.drained_count = 0
            session.list_draining(self)
        elif flow.echo:
            self.send_flow(False)

    def send_flow(self, is_drained: bool) -> None:
        consumer = self.consumer
        credit = 0 if consumer is None else consumer.window.room()
        available = 0 if consumer is None else min(consumer.queue.depth - consumer.queue.in_flight_count, MASK)
        self.session.send_link_flow(self, credit, max(0, available), is_drained)

    def finish_drain(self) -> bool:
        """Return False as long as more may come.

        The drain also waits for messages that come from the disk, or once the socket has room again.
        """
        consumer = self.consumer
        if not self.is_draining or self.is_gone() or consumer is None:
            return True
        if consumer.window.room() and not self._is_drained(consumer):
            return False
        self.delivery_count = (self.delivery_count + consumer.window.room()) & MASK
        consumer.grant(0)
        self.send_flow(True)
        self.is_draining = False
        return True

    def _is_drained(self, consumer: Consumer) -> bool:
        siblings = consumer.siblings
        if siblings is None:
            return consumer.gate() not in _MAY_STILL_COME
        self.drained_count = siblings.beyond(self.drained_count, _MAY_STILL_COME)
        return self.drained_count == len(siblings.members)

    def end(self) -> None:
        self.consumer = None

    def close(self, is_lost: bool, is_closing: bool) -> None:
        consumer = self.consumer
        if consumer is None:
            return
        engine = self.session.connection.engine
        if not is_lost:
            self.carrier.settle_sent()  # the peer still gets it, so nobody else may
        self.carrier.forget(self, consumer)
        self.consumer = None
        engine.unsubscribe(consumer, is_lost)
        if is_closing and self.durable is not None:
            engine.delete_subscription(self.session.connection, *self.durable)
        if self.durable is not None:
            self.session.connection.stand_for_all()
        if is_closing and self.node is not None:
            engine.close_temporary(self.node)


class SubscriptionLink(Link):
    """A look at a durable subscription, without a consumer: closing the link deletes the subscription (JMS)."""

    __slots__ = ("subscription",)

    def __init__(
        self, session: SessionEndpoint, name: str, handle: int, peer_handle: int, subscription: tuple[str, str]
    ) -> None:
        super().__init__(session, name, handle, peer_handle)
        self.subscription = subscription

    def close(self, is_lost: bool, is_closing: bool) -> None:
        if is_closing:
            connection = self.session.connection
            connection.engine.delete_subscription(connection, *self.subscription)
            connection.stand_for_all()
