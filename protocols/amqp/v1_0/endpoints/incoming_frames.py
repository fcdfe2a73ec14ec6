"""The frames of a peer, taken as the states of connection, session and link allow.  Source: AMQP 1.0 part 2."""

from __future__ import annotations

from typing import Final

from engine.values.errors import PenstockError
from protocols.amqp.v1_0.endpoints.channels import Channels
from protocols.amqp.v1_0.endpoints.connection_endpoint import ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.handshake import Handshake
from protocols.amqp.v1_0.endpoints.states import CONNECTION, OPENED, UNREAD
from protocols.amqp.v1_0.wire.composites.composite import Composite, error_of
from protocols.amqp.v1_0.wire.composites.performatives import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    TRANSFER,
    Close,
    Disposition,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslResponse
from protocols.amqp.v1_0.wire.errors import SessionError, TimedOut
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import HEARTBEAT, PROTOCOL_HEADER, Heartbeat, ProtocolHeader
from protocols.connection import end_reading
from protocols.input_share import COMMON_STEPS, FRAMES_AT_ONCE, REFUSED_STEPS

# Steps of a turn that the frames take which are neither transfers, dispositions nor flows of a session.  A step is some
# 25 lines of Python.
FRAME_STEPS: Final[dict[int, int]] = {
    PROTOCOL_HEADER: 10,
    SaslInit.CODE: 30,
    SaslResponse.CODE: 30,
    OPEN: 30,
    BEGIN: 10,
    ATTACH: 50,  # and one for each character of the selector
    DETACH: 12,
    END: 6,  # and one for each link
    CLOSE: 15,
    HEARTBEAT: 1,
    # of a session that has ended
    FLOW: 3,
    TRANSFER: 3,
    DISPOSITION: 3,
}
DECODED_A_STEP: Final = 2  # octets of a performative that is read by the complete rules


class IncomingFrames:
    """mapped: the sessions, by the peer's channel; ``channels`` owns them."""

    __slots__ = ("connection", "handshake", "channels", "mapped")

    def __init__(self, connection: ConnectionEndpoint, handshake: Handshake, channels: Channels) -> None:
        self.connection = connection
        self.handshake = handshake
        self.channels = channels
        self.mapped = channels.mapped

    def read(self) -> None:
        """Take the frames that have come, as far as the state and the gates allow."""
        connection = self.connection
        connection.context.sender = connection.client_number  # set here: frames also wait for a password or room
        connection.is_due = True
        decoder = connection.decoder
        mapped = self.mapped
        share = connection.share
        while True:
            try:
                for _ in range(FRAMES_AT_ONCE):
                    if share.is_paused or (connection.state != OPENED and connection.state in UNREAD):
                        break
                    frame = decoder.next_frame()
                    if frame is None:
                        break
                    session = mapped.get(decoder.channel)
                    if session is not None and isinstance(frame, Disposition):
                        session.disposition(frame)
                        continue
                    if connection.accepted:
                        connection.settle_accepted()
                    if session is None:
                        self._take_rare(frame)
                    elif isinstance(frame, Transfer):
                        session.transfer(frame, decoder.payload)
                    elif isinstance(frame, Flow):
                        session.flow(frame)
                    else:
                        self._take_rare(frame)
                else:
                    if not share.charge(COMMON_STEPS + decoder.take_decoded() // DECODED_A_STEP):
                        continue
            except SessionError as error:
                if session is not None:
                    self.channels.fail(session, error)
                    if not share.charge(REFUSED_STEPS):
                        continue  # in one read several sessions may end with an error while others have more frames
                else:
                    connection.fail(error)
            except PenstockError as error:
                connection.fail(error)
            break
        if connection.accepted:
            connection.settle_accepted()
        end_reading(connection, connection.idle, decoder.partial_number())

    def _take_rare(self, frame: Composite) -> None:
        """Take any other frame.  Raises: FramingError, IllegalState."""
        connection = self.connection
        steps = FRAME_STEPS.get(frame.CODE, REFUSED_STEPS) + connection.decoder.take_decoded() // DECODED_A_STEP
        connection.share.charge(steps)
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
        late = TimedOut(f"the frames before close are not on the disk after {connection.settings.close_time_ms} ms")
        connection.end(encode_frame(0, Close()), encode_frame(0, Close(error_of(late))))
