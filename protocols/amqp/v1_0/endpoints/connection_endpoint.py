"""A connection as its sessions, links and handshake see it: its state, its outbox, its agreed terms."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from engine.api import EngineApi
from engine.values.delivery import Delivery
from protocols.amqp.v1_0.endpoints.confirmations import Confirmations
from protocols.amqp.v1_0.endpoints.idle_time_out import IdleTimes
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.endpoints.states import CONNECTION, FAIL, LOGIN_DUE, OPENED, START, advance
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.errors import FramingError, IllegalState
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_size import fitted_frame
from protocols.connection import ProtocolConnection
from protocols.ending import Ending
from protocols.peer_socket import PeerSocket

FRAME_SIZE_LEAST: Final = 512
CHANNEL_MAX: Final = 65_535


class ConnectionEndpoint(ProtocolConnection):
    """state: of ``states``.  out: the parts of the outbox.

    peer_frame_size, peer_channel_max: the peer's limits.
    link_count, name_bytes: links of all its sessions, and the octets of their names.
    is_due: the sessions may have something to send at the end of this turn.
    accepted: deliveries that the latest dispositions name; the engine settles them together, which costs far less.
    """

    __slots__ = (
        "settings",
        "state",
        "decoder",
        "out",
        "confirmations",
        "ending",
        "idle",
        "login_name",
        "container_id",
        "peer_frame_size",
        "peer_channel_max",
        "link_count",
        "name_bytes",
        "is_due",
        "accepted",
    )

    def __init__(self, engine: EngineApi, socket: PeerSocket, settings: AmqpSettings, now_ms: int) -> None:
        super().__init__(engine, socket, settings.unread_output_bytes, now_ms)
        self.settings = settings
        self.state = LOGIN_DUE if settings.needs_login else START
        self.decoder = Decoder(settings.max_frame_size)
        self.out = self.outbox.parts
        self.confirmations = Confirmations(engine, self.out)
        self.ending = Ending()
        self.idle = IdleTimes(settings, now_ms)
        self.login_name = ""
        self.container_id = ""
        self.peer_frame_size = FRAME_SIZE_LEAST
        self.peer_channel_max = CHANNEL_MAX
        self.link_count = 0
        self.name_bytes = 0
        self.is_due = False
        self.accepted: list[Delivery] = []

    def send(self, octets: bytes) -> None:
        """Send a begin, attach, detach or end, or a frame of a session or link that still waits for its own."""
        self.confirmations.send(octets)
        self.outbox.touch()

    def send_fitted(self, channel: int, frame: Composite) -> None:
        """Send one of these in a frame within the peer's limit.  Raises: FrameSizeTooSmall."""
        self.send(fitted_frame(channel, frame, self.peer_frame_size))

    def send_at_once(self, octets: bytes) -> None:
        """Send a flow of a session or link that the peer knows already."""
        self.out.append(octets)
        self.outbox.touch()

    def stand_for_all(self) -> None:
        """Begin an answer: frames sent from here on in this turn wait until everything before them is durable."""
        self.confirmations.stand_for_all(self.is_refusing)

    def say_at_end(self) -> None:
        """Have the sessions send their pending frames at the end of this turn."""
        self.is_due = True
        self.outbox.touch()

    def settle_accepted(self) -> None:
        """Settle ``accepted``: before any other frame takes effect, and after the last frame of a read."""
        if self.accepted:
            self.engine.acknowledge_all(self.accepted, is_confirmed=False)
            self.accepted.clear()

    def count_link(self, count: int, name_bytes: int, selector_characters: int) -> None:
        """Count a link that has come (1) or gone (-1)."""
        self.link_count += count
        self.name_bytes += name_bytes
        self.count_selector(selector_characters)

    def advance(self, event: int) -> None:
        self.state = advance(CONNECTION, self.state, event)

    def unexpected(self, frame: Composite) -> None:
        """Raises: FramingError for a channel above our channel-max (2.7.1), IllegalState."""
        if self.state == OPENED and self.decoder.channel > self.settings.channel_max:
            raise FramingError(
                f"{frame.NAME} on channel {self.decoder.channel}; allowed is up to {self.settings.channel_max}"
            )
        raise IllegalState(f"{frame.NAME} on channel {self.decoder.channel} is not expected now")

    def end(self, last_words: bytes, late_words: bytes | None = None, is_lost: bool = False) -> None:
        """Read nothing more; send ``last_words`` after everything owed, or ``late_words`` at the deadline."""
        if self.is_ending:
            return
        self.let_go(is_lost)
        self.advance(FAIL)
        self.is_ending = True
        late = last_words if late_words is None else late_words
        self.ending.begin(last_words, late, self.now_ms + self.settings.close_time_ms)
        self.outbox.touch()

    @abstractmethod
    def let_go(self, is_lost: bool) -> None:
        """Drop everything that the sessions hold, and leave the engine."""
