"""An AMQP connection with links of every kind, fed with any octets of a test: the laws that must always hold."""

from __future__ import annotations

import struct
from typing import Final

from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Begin, Flow, Open
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, protocol_header
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.protocols.stomp_octets import pieces

FRAME_SIZE: Final = 4096
OPENING: Final = protocol_header(AMQP_LAYER) + b"".join(
    encode_frame(0, performative)
    for performative in (
        Open("fuzz"),
        Begin(None, 0, 1_000, 1_000),
        Attach("in", 0, False, source=Source(), target=Target("q"), initial_delivery_count=0),
        Attach("out", 1, True, source=Source("q"), target=Target()),
        Attach("txn", 2, False, source=Source(), target=Coordinator(), initial_delivery_count=0),
        Flow(0, 1_000, 0, 1_000, 1, 0, 100),
    )
)


def feed(octets: bytes, cut: int = 0, frame_size: int = FRAME_SIZE) -> AmqpGateway:
    """Feed ``octets`` after an opening, in pieces of ``cut``; a STOMP client takes the resulting messages.

    No input causes a fault of ours, no more than a frame is kept, and nothing is left once the connection is gone.
    """
    gateway = AmqpGateway(amqp=AmqpSettings(max_frame_size=frame_size, link_credit=50, idle_time_ms=0))
    reader = gateway.connect()
    reader.send("SUBSCRIBE", id="s", destination="/queue/q", ack="auto")
    peer = gateway.open_amqp()
    peer.send_octets(OPENING)
    for piece in pieces(octets, cut or len(octets) or 1):
        if peer.is_closed:
            break
        peer.send_octets(piece)
        kept = peer.connection.decoder.buffered_bytes()
        assert kept <= frame_size + len(piece), f"{kept} octets are kept, a frame has {frame_size}"
    peer.vanish()
    reader.vanish()
    gateway.advance(1_000)
    assert gateway.broker.clients == {}
    assert {one.in_flight for one in gateway.broker.inspect().destinations} <= {0}
    return gateway


def frame(body: bytes, channel: int = 0, frame_type: int = 0) -> bytes:
    """Return a frame around octets that need be no performative."""
    return struct.pack(">IBBH", 8 + len(body), 2, frame_type, channel) + body


def composite(code: int, *fields: bytes) -> bytes:
    """Return a described list of values that are encoded already."""
    octets = b"".join(fields)
    return b"\x00\x53" + bytes((code,)) + b"\xd0" + struct.pack(">II", len(octets) + 4, len(fields)) + octets


def nested(opening: bytes, depth: int) -> bytes:
    """Return compounds of one item each around a null, ``opening``: the constructor of list32, map32 or array32."""
    octets = b"\x40"
    for _ in range(depth):
        items = (b"\xa1\x01k" + octets) if opening == b"\xd1" else octets
        count = 2 if opening == b"\xd1" else 1
        octets = opening + struct.pack(">II", len(items) + 4, count) + items
    return octets


def bombs(room: int) -> dict[str, bytes]:
    """Return values of about ``room`` octets that claim to be much larger or deeper."""
    depth = room // 9
    many = 2**32 - 1
    return {
        "lists in lists": nested(b"\xd0", depth),
        "maps in maps": nested(b"\xd1", room // 12),
        "arrays in arrays": nested(b"\xf0", depth),
        "descriptors of descriptors": b"\x00" * room,
        "described values in described values": b"\x00\x53\x01" * (room // 3) + b"\x40",
        "an array of nulls": b"\xf0" + struct.pack(">II", 5, many) + b"\x40",
        "an array of trues": b"\xf0" + struct.pack(">II", 5, many) + b"\x41",
        "an array of empty lists": b"\xf0" + struct.pack(">II", 5, many) + b"\x45",
        "an array of described nulls": b"\xf0" + struct.pack(">II", 8, many) + b"\x00\x53\x01\x40",
        "arrays of arrays of nulls": b"\xf0"
        + struct.pack(">II", 14, 1)
        + b"\xf0"
        + struct.pack(">II", 5, many)
        + b"\x40",
        "a list of too many": b"\xd0" + struct.pack(">II", 5, many) + b"\x40",
        "a map of too many": b"\xd1" + struct.pack(">II", 5, many - 1) + b"\x40",
        "a binary of too much": b"\xb0" + struct.pack(">I", many) + b"x",
        "a string of too much": b"\xb1" + struct.pack(">I", many) + b"x",
        "a list of nulls": b"\xd0" + struct.pack(">II", room + 4, room) + b"\x40" * room,
        "a map of nulls": b"\xd1" + struct.pack(">II", room + 4, room & ~1) + b"\x40" * room,
    }
