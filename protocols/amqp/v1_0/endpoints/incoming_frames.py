"""The frames of a peer, taken as the states of connection, session and link allow.  Source: AMQP 1.0 part 2."""

from __future__ import annotations

from engine.values.errors import PenstockError
from protocols.amqp.v1_0.endpoints.channels import Channels
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.handshake import Handshake
from protocols.amqp.v1_0.endpoints.session import AmqpSession
from protocols.amqp.v1_0.endpoints.states import CONNECTION, OPENED, UNREAD
from protocols.amqp.v1_0.wire.composite import Composite
from protocols.amqp.v1_0.wire.errors import SessionError, TimedOut, error_of
from protocols.amqp.v1_0.wire.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames import Heartbeat, ProtocolHeader
from protocols.amqp.v1_0.wire.performatives import Close, Disposition, Flow, Open, Transfer
from protocols.peer_times import NO_FRAME


class IncomingFrames:
    """mapped: the sessions, by the peer's channel; ``channels`` owns them."""

    __slots__ = ("connection", "handshake", "channels", "mapped", "blocked")

    def __init__(self, connection: ConnectionEndpoint, handshake: Handshake, channels: Channels) -> None:
        self.connection = connection
        self.handshake = handshake
        self.channels = channels
        self.mapped = channels.mapped
        self.blocked = channels.producers.blocked

    def read(self) -> None:
        """Take the frames that have come, as far as the state and the gates allow."""
        connection = self.connection
        connection.context.sender = connection.client_number  # set here: frames also wait for a password or room
        connection.is_due = True
        decoder = connection.decoder
        mapped = self.mapped
        blocked = self.blocked
        while True:
            session: AmqpSession | None = None
            try:
                while not blocked.is_reading_paused and (connection.state == OPENED or connection.state not in UNREAD):
                    frame = decoder.next_frame()
                    if frame is None:
                        break
                    session = mapped.get(decoder.channel)
                    if session is None:
                        self._take_rare(frame)
                    elif isinstance(frame, Transfer):
                        session.transfer(frame, decoder.payload)
                    elif isinstance(frame, Disposition):
                        session.disposition(frame)
                    elif isinstance(frame, Flow):
                        session.flow(frame)
                    else:
                        self._take_rare(frame)
            except SessionError as error:
                if session is not None:
                    self.channels.fail(session, error)
                    continue  # in one read several sessions may end with an error while others have more frames
                connection.fail(error)
            except PenstockError as error:
                connection.fail(error)
            break
        number = decoder.partial_number()
        if number != NO_FRAME:
            connection.is_holding = True
        if number != connection.idle.partial_number:
            connection.idle.frame_seen(number, connection.now_ms)
        if not connection.outbox.is_touched:
            connection.outbox.touch()

    def _take_rare(self, frame: Composite) -> None:
        """Take any other frame.  Raises: FramingError, IllegalState."""
        connection = self.connection
        if isinstance(frame, ProtocolHeader):
            self.handshake.header(frame)
        elif isinstance(frame, Heartbeat):
            return
        elif (connection.state, frame.CODE) not in CONNECTION:
            connection.unexpected(frame)
        elif isinstance(frame, Open):
            self.handshake.open(frame)
        elif isinstance(frame, Close):
            self._close(frame)
        elif connection.state == OPENED:
            self.channels.take(frame)
        else:
            self.handshake.sasl(frame)

    def _close(self, frame: Close) -> None:
        connection = self.connection
        if frame.error is not None:
            connection.socket.warn(
                f"closed by its peer: {frame.error.condition}: {(frame.error.description or '')[:200]}"
            )
        connection.stand_for_all()
        late = TimedOut(f"the frames before close are not on the disk after {connection.settings.ending_time_ms} ms")
        connection.end(encode_frame(0, Close()), encode_frame(0, Close(error_of(late))))
