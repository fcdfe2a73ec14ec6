"""OpenWire connections, and STOMP and AMQP ones beside them, on a real engine with the store in memory; no sockets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from engine.values.message import OPENWIRE
from gateway.settings.conversions import CONVERTERS
from protocols import map_message as words
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.converter import SharedForms
from protocols.map_message import Map, Typed
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.mapping.contents import text_content, text_of
from protocols.openwire.mapping.selector_properties import OpenWirePropertyReader
from protocols.openwire.session.acknowledgements import STANDARD
from protocols.openwire.session.openwire_session import OpenWireSession
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    BrokerInfo,
    Command,
    ConnectionInfo,
    ConsumerInfo,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    ProducerInfo,
    Response,
    Structure,
    TransactionInfo,
    WireFormatInfo,
)
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.identities import (
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransactionId,
    MessageId,
    ProducerId,
    Throwable,
)
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import TextMessage, WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode
from protocols.stomp.session.settings import SessionSettings
from tests.support.fakes import FakeLink
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.socket_peer import SocketPeer

C = TypeVar("C", bound=Structure)


def queue(name: str) -> Destination:
    return Destination(identities.QUEUE, name)


def topic(name: str) -> Destination:
    return Destination(identities.TOPIC, name)


class OpenWireGateway(AmqpGateway):
    """A gateway for peers of every protocol."""

    def __init__(self, *addresses: Any, openwire: OpenWireSettings | None = None, **options: Any) -> None:
        options.setdefault("amqp", AmqpSettings())
        super().__init__(*addresses, **options)
        converter = SharedForms(CONVERTERS)
        self.settings = SessionSettings(converter=converter)
        self.amqp_settings = replace(self.amqp_settings, converter=converter)
        self.openwire_settings = replace(openwire or OpenWireSettings(), converter=converter)
        self.read_properties_by(OPENWIRE, OpenWirePropertyReader())

    def open_openwire(self) -> OpenWirePeer:
        """Accept a connection without an octet."""
        peer = OpenWirePeer(self)
        self.peers.append(peer)
        return peer

    def negotiated(self, version: int = VERSION, values: Map | None = None) -> OpenWirePeer:
        """Return a peer that has exchanged WireFormatInfo."""
        peer = self.open_openwire()
        peer.version = version
        peer.send(WireFormatInfo(version=version, marshalled_properties=write_map(values or {})))
        info, broker = peer.take()
        assert isinstance(info, WireFormatInfo)
        assert isinstance(broker, BrokerInfo)
        return peer

    def connect_openwire(self, client_id: str = "", version: int = VERSION, **fields: Any) -> OpenWirePeer:
        """Return a peer whose ConnectionInfo is answered."""
        peer = self.negotiated(version)
        if "connection_id" in fields:
            peer.connection_id = fields.pop("connection_id")
        peer.ask(
            ConnectionInfo(
                connection_id=ConnectionId(peer.connection_id), client_id=client_id or peer.connection_id, **fields
            )
        )
        return peer

    def openwire_consumer(self, destination: Destination, **fields: Any) -> OpenWirePeer:
        """Return a connected peer with consumer 1."""
        peer = self.connect_openwire()
        peer.consume(destination, **fields)
        return peer


class OpenWirePeer(SocketPeer):
    """A client that speaks OpenWire.  command_id: of its last command."""

    def __init__(self, gateway: OpenWireGateway) -> None:
        number = len(gateway.peers)
        link = FakeLink(f"192.0.2.7:{42_000 + number}")
        self.session = OpenWireSession(gateway.broker, link, gateway.openwire_settings, gateway.clock.now_ms)
        super().__init__(gateway, link, self.session)
        self.gateway = gateway
        self.connection_id = f"ID:test-{number}"
        self.version = VERSION
        self.command_id = 0
        self.sequence = 0
        self._decoder = FrameDecoder(1 << 30)

    def send(self, command: Structure) -> None:
        self.send_octets(encode(command, self.version))

    def ask(self, command: Command) -> None:
        """Send a command whose Response must come, as the first one."""
        assert isinstance(self.answer(command), Response)

    def refused(self, command: Command) -> Throwable:
        """Send a command, and return the exception that answers it."""
        answer = self.answer(command)
        assert isinstance(answer, ExceptionResponse), answer
        assert answer.exception is not None
        return answer.exception

    def answer(self, command: Command) -> Structure:
        self.command_id += 1
        command.command_id = self.command_id
        command.response_required = True
        self.send(command)
        answer, *_ = self.take()
        assert isinstance(answer, Response), answer
        assert answer.correlation_id == self.command_id
        return answer

    def take(self) -> list[Structure]:
        """Return the commands since the last call."""
        found: list[Structure] = []
        self._decoder.receive_data(self.octets)
        self.octets = b""
        while (frame := self._decoder.next_frame()) is not None:
            found.append(decode(frame, self.version))
        return found

    def one(self, kind: type[C]) -> C:
        (found,) = self.take()
        assert isinstance(found, kind), found
        return found

    # -- consumers

    def consumer_id(self, number: int = 1) -> ConsumerId:
        return ConsumerId(self.connection_id, 1, number)

    def consume(self, destination: Destination, number: int = 1, prefetch: int = 1_000, **fields: Any) -> None:
        self.command_id += 1
        info = ConsumerInfo(
            self.command_id,
            True,
            consumer_id=self.consumer_id(number),
            destination=destination,
            prefetch_size=prefetch,
            **fields,
        )
        octets = self.octets
        self.octets = b""
        self.send(info)
        (answer, *others) = self._decoded()
        assert isinstance(answer, Response), answer
        assert not isinstance(answer, ExceptionResponse), answer
        self.octets = octets + b"".join(encode(one, self.version) for one in others)

    def dispatches(self) -> list[MessageDispatch]:
        """Return the commands since the last call, which must all be dispatches."""
        found = self.take()
        assert [one for one in found if not isinstance(one, MessageDispatch)] == []
        return [one for one in found if isinstance(one, MessageDispatch)]

    def texts(self) -> list[str | None]:
        return [text_in(one) for one in self.dispatches()]

    def acknowledge(
        self,
        dispatch: MessageDispatch,
        kind: int = STANDARD,
        first: MessageDispatch | None = None,
        count: int = 1,
        **fields: Any,
    ) -> None:
        """Send a MessageAck for one dispatch, or for those from ``first`` on.  count: how many it says."""
        last_id = message_in(dispatch).message_id
        first_id = last_id if first is None else message_in(first).message_id
        self.send(
            MessageAck(
                destination=dispatch.destination,
                consumer_id=dispatch.consumer_id,
                ack_type=kind,
                first_message_id=first_id,
                last_message_id=last_id,
                message_count=count,
                **fields,
            )
        )

    # -- producers

    def producer_id(self, number: int = 1) -> ProducerId:
        return ProducerId(self.connection_id, number, 1)

    def add_producer(self, destination: Destination | None = None, number: int = 1, **fields: Any) -> None:
        self.ask(ProducerInfo(producer_id=self.producer_id(number), destination=destination, **fields))

    def message(self, destination: Destination, text: str, made: type[WireMessage] = TextMessage, **fields: Any) -> Any:
        self.sequence += 1
        producer = self.producer_id()
        message_id = MessageId(None, producer, self.sequence, 0)
        values = {"priority": 4, "timestamp": 1_700_000_000_000, **fields}
        found = made(producer_id=producer, destination=destination, message_id=message_id, **values)
        if found.content is None and made is TextMessage:
            found.content = text_content(text)
        return found

    def publish(self, destination: Destination, *texts: str, **fields: Any) -> None:
        """Send persistent messages, and take their responses."""
        for text in texts:
            self.ask(self.message(destination, text, persistent=True, **fields))

    # -- transactions

    def transaction(self, number: int = 1) -> LocalTransactionId:
        return LocalTransactionId(number, ConnectionId(self.connection_id))

    def transact(self, kind: int, number: int = 1) -> TransactionInfo:
        return TransactionInfo(
            connection_id=ConnectionId(self.connection_id), transaction_id=self.transaction(number), type=kind
        )

    def _decoded(self) -> list[Structure]:
        return self.take()


def sent(*texts: str, **fields: object) -> tuple[OpenWireGateway, OpenWirePeer]:
    """Return a gateway whose queue q has texts, and a peer with a consumer of it."""
    gateway = OpenWireGateway()
    gateway.connect_openwire().publish(queue("q"), *texts)
    return gateway, gateway.openwire_consumer(queue("q"), **fields)


def message_in(dispatch: MessageDispatch) -> WireMessage:
    found = dispatch.message
    assert isinstance(found, WireMessage), dispatch
    return found


def text_in(dispatch: MessageDispatch) -> str | None:
    return text_of(message_in(dispatch).content)


def strings(**values: str) -> Map:
    return {name: Typed(words.STRING, value) for name, value in values.items()}
