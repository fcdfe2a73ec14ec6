"""What an attach asks for, and what it is answered.

A refusal takes two frames (transport 2.6.3): an attach without termini, then a detach with the error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from config.destination_options import NO_CONSUMER_OPTIONS
from engine.sources.composite import Destination
from engine.sources.composite import Source as FoundSource
from engine.sources.queue import Queue
from engine.sources.topic import Topic
from engine.values.destination import TEMP_QUEUE, TEMP_TOPIC, is_topic
from engine.values.errors import EngineError, LimitReached, SubscriptionInUse
from engine.values.options import SubscribeOptions
from protocols.amqp.v1_0.endpoints.attach_fields import check_attach
from protocols.amqp.v1_0.endpoints.incoming_link import IncomingLink
from protocols.amqp.v1_0.endpoints.link import Link
from protocols.amqp.v1_0.endpoints.outgoing_link import OutgoingLink, SubscriptionLink
from protocols.amqp.v1_0.endpoints.transactions import CAPABILITIES, CoordinatorLink
from protocols.amqp.v1_0.mapping.addresses import source_of, target_of
from protocols.amqp.v1_0.mapping.delayed_delivery import DELAYED_DELIVERY
from protocols.amqp.v1_0.mapping.subscribe_options import subscription, subscription_name
from protocols.amqp.v1_0.wire.errors import (
    AttachTooLarge,
    FrameSizeTooSmall,
    InvalidField,
    LinkError,
    LinkStolen,
    NotFound,
    TooManyLinks,
    error_of,
)
from protocols.amqp.v1_0.wire.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.performatives import Attach, Detach
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.values import Described, Symbol, UInt, ULong, Value

if TYPE_CHECKING:
    from engine.values.errors import PenstockError
    from protocols.amqp.v1_0.endpoints.session import AmqpSession

SETTLED: Final = 1  # snd-settle-mode
SECOND: Final = 1  # rcv-settle-mode

# delete-on-close (messaging 3.5.10): what every dynamic node here lives by.
LIFETIME: Final[dict[Value, Value]] = {Symbol("lifetime-policy"): Described(ULong(0x2B), [])}


def attach(session: AmqpSession, frame: Attach, handle: int) -> None:
    """Attach a link under our ``handle``, or refuse it."""
    try:
        _check_count(session)
        check_attach(frame)
        _check_size(session, frame, handle)
        if frame.role:
            _attach_outgoing(session, frame, handle)
        else:
            _attach_incoming(session, frame, handle)
    except (EngineError, LinkError) as error:
        refuse(session, frame, handle, error)


def _check_count(session: AmqpSession) -> None:
    """Raises: LimitReached; TooManyLinks where a peer attaches on without detaching what it was refused."""
    connection = session.connection
    limit = connection.settings.link_count
    count = sum(len(one.links) for one in connection.channels.values())
    text = f"{count} links are attached on this connection; the limit is {limit}"
    if count >= 2 * limit:
        raise TooManyLinks(text)
    if count >= limit:
        raise LimitReached(text)


def _check_size(session: AmqpSession, frame: Attach, handle: int) -> None:
    """Raises: AttachTooLarge where the peer could not read the answer, which repeats most of what it says."""
    try:
        answer = _answer(session, frame, handle, frame.source, frame.target)
        fitted_frame(session.channel, answer, session.connection.peer_frame_size)
    except FrameSizeTooSmall as error:
        raise AttachTooLarge(str(error)) from None


def refuse(session: AmqpSession, frame: Attach, handle: int, error: PenstockError) -> None:
    link = Link(session, frame.name, handle, frame.handle)
    link.is_detaching = True
    session.add_link(link)
    # Neither terminus: go-amqp waits for the detach only if both are null.
    session.connection.send_fitted(session.channel, _answer(session, frame, handle, None, None))
    session.connection.send_fitted(session.channel, Detach(handle, True, error_of(error)))


def _attach_incoming(session: AmqpSession, frame: Attach, handle: int) -> None:
    connection = session.connection
    is_second = frame.rcv_settle_mode == SECOND
    target = frame.target
    if isinstance(target, Coordinator):
        coordinator = CoordinatorLink(session, frame.name, handle, frame.handle, frame.source)
        session.add_link(coordinator)
        connection.confirmations.hold(coordinator)
        answer = _answer(session, frame, handle, frame.source, Coordinator(list(CAPABILITIES)))
        connection.send_fitted(session.channel, answer)
        coordinator.grant()
        return
    if target is None:
        raise InvalidField("a producer's attach has no target")
    destination: Destination | None = None
    node: Queue | Topic | None = None
    if target.dynamic:
        destination = node = _temporary(session, target.capabilities)
        target = replace(target, address=node.name, dynamic_node_properties=LIFETIME)
    elif target.address is not None:
        destination = target_of(connection.broker, connection, target.address, target.capabilities)
    link = IncomingLink(
        session,
        frame.name,
        handle,
        frame.handle,
        destination,
        is_second,
        frame.snd_settle_mode,
        None if frame.source is None else frame.source.outcomes,
    )
    link.node = node
    if destination is not None:
        link.producer = connection.broker.advisories.producer_added(connection, destination)
    link.delivery_count = frame.initial_delivery_count or 0
    session.add_link(link)
    connection.confirmations.hold(link)
    answer = _answer(session, frame, handle, frame.source, target)
    if DELAYED_DELIVERY in (frame.desired_capabilities or ()):
        answer = replace(answer, offered_capabilities=[DELAYED_DELIVERY])
    connection.send_fitted(session.channel, answer)
    link.grant()


def _attach_outgoing(session: AmqpSession, frame: Attach, handle: int) -> None:
    connection = session.connection
    source = frame.source
    if source is None:
        _attach_subscription(session, frame, handle)
        return
    node: Queue | Topic | None = None
    found: FoundSource
    if source.dynamic:
        found = node = _temporary(session, source.capabilities)
        uri = NO_CONSUMER_OPTIONS
        source = replace(source, address=node.name, dynamic_node_properties=LIFETIME)
    elif source.address is None:
        raise InvalidField("a consumer's attach has no source address")
    else:
        found, uri = source_of(connection.broker, connection, source.address, source.capabilities)
    defaults = connection.settings.defaults
    options, applied = subscription(frame.name, source, uri, is_topic(found.kind), defaults)
    link = OutgoingLink(
        session,
        frame.name,
        handle,
        frame.handle,
        frame.snd_settle_mode == SETTLED,
        source.default_outcome,
        frame.max_message_size or 0,
    )
    try:
        consumer = connection.broker.subscribe(connection, found, options)
    except SubscriptionInUse:
        if not _steal(session, frame.name, options):
            raise
        consumer = connection.broker.subscribe(connection, found, options)
    consumer.adapter = link
    link.consumer = consumer
    link.node = node
    if options.is_durable:
        link.durable = ("" if options.is_global else connection.container_id, options.subscription)
        connection.confirmations.stand_for_all()
    session.add_link(link)
    connection.confirmations.hold(link)
    connection.send_fitted(session.channel, _answer(session, frame, handle, applied, frame.target))
    if session.is_shut or link.is_behind:
        connection.broker.hold(consumer, False)
    connection.broker.start(consumer)


def _steal(session: AmqpSession, name: str, options: SubscribeOptions) -> bool:
    """Take a durable subscription from another connection of the same container; say whether that had it.

    So a client that has lost its connection goes on before the gateway has noticed (transport 2.6.1).  On one
    connection JMS has the second consumer refused, and of two connections with one client id the second connection.
    """
    connection = session.connection
    key = (connection.container_id, options.subscription)
    if options.is_shared or not options.is_durable:
        return False
    known = connection.broker.subscriptions.named.get((*key, True))
    if known is None:
        return False
    for queue in [*known.queues.values(), *([] if known.carrier is None else [known.carrier])]:
        for consumer in queue.consumers.values():
            link = consumer.adapter
            if (
                consumer.departure is None
                and consumer.client is not connection
                and isinstance(link, OutgoingLink)
                and link.durable == key
                and link.name == name
            ):
                link.detach(LinkStolen(f"another connection of {key[0][:200]!r} has attached {name[:200]!r}"), None)
                return True
    return False


def _attach_subscription(session: AmqpSession, frame: Attach, handle: int) -> None:
    """Answer a consumer without a source: it asks whether a durable subscription is there, to delete it (Qpid JMS)."""
    connection = session.connection
    client_id = "" if "global" in (frame.desired_capabilities or ()) else connection.container_id
    name = subscription_name(frame.name)
    known = connection.broker.subscriptions.find(connection, client_id, name)
    if known is None:
        raise NotFound(f"there is no durable subscription {name[:200]!r} of client id {client_id[:200]!r}")
    session.add_link(SubscriptionLink(session, frame.name, handle, frame.handle, (client_id, name)))
    source = Source(known.source, UInt(2), "never", distribution_mode="copy", capabilities=["topic"])
    connection.send_fitted(session.channel, _answer(session, frame, handle, source, frame.target))


def _temporary(session: AmqpSession, capabilities: list[str] | None) -> Queue | Topic:
    """Make a dynamic node: a temporary destination of this connection, deleted when its link is closed."""
    connection = session.connection
    kind = TEMP_TOPIC if "temporary-topic" in (capabilities or ()) else TEMP_QUEUE
    return connection.broker.open_temporary(connection, kind)


def _answer(
    session: AmqpSession,
    frame: Attach,
    handle: int,
    source: Source | None,
    target: Target | Coordinator | None,
) -> Attach:
    """Return our half: the modes as they were asked for (some clients insist), our handle, the termini in use."""
    return Attach(
        frame.name,
        handle,
        not frame.role,
        frame.snd_settle_mode,
        frame.rcv_settle_mode,
        source,
        target,
        initial_delivery_count=0 if frame.role else None,
        max_message_size=None if frame.role else ULong(session.connection.settings.body_bytes),
    )
