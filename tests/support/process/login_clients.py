"""Clients that log in, send to one queue, and say what came of it."""

from __future__ import annotations

import socket
import time
from typing import Any, Final

from stomp.exception import ConnectFailedException

from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Close, Detach, Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslMechanisms, SaslOutcome
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.openwire.wire import identities
from protocols.openwire.wire.commands import ConnectionError as ConnectionErrorCommand
from protocols.openwire.wire.commands import ExceptionResponse
from protocols.openwire.wire.identities import Destination
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.raw_openwire import RawOpenWire
from tests.support.process.stomp_py import Client
from tests.support.process.waiting import wait_until

LIMIT_S: Final = 60.0
SENT: Final = "sent"
DENIED: Final = "access-denied"
REFUSED: Final = "login-refused"


class Stomp:
    def __init__(self, gateway: GatewayProcess, token: str, login: str = "") -> None:
        self._client = Client(gateway, "1.2")
        try:
            self._client.connect(login, token)
            self._refused = False
        except ConnectFailedException:
            self._refused = True

    def send(self, queue: str) -> str:
        if self._refused:
            return str(self._client.inbox.errors.get(timeout=LIMIT_S).headers["condition"])
        self._client.connection.send(f"/queue/{queue}", "x", receipt="sent")
        wait_until(lambda: not (self._client.inbox.receipts.empty() and self._client.inbox.errors.empty()), "an answer")
        if self._client.inbox.errors.empty():
            self._client.inbox.receipts.get()
            return SENT
        return str(self._client.inbox.errors.get().headers["condition"])

    def end(self) -> str:
        """Return the condition with which the gateway ends the connection."""
        error = self._client.error()
        self._client.inbox.disconnects.get(timeout=LIMIT_S)
        return str(error.headers["condition"])

    def close(self) -> None:
        self._client.end_thread()


class Amqp:
    """mechanism: of SASL.  initial: its first response."""

    def __init__(self, gateway: GatewayProcess, mechanism: str, initial: bytes) -> None:
        self._decoder = Decoder(1 << 24)
        self._socket = socket.create_connection((gateway.stomp_host, gateway.stomp_port), LIMIT_S)
        self._socket.sendall(protocol_header(SASL_LAYER))
        self.mechanisms = [str(name) for name in self._next(SaslMechanisms).sasl_server_mechanisms]
        self._socket.sendall(encode_sasl_frame(SaslInit(mechanism, initial)))
        self.is_let_in = self._next(SaslOutcome).code == 0
        if self.is_let_in:
            self._decoder.expect_header()
            self._socket.sendall(protocol_header(AMQP_LAYER))
            self._write(Open("tokens"), Begin(None, 0, 100, 100))

    def send(self, queue: str) -> str:
        if not self.is_let_in:
            return REFUSED
        self._write(Attach("s", 0, False, source=Source(), target=Target(queue), initial_delivery_count=0))
        self._next(Attach)
        self._write(Begin(None, 0, 100, 100), channel=1)
        found = self._next(Detach, Begin)
        return (
            SENT
            if isinstance(found, Begin)
            else DENIED
            if found.error.condition == "amqp:unauthorized-access"
            else str(found.error)
        )

    def end(self) -> str:
        return str(self._next(Close).error.condition)

    def close(self) -> None:
        self._socket.close()

    def _write(self, *frames: Any, channel: int = 0) -> None:
        self._socket.sendall(b"".join(encode_frame(channel, one) for one in frames))

    def _next(self, *kinds: Any) -> Any:
        while True:
            found = self._decoder.next_frame()
            if found is None:
                octets = self._socket.recv(65_536)
                assert octets, "the connection was closed"
                self._decoder.receive_data(octets)
            elif isinstance(found, kinds):
                return found
            else:
                assert not isinstance(found, Close) or Close in kinds, found


class OpenWire:
    def __init__(self, gateway: GatewayProcess, token: str, login: str = "") -> None:
        self._client = RawOpenWire(gateway, f"ID:logins-{time.monotonic_ns()}", login=login, passcode=token)

    def send(self, queue: str) -> str:
        if isinstance(self._client.opened, ExceptionResponse):
            return REFUSED if "password" in str(self._client.opened.exception) else DENIED
        message = self._client.message(Destination(identities.QUEUE, queue), "x", 1)
        found = self._client.ask(message)
        return DENIED if isinstance(found, ExceptionResponse) else SENT

    def end(self) -> str:
        found = self._client.next(ConnectionErrorCommand)
        return str(found.exception)

    def close(self) -> None:
        self._client.close()
