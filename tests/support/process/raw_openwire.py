"""An OpenWire client on a socket, for tests that kill the gateway between its commands."""

from __future__ import annotations

import socket
from typing import Final, TypeVar

from protocols.openwire.mapping.contents import text_content, text_of
from protocols.openwire.session.acknowledgements import STANDARD
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import (
    Command,
    ConnectionInfo,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    Response,
    Structure,
    WireFormatInfo,
)
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.identities import ConnectionId, ConsumerId, Destination, MessageId, ProducerId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import TextMessage, WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode
from tests.support.process.gateway_process import GatewayProcess

PATIENCE_S: Final = 60.0

C = TypeVar("C", bound=Structure)


class GatewayGone(Exception):
    """The connection was lost."""


class RawOpenWire:
    """A connection with one consumer at most, which takes one message for each pull."""

    def __init__(
        self, gateway: GatewayProcess, connection_id: str, is_again: bool = False, login: str = "", passcode: str = ""
    ) -> None:
        """connection_id: of the client.  is_again: it has lost a connection."""
        self.connection_id = connection_id
        self.command_id = 0
        self._decoder = FrameDecoder(1 << 20)
        self._socket = socket.create_connection((gateway.stomp_host, gateway.stomp_port), PATIENCE_S)
        self.send(WireFormatInfo(version=VERSION, marshalled_properties=write_map({})))
        self.next(WireFormatInfo)
        self.opened = self.ask(
            ConnectionInfo(
                connection_id=ConnectionId(connection_id),
                client_id=connection_id,
                user_name=login or None,
                password=passcode or None,
                fault_tolerant=True,
                failover_reconnect=is_again,
            )
        )

    def close(self) -> None:
        self._socket.close()

    def send(self, command: Structure) -> None:
        """Raises: GatewayGone."""
        try:
            self._socket.sendall(encode(command, VERSION))
        except OSError as error:
            raise GatewayGone from error

    def ask(self, command: Command) -> Response:
        """Send a command, and return its response.  Raises: GatewayGone."""
        self.number(command)
        command.response_required = True
        self.send(command)
        while (found := self.next(Response)).correlation_id != command.command_id:
            pass
        return found

    def number(self, command: Command) -> None:
        """Give a command its number, unless it has one."""
        if not command.command_id:
            self.command_id += 1
            command.command_id = self.command_id

    def next(self, kind: type[C]) -> C:
        """Return the next command of a kind; others are left out.  Raises: GatewayGone."""
        while True:
            frame = self._decoder.next_frame()
            if frame is None:
                try:
                    octets = self._socket.recv(65536)
                except ConnectionError as error:
                    raise GatewayGone from error
                if not octets:
                    raise GatewayGone
                self._decoder.receive_data(octets)
                continue
            found = decode(frame, VERSION)
            if isinstance(found, kind):
                return found

    # -- messages

    def consume(self, destination: Destination) -> None:
        self.ask(ConsumerInfo(consumer_id=self._consumer(), destination=destination, prefetch_size=0))

    def take(self) -> MessageDispatch | None:
        """Return the next message of the consumer, None if there is none now."""
        destination = Destination(identities.QUEUE, "any")
        self.send(MessagePull(consumer_id=self._consumer(), destination=destination, timeout=-1))
        found = self.next(MessageDispatch)
        return found if found.message is not None else None

    def ack_of(self, dispatch: MessageDispatch, **fields: object) -> MessageAck:
        message = dispatch.message
        assert isinstance(message, WireMessage)
        return MessageAck(
            destination=dispatch.destination,
            consumer_id=dispatch.consumer_id,
            ack_type=STANDARD,
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
            **fields,  # type: ignore[arg-type]
        )

    def message(self, destination: Destination, text: str, sequence: int, **fields: object) -> TextMessage:
        producer = ProducerId(self.connection_id, 1, 1)
        return TextMessage(
            producer_id=producer,
            destination=destination,
            message_id=MessageId(None, producer, sequence, 0),
            content=text_content(text),
            persistent=True,
            priority=4,
            **fields,  # type: ignore[arg-type]
        )

    def _consumer(self) -> ConsumerId:
        return ConsumerId(self.connection_id, 1, 1)


def text_in(dispatch: MessageDispatch) -> tuple[str | None, bool]:
    """Return the text of a message, and whether it was delivered before."""
    message = dispatch.message
    assert isinstance(message, WireMessage)
    return text_of(message.content), dispatch.redelivery_counter > 0


def take_all(gateway: GatewayProcess, name: str, connection_id: str) -> list[tuple[str | None, bool]]:
    """Return what a consumer gets of a queue, and leave it there."""
    client = RawOpenWire(gateway, connection_id)
    try:
        client.consume(Destination(identities.QUEUE, name))
        found: list[tuple[str | None, bool]] = []
        while (dispatch := client.take()) is not None:
            found.append(text_in(dispatch))
        return found
    finally:
        client.close()
