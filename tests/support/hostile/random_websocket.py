"""A client of STOMP or AMQP over WebSocket: its octets in messages of any kind and division, some of them broken.

Source: RFC 6455, sections 4 and 5.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.support.hostile.hostile_crowd import Speaker

CONTINUATION: Final = 0
TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
FIN: Final = 0x80
MASKED: Final = 0x80
STOMP_NAMES: Final = ("v12.stomp", "v10.stomp, v11.stomp", "stomp", "")
HEAD_END: Final = b"\r\n\r\n"
LAST_REQUEST: Final = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
# Frames that end the connection at once: reserved bits, unknown kinds, control frames too long or divided, too large,
# a continuation of nothing, a text that is no UTF-8.
BROKEN: Final = (
    b"\xf2\x80\0\0\0\0",
    b"\x83\x80\0\0\0\0",
    b"\x89\xfe\x01\x00\0\0\0\0" + b"x" * 256,
    b"\x09\x80\0\0\0\0",
    b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
    b"\x80\x80\0\0\0\0",
    b"\x81\x82\0\0\0\0\xc3\x28",
)


class OverWebSocket:
    """inner: speaks the protocol.  is_amqp: it is AMQP.

    _waiting: octets of a patient client, until the answer to the upgrade has come.
    _is_in_message: the last frame sent did not end its message.
    """

    def __init__(self, draw: random.Random, inner: Speaker, is_amqp: bool) -> None:
        self._draw = draw
        self._inner = inner
        self._is_amqp = is_amqp
        self._is_patient = draw.randrange(2) == 0
        self._waiting = b""
        self._received = bytearray()
        self._is_upgraded = False
        self._is_in_message = False
        self._is_leaving = False
        self.is_refused = False
        self.bodies = inner.bodies

    def opening(self) -> bytes:
        draw = self._draw
        name = "amqp" if self._is_amqp else draw.choice(STOMP_NAMES)
        lines = ["GET / HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {'A' * 22}=="]
        lines += [f"Sec-WebSocket-Protocol: {name}"] if name else []
        if not draw.randrange(30):
            lines.append(draw.choice(("Sec-WebSocket-Protocol: none", "Origin: https://example.org", "Host: x")))
        return "\r\n".join(lines).encode() + HEAD_END + self._sent(self._inner.opening())

    def operation(self) -> bytes:
        draw = self._draw
        kind = draw.randrange(400)
        if kind == 0:
            return self._sent_raw(draw.choice(BROKEN))
        if kind == 1:
            return self._sent_raw(self._frame(CLOSE, b"\x03\xe8"))
        if kind < 10:
            return self._sent_raw(self._frame(draw.choice((PING, PONG)), draw.randbytes(draw.randrange(126))))
        return self._sent(self._inner.operation())

    def receive_data(self, octets: bytes) -> bytes:
        """Take the gateway's octets; return the answers.  Raises: FrameError, AmqpError if they are wrong."""
        self._received += octets
        answer = b""
        if not self._is_upgraded and not self.is_refused:
            head, end, rest = bytes(self._received).partition(HEAD_END)
            if not end:
                return b""
            self._received = bytearray(rest)
            self._is_upgraded = b" 101 " in head
            self.is_refused = not self._is_upgraded
            answer, self._waiting = self._waiting, b""
            if self.is_refused and self._is_leaving and self._is_patient:
                return LAST_REQUEST  # its goodbye was among what waited
        if self.is_refused:
            return b""
        while (frame := self._next_frame()) is not None:
            answer += self._taken(*frame)
        self.is_refused = self.is_refused or self._inner.is_refused
        return answer

    def goodbye(self) -> bytes:
        self._is_leaving = True
        if self.is_refused and not self._is_upgraded:
            return LAST_REQUEST
        return self._sent(self._inner.goodbye(), is_whole=True)

    # -- frames

    def _taken(self, head: int, payload: bytes) -> bytes:
        kind = head & 0x0F
        if kind == PING:
            return self._frame(PONG, payload)
        if kind == CLOSE:
            self.is_refused = True
            return self._frame(CLOSE, payload[:2])
        if kind == PONG:
            return b""
        assert kind in (TEXT, BINARY), f"the gateway sends a frame of kind {kind}"
        answer = self._inner.receive_data(payload)
        return self._messages(answer) if answer else b""

    def _next_frame(self) -> tuple[int, bytes] | None:
        """Return the first octet and the payload of the next whole frame."""
        received = self._received
        if len(received) < 2:
            return None
        size, start = received[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(received[2:start], "big")
        if len(received) < start + size:
            return None
        head, payload = received[0], bytes(received[start : start + size])
        del received[: start + size]
        return head, payload

    def _sent(self, octets: bytes, *, is_whole: bool = False) -> bytes:
        return self._sent_raw(self._messages(octets, is_whole))

    def _sent_raw(self, octets: bytes) -> bytes:
        if self._is_patient and not self._is_upgraded and not self.is_refused:
            self._waiting += octets
            return b""
        return octets

    def _messages(self, octets: bytes, is_whole: bool = False) -> bytes:
        """Return frames with these octets.  is_whole: the last one ends its message; else it may remain open."""
        draw = self._draw
        pieces = [octets]
        while not draw.randrange(4) and len(pieces) < 6:
            last = pieces.pop()
            cut = draw.randrange(len(last) + 1)
            pieces += [last[:cut], last[cut:]]
        frames = b""
        for number, piece in enumerate(pieces):
            kind = CONTINUATION if self._is_in_message else BINARY
            is_last = is_whole and number == len(pieces) - 1
            self._is_in_message = not is_last and draw.randrange(8) == 0
            if kind == BINARY and not self._is_in_message and not self._is_amqp and draw.randrange(3) == 0:
                kind = TEXT if piece.isascii() else BINARY
            frames += self._frame(kind, piece, 0 if self._is_in_message else FIN)
        return frames

    def _frame(self, kind: int, payload: bytes, fin: int = FIN) -> bytes:
        size = len(payload)
        if size < 126:
            head = bytes((fin | kind, MASKED | size))
        elif size < 1 << 16:
            head = bytes((fin | kind, MASKED | 126)) + size.to_bytes(2, "big")
        else:
            head = bytes((fin | kind, MASKED | 127)) + size.to_bytes(8, "big")
        mask = self._draw.randbytes(4)
        pattern = (mask * (size // 4 + 1))[:size]
        masked = int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")
        return head + mask + masked.to_bytes(size, "big")
