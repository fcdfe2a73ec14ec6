"""A small STOMP 1.2 client that blocks: for the demo, and for tests that examine single frames.

Frames are sent in batches and read one by one; every wait has a limit.  ``penstock send`` and ``receive`` use stomp.py;
this client exists for speed and for connections that break on purpose.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import Final

from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import CONNECT, CONNECTED, ERROR, NAMES, RECEIPT, SEND, Frame
from protocols.stomp.codec.versions import VERSION_1_2

READ_BYTES: Final = 256 * 1024
BATCH_BYTES: Final = 64 * 1024
DEFAULT_LIMIT_S: Final = 30.0
LIMITS: Final = FrameLimits(header_line_bytes=1 << 30)  # a property of an AMQP or HTTP message may be long


class ConnectionLost(Exception):
    """The other side is gone."""


class Refused(Exception):
    """An unexpected ERROR frame; the text is the frame's."""


class StompLink:
    """A socket with a decoder: octets out, frames in."""

    def __init__(self, host: str, port: int, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._decoder = Decoder(LIMITS)
        self._decoder.version = VERSION_1_2
        self._socket = socket.create_connection((host, port), limit_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, octets: bytes) -> None:
        """Raises: ConnectionLost."""
        try:
            self._socket.sendall(octets)
        except TimeoutError:
            raise
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def next_frame(self) -> Frame:
        """Wait for the next frame.

        Raises: ConnectionLost at the end of the stream, TimeoutError if no frame came within the limit.
        """
        while (frame := self._decoder.next_frame()) is None:
            try:
                octets = self._socket.recv(READ_BYTES)
            except TimeoutError:
                raise
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not octets:
                raise ConnectionLost("the connection was closed")
            self._decoder.receive_data(octets)
        return frame

    def close(self) -> None:
        """Close the socket without a DISCONNECT; a thread that waits in ``next_frame`` gets ConnectionLost."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side has closed it first
        self._socket.close()


class BlockingClient(StompLink):
    """A connection that is logged in.  ``flush``, or the next wait, sends the frames of ``send``."""

    def __init__(
        self, host: str, port: int, login: str = "", passcode: str = "", limit_s: float = DEFAULT_LIMIT_S
    ) -> None:
        super().__init__(host, port, limit_s)
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        headers = [("accept-version", "1.2"), ("host", host)]
        if login:
            headers += [("login", login), ("passcode", passcode)]
        try:
            self.send(CONNECT, headers)
            expect(self.next_frame(), CONNECTED)
        except BaseException:
            self.close()
            raise

    def send(self, command: int, headers: list[tuple[str, str]], body: bytes = b"") -> None:
        octets = encode(command, headers, body, VERSION_1_2)
        self._unsent.append(octets)
        self._unsent_bytes += len(octets)
        if self._unsent_bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        octets = b"".join(self._unsent)
        self._unsent.clear()
        self._unsent_bytes = 0
        if octets:
            self.write(octets)

    def next_frame(self) -> Frame:
        self.flush()
        return super().next_frame()

    def publish(self, messages: Iterable[tuple[str, bytes]], window: int = 1_000) -> Iterator[int]:
        """Send persistent messages (destination, body); yield the index of each as its receipt comes.

        window: messages that may be unconfirmed.  Half of it is sent at a time, so that frames travel in batches.
        Raises: Refused, ConnectionLost.
        """
        unconfirmed = 0
        for index, (destination, body) in enumerate(messages):
            if unconfirmed >= window:
                while unconfirmed > window // 2:
                    unconfirmed -= 1
                    yield self._confirmed()
            self.send(SEND, [("destination", destination), ("persistent", "true"), ("receipt", str(index))], body)
            unconfirmed += 1
        for _ in range(unconfirmed):
            yield self._confirmed()

    def _confirmed(self) -> int:
        return int(expect(self.next_frame(), RECEIPT).head.headers["receipt-id"])


def expect(frame: Frame, command: int) -> Frame:
    """Return ``frame``, which must be a ``command``.  Raises: Refused."""
    if frame.command == command:
        return frame
    name = NAMES[frame.command].decode()
    if frame.command == ERROR:
        raise Refused(f"{frame.head.headers.get('message', name)}: {frame.body.decode(errors='replace').strip()}")
    raise Refused(f"{name} instead of {NAMES[command].decode()}: {frame.head.headers}")
