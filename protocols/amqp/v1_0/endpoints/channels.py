"""Channels: the mapping of sessions to the peer's channel numbers and to ours (transport 2.5.1 to 2.5.5)."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.values.errors import PenstockError
from protocols.amqp.v1_0.endpoints.attach import LinkFactory
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.dispositions import Dispositions
from protocols.amqp.v1_0.endpoints.session import AmqpSession
from protocols.amqp.v1_0.endpoints.states import FAIL, SESSION, SESSION_DISCARDING, UNMAPPED, advance
from protocols.amqp.v1_0.wire.composites.composite import Composite, error_of
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Detach, End, Flow
from protocols.amqp.v1_0.wire.errors import IllegalState, NotAllowed
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame


@dataclass(slots=True, eq=False)
class Channels:
    """mapped: sessions by the peer's channel; discarding: sessions that we have ended, until the peer's end.

    own: both, by our channel.
    """

    connection: ConnectionEndpoint
    factory: LinkFactory
    dispositions: Dispositions
    mapped: dict[int, AmqpSession] = field(default_factory=dict)
    discarding: dict[int, AmqpSession] = field(default_factory=dict)
    own: dict[int, AmqpSession] = field(default_factory=dict)

    def take(self, frame: Composite) -> None:
        """Take a performative of a channel, if its session's state allows it.  Raises: FramingError, IllegalState."""
        peer_channel = self.connection.decoder.channel
        session = self.mapped.get(peer_channel) or self.discarding.get(peer_channel)
        state = UNMAPPED if session is None else session.state
        if (state, frame.CODE) not in SESSION:
            self.connection.unexpected(frame)
        if isinstance(frame, Begin):
            self._begin(frame, peer_channel)
            return
        assert session is not None, "only a begin has a row without a session"
        if isinstance(frame, End):
            self._end(session)
        elif state == SESSION_DISCARDING:
            return
        elif isinstance(frame, Flow):
            session.flow(frame)
        elif isinstance(frame, Attach):
            session.attach(frame)
        elif isinstance(frame, Detach):
            session.detach(frame)

    def fail(self, session: AmqpSession, error: PenstockError) -> None:
        """End a session because of an error."""
        self.connection.share.charge(len(session.handles))
        self.connection.engine.leave(session.close(is_lost=False))
        self._say_end(session, End(error_of(error)))
        session.state = advance(SESSION, session.state, FAIL)
        del self.mapped[session.peer_channel]
        self.discarding[session.peer_channel] = session

    def output_changed(self) -> None:
        """The socket has become full, or has room again."""
        for session in self.mapped.values():
            session.outgoing.changed()

    def send_on(self) -> bool:
        """The socket has room: send the next pieces of large deliveries; say whether there were any."""
        return any(session.outgoing.send_on() for session in self.mapped.values())

    def rights_changed(self) -> None:
        """End links that may not send any more."""
        for session in self.mapped.values():
            for link in list(session.links.values()):
                link.rights_changed()

    def is_draining(self) -> bool:
        return any(session.draining for session in self.mapped.values())

    def close(self, is_lost: bool) -> None:
        """Drop all sessions."""
        for session in self.mapped.values():
            session.close(is_lost)

    def _begin(self, frame: Begin, peer_channel: int) -> None:
        connection = self.connection
        if peer_channel > connection.settings.channel_max:
            connection.unexpected(frame)
        if frame.remote_channel is not None:
            raise IllegalState("begin answers a session that we have not begun")
        channel = peer_channel
        if channel > connection.peer_channel_max or channel in self.own:
            channel = 0
            while channel in self.own:
                channel += 1
            if channel > connection.peer_channel_max:
                raise NotAllowed(
                    f"begin on channel {peer_channel} cannot be answered: all channels up to the peer's channel-max "
                    f"{connection.peer_channel_max} are in use"
                )
        session = AmqpSession(connection, self.factory, self.dispositions, channel, peer_channel, frame)
        self.mapped[peer_channel] = session
        self.own[channel] = session
        connection.count_later()
        connection.confirmations.defer(session)
        connection.send(encode_frame(channel, session.begin_answer()))

    def _end(self, session: AmqpSession) -> None:
        """Take the peer's end."""
        is_answered = session.state == SESSION_DISCARDING
        session.state = advance(SESSION, session.state, End.CODE)
        (self.discarding if is_answered else self.mapped).pop(session.peer_channel)
        del self.own[session.channel]
        self.connection.count_later()
        if not is_answered:
            self.connection.share.charge(len(session.handles))
            self.connection.engine.leave(session.close(is_lost=False))
            self._say_end(session, End())

    def _say_end(self, session: AmqpSession, end: End) -> None:
        """Send ``end`` after all outcomes of a session without links; it confirms everything before it."""
        connection = self.connection
        outcomes = session.end_turn(connection.out)
        connection.stand_for_all()
        connection.send(outcomes + fitted_frame(session.channel, end, connection.peer_frame_size))
