"""Attach: the requests of a peer, and their answers.

A refusal takes two frames (transport 2.6.3): an attach without termini, then a detach with the error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from config.destination_options import NO_CONSUMER_OPTIONS
from engine.sources.composite import Destination
from engine.sources.composite import Source as FoundSource
from engine.sources.queue import Queue
from engine.sources.topics.topic import Topic
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC, is_topic
from engine.values.errors import EngineError, LimitReached, PenstockError, SubscriptionInUse
from engine.values.options import SubscribeOptions
from protocols.amqp.v1_0.endpoints.attach_fields import check_attach
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.links.coordinator_link import CAPABILITIES, CoordinatorLink
from protocols.amqp.v1_0.endpoints.links.incoming_link import IncomingLink
from protocols.amqp.v1_0.endpoints.links.link import Link, SessionEndpoint
from protocols.amqp.v1_0.endpoints.links.outgoing_link import OutgoingLink, SubscriptionLink
from protocols.amqp.v1_0.endpoints.links.producers import Producers
from protocols.amqp.v1_0.endpoints.outgoing_window import OutgoingWindow
from protocols.amqp.v1_0.endpoints.states import FAIL, LINK, advance
from protocols.amqp.v1_0.mapping.addresses import source_of, target_of
from protocols.amqp.v1_0.mapping.delayed_delivery import DELAYED_DELIVERY
from protocols.amqp.v1_0.mapping.subscribe_options import subscription, subscription_name
from protocols.amqp.v1_0.wire.composites.composite import error_of
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Detach
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.errors import (
    AttachTooLarge,
    FrameSizeTooSmall,
    InvalidField,
    LinkError,
    LinkStolen,
    NotFound,
    TooManyLinks,
)
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.types.values import Described, Symbol, UInt, ULong, Value

SETTLED: Final = 1  # snd-settle-mode

# delete-on-close (messaging 3.5.10): the lifetime of every dynamic node here.
LIFETIME: Final[dict[Value, Value]] = {Symbol("lifetime-policy"): Described(ULong(0x2B), [])}


class LinkFactory:
    """Attaches the links of one connection's sessions."""

    __slots__ = ("connection", "named", "producers")

    def __init__(self, connection: ConnectionEndpoint, producers: Producers) -> None:
        self.connection = connection
        self.named = connection.engine.subscribing.subscriptions.named
        self.producers = producers

    def attach(self, session: SessionEndpoint, outgoing: OutgoingWindow, frame: Attach, handle: int) -> None:
        """Attach a link of ``session`` under our ``handle``, or refuse it.  outgoing: the session's."""
        try:
            self._check_count()
            check_attach(frame)
            echo = self._echo(session, frame, handle)
            if not frame.role:
                self._attach_incoming(session, frame, handle, echo)
            elif frame.source is None:
                self._attach_subscription(session, frame, handle)
            else:
                self._attach_outgoing(session, outgoing, frame, handle, frame.source, echo)
        except (EngineError, LinkError) as error:
            self._refuse(session, frame, handle, error)

    def _check_count(self) -> None:
        """Raises: LimitReached; TooManyLinks if the peer attaches more links without detaching refused ones."""
        limit = self.connection.settings.links
        count = self.connection.link_count
        text = f"{count} links are attached on this connection; the limit is {limit}"
        if count >= 2 * limit:
            raise TooManyLinks(text)
        if count >= limit:
            raise LimitReached(text)

    def _echo(self, session: SessionEndpoint, frame: Attach, handle: int) -> bytes:
        """Return the answer that repeats the termini of the request, as most answers do.

        Raises: AttachTooLarge if it exceeds the peer's frame size; other answers are hardly larger.
        """
        try:
            answer = self._answer(frame, handle, frame.source, frame.target)
            return fitted_frame(session.channel, answer, self.connection.peer_frame_size)
        except FrameSizeTooSmall as error:
            raise AttachTooLarge(str(error)) from None

    def _refuse(self, session: SessionEndpoint, frame: Attach, handle: int, error: PenstockError) -> None:
        link = Link(session, frame.name, handle, frame.handle)
        session.add_link(link)
        session.discard(link)
        link.state = advance(LINK, link.state, FAIL)
        # Neither terminus: go-amqp waits for the detach only if both are null.
        self._send(session, self._answer(frame, handle, None, None))
        self._send(session, Detach(handle, True, error_of(error)))

    def _attach_incoming(self, session: SessionEndpoint, frame: Attach, handle: int, echo: bytes) -> None:
        connection = self.connection
        target = frame.target
        if isinstance(target, Coordinator):
            coordinator = CoordinatorLink(
                session,
                frame.name,
                handle,
                frame.handle,
                frame.source,
                self.producers.multi_transfers,
                self.producers.transactions,
            )
            session.add_link(coordinator)
            connection.confirmations.defer(coordinator)
            self._send(session, self._answer(frame, handle, frame.source, Coordinator(list(CAPABILITIES))))
            coordinator.grant()
            return
        if target is None:
            raise InvalidField("a producer's attach has no target")
        destination: Destination | None = None
        node: Queue | Topic | None = None
        if target.dynamic:
            destination = node = self._temporary(target.capabilities)
            target = replace(target, address=node.name, dynamic_node_properties=LIFETIME)
        elif target.address is not None:
            destination = target_of(connection.engine, connection, target.address, target.capabilities)
        link = IncomingLink(session, self.producers, frame, handle, destination, node)
        if destination is not None:
            link.producer = self.producers.advisories.producer_added(connection, destination)
        session.add_link(link)
        connection.confirmations.defer(link)
        if DELAYED_DELIVERY in (frame.desired_capabilities or ()):
            answer = self._answer(frame, handle, frame.source, target)
            self._send(session, replace(answer, offered_capabilities=[DELAYED_DELIVERY]))
        elif target is frame.target:
            connection.send(echo)
        else:
            self._send(session, self._answer(frame, handle, frame.source, target))
        link.grant()

    def _attach_outgoing(
        self,
        session: SessionEndpoint,
        outgoing: OutgoingWindow,
        frame: Attach,
        handle: int,
        source: Source,
        echo: bytes,
    ) -> None:
        connection = self.connection
        node: Queue | Topic | None = None
        found: FoundSource
        if source.dynamic:
            found = node = self._temporary(source.capabilities)
            uri = NO_CONSUMER_OPTIONS
            source = replace(source, address=node.name, dynamic_node_properties=LIFETIME)
        elif source.address is None:
            raise InvalidField("a consumer's attach has no source address")
        else:
            found, uri = source_of(connection.engine, connection, source.address, source.capabilities)
        defaults = connection.settings.defaults
        options, applied = subscription(frame.name, source, uri, is_topic(found.kind), defaults)
        link = OutgoingLink(
            session,
            outgoing,
            frame.name,
            handle,
            frame.handle,
            frame.snd_settle_mode == SETTLED,
            source.default_outcome,
            frame.max_message_size or 0,
        )
        try:
            consumer = connection.engine.subscribe(connection, found, options)
        except SubscriptionInUse:
            if not self._steal(frame.name, options):
                raise
            consumer = connection.engine.subscribe(connection, found, options)
        consumer.adapter = link
        consumer.outlet = outgoing
        link.consumer = consumer
        link.selector_characters = len(options.selector)
        link.node = node
        if options.is_durable:
            link.durable = ("" if options.is_global else connection.container_id, options.subscription)
            connection.stand_for_all()
        session.add_link(link)
        is_behind = connection.confirmations.defer(link)
        if applied == frame.source:
            connection.send(echo)
        else:
            self._send(session, self._answer(frame, handle, applied, frame.target))
        if not is_behind:
            consumer.start()

    def _steal(self, name: str, options: SubscribeOptions) -> bool:
        """Take a durable subscription from another connection of the same container; say whether one had it.

        A client that lost its connection can thus go on before the gateway notices (transport 2.6.1).  JMS refuses the
        second consumer on one connection, and the second of two connections with one client id.
        """
        connection = self.connection
        container_id = connection.container_id
        if options.is_shared or not options.is_durable:
            return False
        known = self.named.find(connection, container_id, options.subscription)
        for consumer in [] if known is None else known.holders_beside(connection):
            link = consumer.adapter
            if isinstance(link, OutgoingLink) and link.name == name:
                link.detach(
                    LinkStolen(f"another connection of {container_id[:200]!r} has attached {name[:200]!r}"), None
                )
                return True
        return False

    def _attach_subscription(self, session: SessionEndpoint, frame: Attach, handle: int) -> None:
        """Answer a consumer without a source: it looks up a durable subscription in order to delete it (Qpid JMS)."""
        connection = self.connection
        client_id = "" if "global" in (frame.desired_capabilities or ()) else connection.container_id
        name = subscription_name(frame.name)
        known = self.named.find(connection, client_id, name)
        if known is None:
            raise NotFound(f"there is no durable subscription {name[:200]!r} of client id {client_id[:200]!r}")
        link = SubscriptionLink(session, frame.name, handle, frame.handle, (client_id, name))
        session.add_link(link)
        connection.confirmations.defer(link)
        source = Source(known.source, UInt(2), "never", distribution_mode="copy", capabilities=["topic"])
        self._send(session, self._answer(frame, handle, source, frame.target))

    def _temporary(self, capabilities: list[str] | None) -> Queue | Topic:
        """Make a dynamic node: a temporary destination of this connection, deleted when its link is closed."""
        connection = self.connection
        kind = TEMP_TOPIC if "temporary-topic" in (capabilities or ()) else TEMP_QUEUE
        return connection.engine.open_temporary(connection, kind)

    def _answer(self, frame: Attach, handle: int, source: Source | None, target: Target | Coordinator | None) -> Attach:
        """Return our half: the modes as requested (some clients insist), our handle, the termini in use."""
        return Attach(
            frame.name,
            handle,
            not frame.role,
            frame.snd_settle_mode,
            frame.rcv_settle_mode,
            source,
            target,
            initial_delivery_count=0 if frame.role else None,
            max_message_size=None if frame.role else ULong(self.connection.settings.body_bytes),
        )

    def _send(self, session: SessionEndpoint, frame: Attach | Detach) -> None:
        self.connection.send_fitted(session.channel, frame)
