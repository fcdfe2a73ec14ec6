"""OpenWire commands that are well-formed and say anything; a generator of random numbers decides."""

from __future__ import annotations

import random
import zlib
from dataclasses import fields
from typing import Any, Final

from protocols import map_message as words
from protocols.map_message import Map, Typed
from protocols.openwire.mapping.contents import text_content
from protocols.openwire.wire import identities as wire
from protocols.openwire.wire.commands import Structure
from protocols.openwire.wire.layouts import LAYOUTS
from protocols.openwire.wire.messages import (
    BYTES_MESSAGE,
    MAP,
    MESSAGE_CLASSES,
    OBJECT,
    STREAM,
    TEXT,
    WireMessage,
)
from protocols.openwire.wire.property_map import write_map, write_stream

TEXTS: Final = (
    "",
    "a",
    "x1",
    "\0",
    "é😀",
    "q",
    "t",
    "full",
    "q,topic://t",
    "a..b",
    ">",
    "t.*",
    "ID:x:1",
    "ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic",
    "n > 3",
    "a = 1 OR (",
    "queue://q",
    "x:y\nz",
    "content-type",
)
NUMBERS: Final = (0, 1, -1, 2, 3, 5, 127, 1_000, 32_767, 2**31 - 1, -(2**31))
LARGE: Final = (*NUMBERS, 2**63 - 1, -(2**63), 2**40)
NAMES: Final = ("a", "b", "n", "keys", "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_CRON", "JMSXGroupSeq", "x y", "", "é:\n")
SENT_TO: Final = (
    wire.Destination(wire.TOPIC, "t"),
    wire.Destination(wire.TOPIC, "t"),
    wire.Destination(wire.QUEUE, "kept"),
    wire.Destination(wire.QUEUE, "full"),
    wire.Destination(wire.QUEUE, "q,topic://t"),
    wire.Destination(wire.TEMP_QUEUE, "ID:nobody:1"),
)


def value(draw: random.Random, depth: int = 0) -> Typed:
    kind = draw.randrange(13 if depth < 3 else 11)
    match kind:
        case 0:
            return Typed(words.NULL, None)
        case 1:
            return Typed(words.BOOLEAN, bool(draw.randrange(2)))
        case 2:
            return Typed(words.BYTE, draw.choice((0, 5, -128, 127)))
        case 3:
            return Typed(words.CHAR, draw.choice(("a", "\0", "\ud7ff", "\uffff")))
        case 4:
            return Typed(words.SHORT, draw.choice((0, -1, 32_767)))
        case 5:
            return Typed(words.INT, draw.choice(NUMBERS))
        case 6:
            return Typed(words.LONG, draw.choice(LARGE))
        case 7:
            return Typed(words.DOUBLE, draw.choice((0.5, -0.0, float("inf"), float("nan"), 1e300)))
        case 8:
            return Typed(words.FLOAT, draw.choice((0.5, float("inf"), float("nan"))))
        case 9:
            return Typed(words.STRING, draw.choice((*TEXTS, "long" * 3_000)))
        case 10:
            return Typed(words.BYTES, draw.randbytes(draw.randrange(20)))
        case 11:
            return Typed(words.MAP, values(draw, depth + 1))
    return Typed(words.LIST, [value(draw, depth + 1) for _ in range(draw.randrange(3))])


def values(draw: random.Random, depth: int = 0) -> Map:
    return {draw.choice(NAMES): value(draw, depth) for _ in range(draw.randrange(5))}


def content(draw: random.Random, code: int) -> tuple[bytes | None, bool]:
    """Return a content of this class, sometimes of another one or of none, and whether it is compressed."""
    if not draw.randrange(8):
        return draw.choice((None, b"", b"\xff\xff\xff\xff", draw.randbytes(9))), bool(draw.randrange(2))
    made = {
        TEXT: lambda: text_content(draw.choice(TEXTS)),
        MAP: lambda: write_map(values(draw)),
        STREAM: lambda: write_stream([value(draw) for _ in range(draw.randrange(5))]),
        BYTES_MESSAGE: lambda: draw.randbytes(draw.randrange(30)),
        OBJECT: lambda: b"\xac\xed" + draw.randbytes(5),
    }.get(code, lambda: b"")()
    if draw.randrange(4):
        return made, False
    size = len(made).to_bytes(4, "big") if code == BYTES_MESSAGE else b""
    return size + zlib.compress(made), True


def message(draw: random.Random, connection_id: str, sequence: int) -> WireMessage:
    code = draw.choice(sorted(MESSAGE_CLASSES))
    found = MESSAGE_CLASSES[code]()
    for one in fields(found):
        if not draw.randrange(6):
            setattr(found, one.name, field(draw, str(one.type), connection_id))
    found.producer_id = wire.ProducerId(connection_id, 1, 1)
    found.destination = draw.choice(SENT_TO)
    found.message_id = wire.MessageId(draw.choice((None, "ID:x", "y")), found.producer_id, sequence, draw.choice(LARGE))
    found.transaction_id = None
    found.content, found.compressed = content(draw, code)
    found.marshalled_properties = draw.choice((None, write_map(values(draw)), write_map(values(draw)), b"\0\0"))
    found.persistent = bool(draw.randrange(2))
    found.expiration = draw.choice((0, 0, 0, 1, 2**62, -5))
    return found


def field(draw: random.Random, kind: str, connection_id: str) -> Any:
    """Return a value of a field: any, often one that names something real."""
    name = kind.removesuffix(" | None")
    if name.startswith("list["):
        return [field(draw, name[5:-1], connection_id) for _ in range(draw.randrange(3))]
    connection = draw.choice((connection_id, connection_id, connection_id, "ID:other"))
    number = draw.choice((1, 1, 1, 2, -1, 2**62))
    match name:
        case "BOOL":
            return bool(draw.randrange(2))
        case "BYTE":
            return draw.choice((0, 1, 2, 3, 4, 5, 6, 7, 9, -128, 127))
        case "INT":
            return draw.choice(NUMBERS)
        case "LONG":
            return draw.choice(LARGE)
        case "STRING":
            return draw.choice((None, *TEXTS))
        case "BYTES":
            return draw.choice((None, b"", write_map(values(draw)), draw.randbytes(7)))
        case "MAGIC":
            return draw.choice((b"ActiveMQ", b"ActiveMX"))
        case "Throwable":
            return draw.choice((None, wire.Throwable("java.lang.Throwable", draw.choice(TEXTS))))
        case "ConnectionId":
            return wire.ConnectionId(connection)
        case "SessionId":
            return draw.choice((None, wire.SessionId(connection, number)))
        case "ConsumerId":
            return wire.ConsumerId(connection, 1, number)
        case "ProducerId":
            return wire.ProducerId(connection, number, 1)
        case "BrokerId":
            return wire.BrokerId(connection)
        case "MessageId":
            return wire.MessageId(None, wire.ProducerId(connection, 1, 1), 1, draw.choice(LARGE))
        case "TransactionId":
            local = wire.LocalTransactionId(number, wire.ConnectionId(connection))
            return draw.choice((None, local, local, wire.XaTransactionId(1, b"g", b"b")))
        case "Destination":
            own = wire.Destination(wire.TEMP_QUEUE, f"{connection_id}:1")
            other = wire.Destination(draw.choice((100, 101, 102, 103)), draw.choice(TEXTS))
            return draw.choice((None, own, other, *SENT_TO))
    return draw.choice(
        (None, wire.ConsumerId(connection, 1, number), wire.SessionId(connection, 1), wire.BrokerId("b"))
    )


def command(draw: random.Random, connection_id: str) -> Structure:
    """Return any command but those that end a connection or open it."""
    while True:
        code = draw.choice(sorted(LAYOUTS))
        if code in MESSAGE_CLASSES:
            return message(draw, connection_id, draw.randrange(100))
        if code not in (1, 11):
            made = LAYOUTS[code].made
            return made(**{one.name: field(draw, str(one.type), connection_id) for one in fields(made)})
