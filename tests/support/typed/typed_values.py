"""Values of every AMQP type, at every edge, and invalid header texts, drawn from a seed."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

from protocols.amqp.v1_0.wire.types.value_decoder import NESTING_MAX
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

NESTED_MOST: Final = NESTING_MAX - 10  # so that a frame or a message around it is still readable

NUMBERS: Final = (
    *(UByte(one) for one in (0, 4, 9, 255)),
    *(UShort(one) for one in (0, 65_535)),
    *(UInt(one) for one in (0, 1, 2**31, 2**32 - 1)),
    *(ULong(one) for one in (0, 1, 2**63, 2**64 - 1)),
    *(Byte(one) for one in (-128, -1, 0, 127)),
    *(Short(one) for one in (-(2**15), 2**15 - 1)),
    *(Int(one) for one in (-(2**31), -1, 2**31 - 1)),
    *(-(2**63), -1, 0, 1, 1000, 2**53, 2**63 - 1),
    *(Timestamp(one) for one in (-(2**63), -1, 0, 1, 1_700_000_001_000, 2**63 - 1)),
    *(Float(one) for one in (0.0, -1.5, 3.4e38, float("inf"), float("nan"))),
    *(0.0, 1.5, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
)
TEXTS: Final = (
    "",
    "a",
    "0",
    "-1",
    "true",
    "ID:AMQP_ULONG:99999999999999999999999999",
    "ID:AMQP_UUID:x",
    "ID:AMQP_BINARY:0",
    "ID:x-1",
    "a:b\nc\r\\d\\",
    "nul\0inside",
    "\ufeff\u2028\U0010ffff",
    "9" * 400,
    "x" * 300,
    "queue://q",
    "topic://t,queue://q",
    "/temp-queue/x",
    "* * * * *",
)
SIMPLE: Final = (
    None,
    True,
    False,
    *(Char(one) for one in ("\0", "a", "\U0010ffff")),
    *(Symbol(one) for one in ("", "a", "x-opt-jms-dest", "s" * 300)),
    *(b"", b"\0", b"\xff\xfe", b"b" * 300),
    uuid.UUID(int=0),
    Decimal(b"\0" * 4),
    Decimal(b"\xff" * 8),
    Decimal(b"\x80" + b"\0" * 15),
)


def odd_value(draw: random.Random, depth: int = 3) -> Any:
    """Return a value of any type."""
    kind = draw.randrange(12 if depth else 6)
    if kind < 2:
        return draw.choice(NUMBERS)
    if kind < 4:
        return draw.choice(TEXTS)
    if kind < 6:
        return draw.choice(SIMPLE)
    if kind == 6:
        return [odd_value(draw, depth - 1) for _ in range(draw.randrange(4))]
    if kind == 7:
        return {odd_key(draw): odd_value(draw, depth - 1) for _ in range(draw.randrange(4))}
    if kind == 8:
        return Described(odd_value(draw, depth - 1), odd_value(draw, depth - 1))
    if kind == 9:
        return draw.choice((Array(0xB3, [Symbol("a")]), Array(0x70, [UInt(1)]), Array(0x40, [None]), Array(0xD0, [[]])))
    if kind == 10:
        return nested(draw.choice((list, dict, Described)), draw.randrange(1, NESTED_MOST))
    return [odd_value(draw, 0)] * draw.choice((1, 300))


def odd_key(draw: random.Random) -> Any:
    """Return a possible key of a map."""
    return draw.choice((*TEXTS, *NUMBERS, *SIMPLE, Described(ULong(1), "a"), Described(Symbol("s"), None)))


def nested(kind: type, depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        if kind is list:
            value = [value]
        else:
            value = {"k": value} if kind is dict else Described(ULong(1), value)
    return value


def odd_octets(draw: random.Random) -> bytes:
    """Return an encoded value; one in eight has only a correct size."""
    if not draw.randrange(20):
        return encode(nested(draw.choice((list, dict, Described)), NESTING_MAX + draw.randrange(-3, 3)))
    if draw.randrange(8):
        return encode(odd_value(draw))
    inside = bytes(
        draw.choice((0, 0x40, 0x45, 0x53, 0xA1, 0xC0, 0xC1, 0xF0, 0xFF, draw.randrange(256))) for _ in range(9)
    )
    count = draw.choice((0, 1, 2, 3, 255))
    code = draw.choice((0xC0, 0xC1, 0xE0, 0xA0, 0xA1, 0xD0, 0xD1, 0xF0))
    if code in (0xA0, 0xA1):
        return bytes((code, len(inside))) + inside
    if code >= 0xD0 and code != 0xE0:
        return bytes((code,)) + struct.pack(">II", 4 + len(inside), count) + inside
    return bytes((code, 1 + len(inside), count)) + inside


HEADER_TEXTS: Final = (
    *TEXTS,
    *(
        "1",
        "4",
        "10",
        "1000",
        "-9223372036854775808",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
    ),
    *("9007199254740992", "1e9", "0x10", "NaN", "inf", " 7 ", "+1", "\u0661\u0662", "\u00b2", "1_000", "false", "null"),
    *("1,1", "4294967295,4294967295", "1700000001000", "client", "auto", "individual"),
    *("/queue/q", "/topic/t", "/temp-queue/a", "/queue/a,/topic/t", "/topic/>", "/queue/q?consumer.prefetchSize=0"),
    *("a = 1", "a LIKE '%%%' ESCAPE '%'", "(" * 200, "JMSTimestamp > 9223372036854775807", "a = 1e400"),
    *("0 0 31 2 *", "* * * * * *", "@daily", "jms-byte", "jms-map-json", "text", "bytes", "application/vnd.amqp-1.0"),
)


PROPERTY_TYPES: Final = (
    *("boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float", "double", "timestamp"),
    *("char", "symbol", "binary", "uuid", "string"),
)
BODIES: Final[tuple[Callable[[], bytes], ...]] = (
    lambda: b"",
    lambda: b"plain",
    lambda: b"\xff\xfe\0",
    lambda: b"[" * 5_000 + b"]" * 5_000,
    lambda: b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    lambda: b"[" * 40 + b"]" * 40,
    lambda: b"9" * 5_000,
    lambda: b"18446744073709551616",
    lambda: b"-9223372036854775809",
    lambda: b"1e999",
    lambda: b"NaN",
    lambda: b'"\\ud800"',
    lambda: b'{"\\udfff":[1.5,true,null,"x"]}',
    lambda: b"[1,2,3]",
    lambda: b"null",
    lambda: b'{"1":{"2":[{}]}}',
    lambda: b"\x00\x53\x77\xa1\x03abc",
    lambda: b"\x00\x53\x77\xc1\x09\x03" + b"\0" * 8,
    lambda: b"\x00\x53\x75\x45\x00\x53\x76\x40",
)

XML_MAPS: Final = tuple(
    f"<map><entry><string>{name}</string>{value}</entry></map>".encode()
    for name in ("a", "", "&lt;\u00e4")
    for value in (
        *("<int>1</int>", "<int>99999999999</int>", "<float>1e39</float>", "<double>1e999</double>", "<char>ab</char>"),
        *(
            "<char/>",
            "<null/>",
            "<byte-array>x</byte-array>",
            "<byte-array>AA==</byte-array>",
            "<list><int>1</int></list>",
        ),
        *("<map/>", "<list>" * 40 + "</list>" * 40, "<float>NaN</float>", "<boolean>maybe</boolean>", "<entry/>"),
    )
)
JSON_MAPS: Final = (
    *(b"{}", b'{"map":""}', b'{"map":{"entry":[]}}', b'{"map":{"entry":{"string":["a","b"]}}}', b'{"map":[1]}'),
    *(b'{"map":{"entry":{"string":"a","int":1e400}}}', b'{"map":{"entry":{"string":"a","float":"NaN"}}}'),
    *(b'{"map":{"entry":{"string":"a","char":"\\ud800"}}}', b'{"map":{"entry":{"string":"\\udfff","null":""}}}'),
    b'{"map":{"entry":{"string":"a","list":' + b'{"list":' * 60 + b"1" + b"}" * 60 + b"}}}",
    *(b'{"map":{"entry":{"string":"a","map":{"entry":3}}}}', b'{"map":{"entry":{"string":"a","long":"1"}}}'),
)
