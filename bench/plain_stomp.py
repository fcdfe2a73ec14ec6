"""A STOMP client that writes prepared octets and counts the answers: it must cost little in a measurement."""

from __future__ import annotations

import socket
from typing import Final

from bench.processes import Broken
from protocols.stomp.codec import frames
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.frames import Frame
from protocols.stomp.codec.versions import VERSION_1_2

READ_BYTES: Final = 1 << 18
LIMIT_S: Final = 120.0


class PlainStomp:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder()
        self._decoder.version = VERSION_1_2
        self.send(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
        self.take(frames.CONNECTED)

    def send(self, octets: bytes) -> None:
        self._socket.sendall(octets)

    def take(self, command: int) -> Frame:
        """Return the next frame, which must be of that kind."""
        while (frame := self._decoder.next_frame()) is None:
            octets = self._socket.recv(READ_BYTES)
            if not octets:
                raise Broken("the gateway has closed the connection")
            self._decoder.receive_data(octets)
        if frame.command != command:
            raise Broken(f"a frame {frames.NAMES[frame.command]!r}: {frame.body[:300]!r}")
        return frame

    def close(self) -> None:
        """Disconnect."""
        self.send(b"DISCONNECT\nreceipt:bye\n\n\0")
        self.take(frames.RECEIPT)
        self._socket.close()
