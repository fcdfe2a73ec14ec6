"""STOMP frames as values: commands, heads, and frames.

octets on the wire              here
SEND\\n                          Frame.command, Head.command
destination:/queue/a\\n          Head.headers["destination"]
colour:red\\n                    Head.headers["colour"], and octet for octet in Head.block
receipt:77\\n                    Frame.receipt, never in Head.headers: frames that differ in it share a Head
content-length:5\\n              Head.content_length, never in Head.headers
\\n
hello\\0                         Frame.body
"""

from __future__ import annotations

from typing import Final

from protocols.broker_headers import BROKER_HEADERS

CONNECT: Final = 1
STOMP: Final = 2
SEND: Final = 3
SUBSCRIBE: Final = 4
UNSUBSCRIBE: Final = 5
ACK: Final = 6
NACK: Final = 7
BEGIN: Final = 8
COMMIT: Final = 9
ABORT: Final = 10
DISCONNECT: Final = 11
CONNECTED: Final = 12
MESSAGE: Final = 13
RECEIPT: Final = 14
ERROR: Final = 15

COMMANDS: Final[dict[bytes, int]] = {
    b"CONNECT": CONNECT,
    b"STOMP": STOMP,
    b"SEND": SEND,
    b"SUBSCRIBE": SUBSCRIBE,
    b"UNSUBSCRIBE": UNSUBSCRIBE,
    b"ACK": ACK,
    b"NACK": NACK,
    b"BEGIN": BEGIN,
    b"COMMIT": COMMIT,
    b"ABORT": ABORT,
    b"DISCONNECT": DISCONNECT,
    b"CONNECTED": CONNECTED,
    b"MESSAGE": MESSAGE,
    b"RECEIPT": RECEIPT,
    b"ERROR": ERROR,
}
NAMES: Final[dict[int, bytes]] = {command: name for name, command in COMMANDS.items()}

# Only these may have a body (1.2, "Body"), and only their content-length counts (ActiveMQ and RabbitMQ do the same).
BODIED: Final = frozenset((SEND, MESSAGE, ERROR))

# Read and written by the rules of 1.0 whatever the version: the peers agree on one only in these frames.
VERSIONLESS: Final = frozenset((CONNECT, STOMP, CONNECTED))

# Headers of a SEND for the gateway.  They are not passed through: the session writes what is
# right for each MESSAGE, and a sender must not forge what only a broker can know.
CONTROL_HEADERS: Final = BROKER_HEADERS | {"receipt", "transaction", "timestamp", "amq-msg-type"}


class Head:
    """Command and headers of a frame.  Equal heads of one connection may be the same object: never change one.

    headers: unescaped, the first of repeated ones, without ``receipt`` and ``content-length``.
    content_length: -1 if absent, else that of the first frame with this head.  All frames that share a Head have one or
    none, but the values may differ: ``len(frame.body)`` is the length of a body.
    block: of a SEND, the header lines that pass through to the MESSAGE, each ``name:value\\n`` in UTF-8 with the
    escapes of STOMP 1.2, whatever version the sender speaks; else empty.
    is_plain: ``block`` has no escape, so its octets are the same in every version.
    mapped: the session's object for this head, made once.
    """

    __slots__ = ("command", "headers", "content_length", "block", "is_plain", "mapped")

    def __init__(self, command: int, headers: dict[str, str], content_length: int, block: bytes) -> None:
        self.command = command
        self.headers = headers
        self.content_length = content_length
        self.block = block
        self.is_plain = b"\\" not in block
        self.mapped: object | None = None


class Frame:
    """One frame.

    receipt: octets of the receipt header as they were on the wire, so that they can be echoed unchanged (the escapes
    of one connection are the same both ways); without the blanks around them in 1.0, and without undefined escapes in
    dialect activemq.  None: no receipt wanted.
    id: the ``id`` header of an ACK or NACK, unescaped, if it has no other header but receipt and content-length;
    ``head.headers`` is then empty.  None: look into ``head.headers``.
    body: empty for the commands that cannot have one, even if octets came.
    """

    __slots__ = ("command", "head", "receipt", "id", "body")

    def __init__(self, command: int, head: Head, receipt: bytes | None, id: bytes | None, body: bytes) -> None:
        self.command = command
        self.head = head
        self.receipt = receipt
        self.id = id
        self.body = body

    def kept(self) -> Frame:
        """Return a copy that the decoder does not change."""
        return Frame(self.command, self.head, self.receipt, self.id, self.body)
