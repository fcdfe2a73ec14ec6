"""What an attach asks for, and what it is answered.

A refusal takes two frames (transport 2.6.3): an attach without the terminus that we would have, then a detach with
the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.destination import TOPIC
from engine.errors import EngineError
from protocols.amqp.v1_0.addresses import source_of, target_of
from protocols.amqp.v1_0.codec import encode_frame
from protocols.amqp.v1_0.errors import InvalidField, LinkError, NotFound, NotImplementedHere
from protocols.amqp.v1_0.link import IncomingLink, Link, OutgoingLink, error_of
from protocols.amqp.v1_0.performatives import Attach, Coordinator, Detach, Source, Target
from protocols.amqp.v1_0.subscribing import subscription
from protocols.amqp.v1_0.transaction import CAPABILITIES, CoordinatorLink
from protocols.amqp.v1_0.values import ULong

if TYPE_CHECKING:
    from engine.errors import PenstockError
    from protocols.amqp.v1_0.session import AmqpSession

SETTLED: Final = 1  # snd-settle-mode
SECOND: Final = 1  # rcv-settle-mode


def attach(session: AmqpSession, frame: Attach, handle: int) -> None:
    """Attach a link under our ``handle``, or refuse it."""
    try:
        if frame.role:
            _attach_outgoing(session, frame, handle)
        else:
            _attach_incoming(session, frame, handle)
    except (EngineError, LinkError) as error:
        refuse(session, frame, handle, error)


def refuse(session: AmqpSession, frame: Attach, handle: int, error: PenstockError) -> None:
    link = Link(session, frame.name, handle, frame.handle)
    link.is_detaching = True
    session.add_link(link)
    answer = (
        _answer(session, frame, handle, None, frame.target)
        if frame.role
        else _answer(session, frame, handle, frame.source, None)
    )
    session.connection.send(encode_frame(session.channel, answer))
    session.connection.send(encode_frame(session.channel, Detach(handle, True, error_of(error))))


def _attach_incoming(session: AmqpSession, frame: Attach, handle: int) -> None:
    connection = session.connection
    is_second = frame.rcv_settle_mode == SECOND
    target = frame.target
    if isinstance(target, Coordinator):
        coordinator = CoordinatorLink(session, frame.name, handle, frame.handle)
        session.add_link(coordinator)
        answer = _answer(session, frame, handle, frame.source, Coordinator(list(CAPABILITIES)))
        connection.send(encode_frame(session.channel, answer))
        coordinator.grant()
        return
    if target is None:
        raise InvalidField("a producer's attach has no target")
    if target.dynamic:
        raise NotImplementedHere("dynamic targets are not supported yet")
    destination = None if target.address is None else target_of(connection, target.address, target.capabilities)
    link = IncomingLink(session, frame.name, handle, frame.handle, destination, is_second)
    link.delivery_count = frame.initial_delivery_count or 0
    session.add_link(link)
    connection.send(encode_frame(session.channel, _answer(session, frame, handle, frame.source, target)))
    link.grant()


def _attach_outgoing(session: AmqpSession, frame: Attach, handle: int) -> None:
    connection = session.connection
    source = frame.source
    if source is None:
        raise NotFound(f"no subscription {frame.name[:200]!r}")
    if source.dynamic:
        raise NotImplementedHere("dynamic sources are not supported yet")
    if source.address is None:
        raise InvalidField("a consumer's attach has no source address")
    destination, uri = source_of(connection, source.address, source.capabilities)
    options, applied = subscription(frame.name, source, uri, destination.kind == TOPIC)
    link = OutgoingLink(
        session,
        frame.name,
        handle,
        frame.handle,
        frame.snd_settle_mode == SETTLED,
        source.default_outcome,
        bool(source.durable),
    )
    consumer = connection.broker.subscribe(connection, destination, options)
    consumer.adapter = link
    link.consumer = consumer
    session.add_link(link)
    connection.send(encode_frame(session.channel, _answer(session, frame, handle, applied, frame.target)))
    connection.broker.start(consumer)


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
