"""The handshake of a connection: protocol headers, the SASL layer, open.  ``states.CONNECTION`` has the moves.

Sources: AMQP 1.0 part 2, 2.2 and 2.4; part 5, 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.values.errors import ClientIdInUse, LimitReached, PenstockError
from protocols.amqp.sasl import ANONYMOUS, EXTERNAL, PLAIN, Challenge, Check, Credentials, Login, Proof, Step, Success
from protocols.amqp.v1_0.endpoints.connection_endpoint import CHANNEL_MAX, FRAME_SIZE_LEAST, ConnectionEndpoint
from protocols.amqp.v1_0.endpoints.states import (
    AMQP_HEADER,
    CHECK,
    CHECKED,
    CONNECTION,
    LOGGED_IN,
    LOGIN_DUE,
    SASL_HEADER,
)
from protocols.amqp.v1_0.mapping.delayed_delivery import DELAYED_DELIVERY
from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.performatives import Close, Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from protocols.amqp.v1_0.wire.errors import FramingError, symbol_for
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, ProtocolHeader, protocol_header
from protocols.amqp.v1_0.wire.types.values import Symbol, Value
from protocols.peer_socket import host_of

FRAME_SIZE_UNLIMITED: Final = 0xFFFFFFFF

SERVER_NAME_MOST: Final = 120  # octets of it in our open, which must fit into the smallest frame (2.4.1)

OUTCOME_OK: Final = 0
OUTCOME_AUTH: Final = 1

CAPABILITIES: Final = ("ANONYMOUS-RELAY", DELAYED_DELIVERY, "SHARED-SUBS")
SOLE_CONNECTION: Final = "sole-connection-for-container"


@dataclass(slots=True, eq=False)
class Handshake:
    """is_sole: no other connection may have its container-id.

    proof_octets: the server's own proof (SCRAM), sent once the client's proof has been accepted.
    authorization: the user that the client says its token is of; "" if it leaves that to the token.
    """

    connection: ConnectionEndpoint
    credentials: Credentials
    login: Login | None = None
    is_sole: bool = False
    proof_octets: bytes | None = None
    authorization: str = ""

    def header(self, header: ProtocolHeader) -> None:
        connection = self.connection
        event = SASL_HEADER if header.layer == SASL_LAYER else AMQP_HEADER
        if not header.is_supported() or (connection.state, event) not in CONNECTION:
            # Send the header that would be accepted, and close (transport 2.2).
            connection.end(self.wanted_header())
            return
        connection.out.append(protocol_header(header.layer))
        connection.advance(event)
        if event == AMQP_HEADER:
            return
        needs_login = connection.settings.needs_login
        mechanisms: tuple[str, ...] = (PLAIN, ANONYMOUS)
        if needs_login:
            mechanisms = (*self.credentials.scram_mechanisms(), PLAIN, *self.credentials.token_mechanisms())
        identity = connection.socket.identity()
        if identity:
            mechanisms = (EXTERNAL, *mechanisms)
        self.login = Login(mechanisms, self.credentials, identity)
        connection.out.append(encode_sasl_frame(SaslMechanisms(list(mechanisms))))

    def wanted_header(self) -> bytes:
        """Return the header that is accepted now."""
        return protocol_header(SASL_LAYER if self.connection.state == LOGIN_DUE else AMQP_LAYER)

    def sasl(self, frame: Composite) -> None:
        """Take a frame of the SASL layer; the table has a row for it."""
        login = self.login
        assert login is not None, "SASL frames come after its header"
        self.connection.advance(frame.CODE)
        if isinstance(frame, SaslInit):
            self._take_step(login.start(frame.mechanism, frame.initial_response))
        elif isinstance(frame, SaslResponse):
            self._take_step(login.respond(frame.response))

    def checked(self, is_allowed: bool) -> None:
        """Take the result of the check of login and passcode."""
        connection = self.connection
        connection.advance(CHECKED)
        if is_allowed and self.authorization in ("", self._user()):
            self._logged_in(Success(connection.login_name, self.proof_octets))
        else:
            self._login_failed("login and passcode match no user")

    def open(self, frame: Open) -> None:
        """Raises: FramingError, NotAllowed."""
        connection = self.connection
        if connection.decoder.channel:  # 2.4.1
            raise FramingError(f"open came on channel {connection.decoder.channel}; allowed is 0")
        size = FRAME_SIZE_UNLIMITED if frame.max_frame_size is None else frame.max_frame_size
        if size < FRAME_SIZE_LEAST:
            raise FramingError(f"max-frame-size is {size}; allowed is {FRAME_SIZE_LEAST} and above")
        connection.peer_frame_size = min(size, connection.settings.max_frame_size)
        connection.peer_channel_max = CHANNEL_MAX if frame.channel_max is None else frame.channel_max
        connection.idle.agree(frame.idle_time_out)
        self.is_sole = SOLE_CONNECTION in (frame.desired_capabilities or ())
        connection.container_id = frame.container_id
        host = host_of(connection.socket.peer())
        try:
            connection.engine.introduce(connection, host, frame.container_id, self.is_sole)
        except LimitReached as error:
            self.refuse(error)
            return
        except ClientIdInUse as error:
            # A property in open announces the failure; the client then waits for the close (Qpid JMS).
            self.refuse(error, {Symbol("invalid-field"): Symbol("container-id")})
            return
        connection.out.append(encode_frame(0, self._answer()))
        connection.advance(frame.CODE)
        connection.socket.tick_soon()

    def refuse(self, error: PenstockError, info: dict[Value, Value] | None = None) -> None:
        """Open and close at once: before open no frame could carry an error."""
        answer = self._answer()
        answer.properties = {Symbol("amqp:connection-establishment-failed"): True}
        frame_most = self.connection.peer_frame_size
        close = fitted_frame(0, Close(Error(symbol_for(error), str(error), info)), frame_most)
        self.connection.end(fitted_frame(0, answer, frame_most) + close)

    # -- the steps

    def _take_step(self, step: Step) -> None:
        connection = self.connection
        if isinstance(step, Challenge):
            connection.out.append(encode_sasl_frame(SaslChallenge(step.octets)))
        elif isinstance(step, Check):
            connection.login_name = step.login
            self.authorization = step.authorization
            if not connection.settings.needs_login:
                self._logged_in(Success(step.login))
                return
            self._await_check()
            connection.socket.authenticate(step.login, step.passcode)
        elif isinstance(step, Proof):
            connection.login_name = step.login
            self.proof_octets = step.octets
            self._await_check()
            connection.socket.login_proved(step.login, step.is_right)
        elif isinstance(step, Success):
            self._logged_in(step)
        else:
            self._login_failed(step.reason)

    def _user(self) -> str:
        found = self.connection.socket.logged_in()
        return "" if found is None else found.user

    def _await_check(self) -> None:
        connection = self.connection
        connection.advance(CHECK)
        connection.is_holding = True  # the octets behind it wait
        connection.socket.pause_reading()

    def _logged_in(self, success: Success) -> None:
        connection = self.connection
        self.login = None
        connection.login_name = success.login
        if connection.settings.needs_login:
            connection.login_name = connection.take_login(success.login, connection.settings.groups)
        connection.out.append(encode_sasl_frame(SaslOutcome(OUTCOME_OK, success.octets)))
        connection.advance(LOGGED_IN)
        connection.decoder.expect_header()

    def _login_failed(self, reason: str) -> None:
        self.connection.socket.warn(f"login refused: {reason}")
        self.connection.end(encode_sasl_frame(SaslOutcome(OUTCOME_AUTH)))

    def _answer(self) -> Open:
        settings = self.connection.settings
        server = settings.server.encode()[:SERVER_NAME_MOST].decode(errors="ignore")
        offered = [*CAPABILITIES, SOLE_CONNECTION] if self.is_sole else list(CAPABILITIES)
        return Open(
            server,
            None,
            settings.max_frame_size,
            settings.channel_max,
            settings.idle_time_ms // 2 or None,
            offered_capabilities=offered,
            properties={Symbol("product"): server},
        )
