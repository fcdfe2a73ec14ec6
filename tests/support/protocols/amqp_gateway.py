"""AMQP connections, and STOMP ones beside them, on a real engine with the store in memory; no sockets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from engine.values.message import AMQP_1_0
from protocols.amqp.sasl import Credentials, ScramVerifier
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.mapping.selector_properties import AmqpPropertyReader
from protocols.amqp.v1_0.mapping.stomp_form import StompForm
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.delivery_states import Accepted
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Symbol
from protocols.stomp.session.settings import SessionSettings
from tests.support.fakes import FakeLink
from tests.support.protocols.socket_peer import SocketPeer
from tests.support.protocols.stomp_gateway import StompGateway

F = TypeVar("F", bound=Composite)

DURABLE = bytes.fromhex("005370c0020141")


class NoUsers(Credentials):
    def scram_mechanisms(self) -> tuple[str, ...]:
        return ()

    def scram(self, mechanism: str, login: str) -> ScramVerifier:
        raise AssertionError("nobody has a verifier")

    def nonce(self) -> str:
        return "nonce"


def text(body: Any, *, durable: bool = False) -> bytes:
    """Return a message with an amqp-value."""
    return (DURABLE if durable else b"") + b"\x00\x53\x77" + encode(body)


class AmqpGateway(StompGateway):
    """A StompGateway with AMQP peers as well."""

    def __init__(
        self, *addresses: Any, amqp: AmqpSettings | None = None, credentials: Credentials | None = None, **options: Any
    ) -> None:
        super().__init__(*addresses, settings=SessionSettings(converter=StompForm()), **options)
        self.amqp_settings = amqp or AmqpSettings()
        self.credentials = credentials or NoUsers()
        self.read_properties_by(AMQP_1_0, AmqpPropertyReader())

    def open_amqp(self) -> AmqpPeer:
        """Accept a connection without an octet."""
        peer = AmqpPeer(self)
        self.peers.append(peer)
        return peer

    def connect_amqp(self, container: str = "me", **fields: Any) -> AmqpPeer:
        """Return a peer that has exchanged headers and open."""
        peer = self.open_amqp()
        peer.send_octets(protocol_header(AMQP_LAYER))
        peer.send(Open(container, **fields))
        header, answer = peer.take()
        assert header.NAME == "protocol header"
        assert isinstance(answer, Open)
        peer.opened = answer
        return peer

    def amqp_session(self, **fields: Any) -> AmqpPeer:
        """Return a peer with a session on channel 0."""
        peer = self.connect_amqp(**fields)
        peer.begin()
        return peer

    def amqp_sender(self, address: str | None, *given: int, **fields: Any) -> AmqpPeer:
        """Return a peer with a session and, unless it asks for another, a producer on handle 0."""
        peer = self.amqp_session()
        peer.attach_sender(address, *given, **fields)
        return peer


class AmqpPeer(SocketPeer):
    """A client that speaks AMQP.

    delivery_id: of the next transfer; payloads: of the transfers taken last.
    frame_most: octets of a frame that it accepts.
    """

    def __init__(self, gateway: AmqpGateway) -> None:
        link = FakeLink(f"192.0.2.9:{41_000 + len(gateway.peers)}")
        self.connection = AmqpConnection(
            gateway.broker, link, gateway.amqp_settings, gateway.credentials, gateway.clock.now_ms
        )
        super().__init__(gateway, link, self.connection)
        self.gateway = gateway
        self.frame_most = 1 << 32
        self.delivery_id = 0
        self.payloads: list[bytes] = []
        self.channels: list[int] = []
        self.opened: Open | None = None
        self.mechanisms: list[str] = []
        self._decoder = Decoder(2**32)

    def send(self, performative: Composite, payload: bytes = b"", channel: int = 0) -> None:
        self.send_octets(encode_frame(channel, performative, payload))

    def begin(self, channel: int = 0, incoming_window: int = 1_000, **fields: Any) -> Begin:
        self.send(Begin(None, 0, incoming_window, 1_000, **fields), channel=channel)
        return self.one(Begin)

    def attach_sender(self, address: str | None, handle: int = 0, channel: int = 0, **fields: Any) -> Attach:
        """Attach a producer; also take the flow that grants it credit."""
        capabilities = fields.pop("capabilities", None)
        name = fields.pop("name", f"sender {handle}")
        target = Target(address, capabilities=capabilities)
        self.send(
            Attach(name, handle, False, source=Source(), target=target, initial_delivery_count=0, **fields),
            channel=channel,
        )
        attach, flow = self.take()
        assert isinstance(attach, Attach), attach
        assert isinstance(flow, Flow), flow
        return attach

    def attach_receiver(
        self, address: str | None, handle: int = 1, credit: int = 0, channel: int = 0, **fields: Any
    ) -> Attach:
        name = fields.pop("name", f"receiver {handle}")
        source = fields.pop("source", None) or Source(address, **fields.pop("of_source", {}))
        self.send(Attach(name, handle, True, source=source, target=Target(), **fields), channel=channel)
        attach = self.one(Attach)
        if credit:
            self.credit(handle, credit, channel=channel)
        return attach

    def attach_coordinator(self, handle: int = 9, channel: int = 0) -> Attach:
        self.send(
            Attach(f"txn {handle}", handle, False, source=Source(), target=Coordinator(), initial_delivery_count=0),
            channel=channel,
        )
        attach, _ = self.take()
        assert isinstance(attach, Attach)
        return attach

    def credit(self, handle: int, credit: int, seen: int = 0, channel: int = 0, **fields: Any) -> None:
        """Grant credit; ``seen``: deliveries that have arrived on the link."""
        self.send(Flow(0, 1_000_000, 0, 1_000, handle, seen, credit, **fields), channel=channel)

    def transfer(self, payload: bytes, handle: int = 0, channel: int = 0, **fields: Any) -> int:
        """Send one message; return its delivery-id."""
        delivery_id = self.delivery_id
        self.delivery_id += 1
        self.send(Transfer(handle, delivery_id, b"%d" % delivery_id, 0, **fields), payload, channel)
        return delivery_id

    def publish(self, *bodies: Any, durable: bool = False, handle: int = 0) -> None:
        """Send texts, and take their acceptance."""
        for body in bodies:
            delivery_id = self.transfer(text(body, durable=durable), handle)
            assert self.one(Disposition) == Disposition(True, delivery_id, None, True, Accepted())

    def dispose(self, first: int, state: Any, last: int | None = None, settled: bool = True, channel: int = 0) -> None:
        self.send(Disposition(True, first, last, settled, state), channel=channel)

    def take(self) -> list[Composite]:
        """Return the frames since the last call; ``payloads`` and ``channels`` belong to them."""
        frames: list[Composite] = []
        self.payloads = []
        self.channels = []
        self._decoder.max_frame_size = self.frame_most
        self._decoder.receive_data(self.octets)
        self.octets = b""
        while (frame := self._decoder.next_frame()) is not None:
            frames.append(replace(frame) if isinstance(frame, Transfer) else frame)  # the next may be the same object
            self.payloads.append(self._decoder.payload)
            self.channels.append(self._decoder.channel)
        return frames

    def one(self, kind: type[F]) -> F:
        """Return the only received frame, which must be of that kind."""
        frames = self.take()
        assert [type(frame) for frame in frames] == [kind], frames
        return frames[0]  # type: ignore[return-value]

    def transfers(self) -> list[Transfer]:
        """Return the received transfers; no other frame may have come."""
        frames = self.take()
        assert all(isinstance(frame, Transfer) for frame in frames), frames
        return frames  # type: ignore[return-value]

    def messages(self) -> list[bytes]:
        """Return the payloads of the received transfers; no other frame may have come."""
        self.transfers()
        return self.payloads

    def refusal(self) -> tuple[str, str]:
        """Return condition and text of a refused attach, which is two frames."""
        attach, detach = self.take()
        assert isinstance(attach, Attach)
        assert isinstance(detach, Detach)
        assert (attach.target if attach.role else attach.source) is None
        return said(detach)

    def error(self) -> tuple[type[Composite], str, str]:
        """Return the only received frame, which ends something because of an error."""
        (frame,) = self.take()
        assert isinstance(frame, (Close, End, Detach)), frame
        return (type(frame), *said(frame))

    def expect_header(self) -> None:
        """End the login: a protocol header comes next."""
        self._decoder.expect_header()


def said(frame: Close | End | Detach) -> tuple[str, str]:
    assert frame.error is not None
    return frame.error.condition, frame.error.description or ""


def capabilities(*names: str) -> list[str]:
    return [Symbol(name) for name in names]


HEADERS = {SASL_LAYER: protocol_header(SASL_LAYER), AMQP_LAYER: protocol_header(AMQP_LAYER)}


def queue_of(*messages: Any, durable: bool = False, **options: Any) -> tuple[AmqpGateway, AmqpPeer]:
    """Return a gateway with messages in queue q, and a peer with a session."""
    gateway = AmqpGateway(**options)
    peer = gateway.amqp_session()
    peer.attach_sender("q")
    peer.publish(*messages, durable=durable)
    return gateway, peer
