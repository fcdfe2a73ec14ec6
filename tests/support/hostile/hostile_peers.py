"""Single hostile connections: opened by hand, written without checks, and read only on request."""

from __future__ import annotations

import base64
import select
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.cli.shared.blocking_client import ConnectionLost
from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.performatives import Begin, Close, Open
from protocols.amqp.v1_0.wire.composites.sasl_frames import SaslInit, SaslOutcome
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder as AmqpDecoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.openwire.wire.commands import Command, ConnectionInfo, Response, Structure, WireFormatInfo
from protocols.openwire.wire.frame_decoder import FrameDecoder
from protocols.openwire.wire.identities import ConnectionId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode as encode_command
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import COMMANDS, ERROR, RECEIPT, Frame
from protocols.stomp.codec.versions import VERSION_1_2
from tests.support.hostile.hostile_config import HOSTILE, HOSTILE_ADDRESS
from tests.support.process.gateway_process import GatewayProcess

LIMIT_S: Final = 60.0  # no answer may take this long; not a measurement
LIFE_S: Final = 90.0  # limit of reading from one connection
READ_BYTES: Final = 65_536


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return one STOMP 1.2 frame."""
    return encode(COMMANDS[command.encode()], list(headers.items()), body, VERSION_1_2)


class Peer:
    """A socket from the hostile address.  is_over: the gateway has ended it."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), LIMIT_S, (HOSTILE_ADDRESS, 0))
        self.is_over = False
        self._until_s = time.monotonic() + LIFE_S

    def write(self, octets: bytes) -> bool:
        """Send octets; return False if the gateway had ended the connection."""
        try:
            self.socket.sendall(octets)
        except TimeoutError:
            raise
        except OSError:
            self.is_over = True
        return not self.is_over

    def read(self) -> bytes:
        """Return the received octets, none at the end."""
        if time.monotonic() > self._until_s:
            raise TimeoutError(f"the gateway has not come to an end for {LIFE_S:.0f} s")
        try:
            octets = self.socket.recv(READ_BYTES)
        except TimeoutError:
            raise
        except OSError:
            octets = b""
        self.is_over = not octets
        return octets

    def read_more(self) -> bytes:
        """Raises: ConnectionLost at the end."""
        octets = self.read()
        if not octets:
            raise ConnectionLost("the connection was closed")
        return octets

    def has_more(self) -> bool:
        """Say whether octets have come, or the end."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def read_all(self) -> bytes:
        """Return all octets until the gateway ends the connection, which it must."""
        octets = b""
        while not self.is_over:
            octets += self.read()
        return octets

    def close(self) -> None:
        self.socket.close()


class StompPeer(Peer):
    """Logged in.  more: headers of its CONNECT."""

    def __init__(self, host: str, port: int, version: str = "1.2", **more: str) -> None:
        super().__init__(host, port)
        self._decoder = Decoder()
        self._decoder.version = VERSION_1_2
        login = {"accept-version": version, "host": "h", "login": HOSTILE[0], "passcode": HOSTILE[1], **more}
        self.write(frame("CONNECT", **{name.replace("_", "-"): text for name, text in login.items()}))
        self.first = self.next_frame()

    def next_frame(self) -> Frame:
        """Raises: ConnectionLost."""
        while (found := self._decoder.next_frame()) is None:
            self._decoder.receive_data(self.read_more())
        return found

    def answer(self) -> Frame:
        """Return the next RECEIPT or ERROR; drop messages before it."""
        while (found := self.next_frame()).command not in (RECEIPT, ERROR):
            pass
        return found

    def refusal(self) -> tuple[str, str]:
        """Return condition and text of the ERROR that must come next."""
        found = self.answer()
        assert found.command == ERROR, f"{found.command}: {found.head.headers}"
        return found.head.headers.get("condition", ""), found.body.decode()


class AmqpPeer(Peer):
    """Logged in, open, with a session on channel 0.  first: begin, or close if the gateway refuses such an open."""

    def __init__(self, host: str, port: int, opening: Open) -> None:
        super().__init__(host, port)
        self._decoder = AmqpDecoder(1 << 24)
        response = "\0".join(("", *HOSTILE)).encode()
        self.write(protocol_header(SASL_LAYER) + encode_sasl_frame(SaslInit("PLAIN", response)))
        while not isinstance(self.next_frame(), SaslOutcome):
            pass
        self._decoder.expect_header()
        self.write(protocol_header(AMQP_LAYER))
        self.send(opening, Begin(None, 0, 2**31 - 1, 2**31 - 1))
        self.first = self.wait_for(Begin, Close)

    def payload(self) -> bytes:
        """Return the payload of the last transfer."""
        return bytes(self._decoder.payload)

    def send(self, *frames: Composite) -> bool:
        return self.write(b"".join(encode_frame(0, one) for one in frames))

    def next_frame(self) -> Composite:
        """Raises: ConnectionLost."""
        while (found := self._decoder.next_frame()) is None:
            self._decoder.receive_data(self.read_more())
        return found

    def wait_for(self, *kinds: type[Composite]) -> Composite:
        """Return the next frame of one of these kinds; drop others before it."""
        while not isinstance(found := self.next_frame(), kinds):
            pass
        return found


class OpenWirePeer(Peer):
    """behind: commands in the packet of ConnectionInfo.  heard: all octets of the gateway."""

    def __init__(
        self, host: str, port: int, connection_id: str, user: tuple[str, str], behind: Sequence[Command]
    ) -> None:
        super().__init__(host, port)
        self.connection_id = connection_id
        self.heard = b""
        self._number = 0
        self._decoder = FrameDecoder(1 << 24)
        opening = ConnectionInfo(0, True, ConnectionId(connection_id), connection_id, user[1], user[0])
        self.write(encode_command(WireFormatInfo(version=VERSION, marshalled_properties=write_map({}))))
        self.send(opening, *behind)
        self.first = self.answer(1)

    def send(self, *commands: Command) -> None:
        """Write commands in one packet, each of which asks for a response."""
        octets = b""
        for command in commands:
            self._number += 1
            command.command_id = self._number
            command.response_required = True
            octets += encode_command(command)
        self.write(octets)

    def answer(self, number: int = 0) -> Response:
        """Return the response to a command, the last one for 0.  Raises: ConnectionLost."""
        while True:
            found = self._next()
            if isinstance(found, Response) and found.correlation_id == (number or self._number):
                return found

    def ask(self, command: Command) -> Response:
        self.send(command)
        return self.answer()

    def _next(self) -> Structure:
        while (found := self._decoder.next_frame()) is None:
            octets = self.read_more()
            self.heard += octets
            self._decoder.receive_data(octets)
        return decode(found, VERSION)


class Hostiles(ExitStack):
    """Makes hostile connections, and closes them at the end."""

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__()
        self._gateway = gateway

    def raw(self) -> Peer:
        return self._kept(Peer(self._gateway.stomp_host, self._gateway.stomp_port))

    def stomp(self, version: str = "1.2", **more: str) -> StompPeer:
        peer = StompPeer(self._gateway.stomp_host, self._gateway.stomp_port, version, **more)
        self.callback(peer.close)
        return peer

    def amqp(self, container: str = "hostile", **fields: Any) -> AmqpPeer:
        """fields: of its open."""
        peer = AmqpPeer(self._gateway.stomp_host, self._gateway.stomp_port, Open(container, **fields))
        self.callback(peer.close)
        return peer

    def openwire(
        self, connection_id: str = "ID:hostile", user: tuple[str, str] = HOSTILE, behind: Sequence[Command] = ()
    ) -> OpenWirePeer:
        host, port = self._gateway.stomp_host, self._gateway.stomp_port
        peer = OpenWirePeer(host, port, connection_id, user, behind)
        self.callback(peer.close)
        return peer

    def http(self) -> Peer:
        web = urlsplit(self._gateway.http_url)
        assert web.hostname is not None and web.port is not None
        return self._kept(Peer(web.hostname, web.port))

    def websocket(self) -> Peer:
        """Return a WebSocket for AMQP, on which nothing has been said."""
        peer = self.http()
        head = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Protocol: amqp\r\n"
        peer.write(f"{head}\r\n".encode())
        answer = peer.read()
        assert b" 101 " in answer, answer
        return peer

    def empty(self, *queues: str) -> None:
        """Take the messages that a scenario has left in queues."""
        reader = self.stomp()
        for queue in queues:
            reader.write(frame("SUBSCRIBE", id=queue, destination=f"/queue/{queue}", ack="auto"))
        reader.write(frame("DISCONNECT", receipt="bye"))
        reader.read_all()

    def _kept(self, peer: Peer) -> Peer:
        self.callback(peer.close)
        return peer


def request(path: str, method: str = "GET", body: str = "", credentials: bytes = b"") -> bytes:
    """Return an HTTP request, after which the connection closes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Authorization: Basic %b\r\n\r\n%b" % (credentials, body.encode())


def basic(login: tuple[str, str]) -> bytes:
    return base64.b64encode(":".join(login).encode())
