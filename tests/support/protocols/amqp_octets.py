"""AMQP values in the notation of the vectors, and a decoder fed in any pieces."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, NamedTuple

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.performatives import Disposition, Transfer
from protocols.amqp.v1_0.wire.errors import AmqpError
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
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
from tests.support.protocols.stomp_octets import less_than, pieces

INTEGERS: dict[str, type[int]] = {
    "ubyte": UByte,
    "ushort": UShort,
    "uint": UInt,
    "ulong": ULong,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": int,
    "timestamp": Timestamp,
}
ARRAY_CODES = {
    "symbol": 0xB3,
    "uint": 0x70,
    "ulong": 0x80,
    "string": 0xB1,
    "null": 0x40,
    "boolean": 0x56,
    "int": 0x71,
    "long": 0x81,
}


def value_of(said: dict[str, Any]) -> Any:
    """Return the value that a vector describes."""
    kind = said["type"]
    value: Any = said.get("value")
    match kind:
        case "null" | "boolean" | "string":
            return value
        case "symbol":
            return Symbol(value)
        case "char":
            return Char(chr(value["codepoint"]))
        case "float":
            return Float(value)
        case "double":
            return float(value)
        case "binary":
            return bytes.fromhex(value["hex"])
        case "uuid":
            return uuid.UUID(value)
        case "decimal32" | "decimal64" | "decimal128":
            return Decimal(value["bits"].to_bytes(int(kind[7:]) // 8, "big"))
        case "list":
            return [value_of(item) for item in value]
        case "map":
            return {value_of(key): value_of(item) for key, item in value}
        case "described":
            return Described(value_of(said["descriptor"]), value_of(value))
        case "array":
            of = said["of"]
            return Array(ARRAY_CODES[of], [value_of({"type": of, "value": item}) for item in value])
        case _:
            return INTEGERS[kind](value)


def shape(value: Any) -> Any:
    """Return ``value`` with the types of everything in it, so that UInt(1) and True differ."""
    if isinstance(value, Described):
        return ("described", shape(value.descriptor), shape(value.value))
    if isinstance(value, Array):
        return ("array", value.code, [shape(one) for one in value.items], value.is_described, shape(value.descriptor))
    if isinstance(value, list):
        return [shape(one) for one in value]
    if isinstance(value, dict):
        return {(type(key).__name__, repr(key)): shape(one) for key, one in value.items()}
    return (type(value).__name__, repr(value))


class Seen(NamedTuple):
    channel: int
    frame: Composite | str
    payload: bytes


class Outcome(NamedTuple):
    """``error``: condition and text of the error that ended it, or None."""

    frames: list[Seen]
    error: tuple[str, str] | None


def decode_stream(decoder: Decoder, octets: bytes, size: int = 0, *, is_slow: bool = False) -> Outcome:
    """Feed ``octets`` in pieces of ``size`` (0: at once) and take all frames after each piece."""
    frames: list[Seen] = []
    try:
        for piece in pieces(octets, size or len(octets) or 1):
            decoder.receive_data(piece)
            left_bytes = decoder.buffered_bytes()
            while (frame := decoder.next_frame_slow() if is_slow else decoder.next_frame()) is not None:
                left_bytes = less_than(left_bytes, decoder.buffered_bytes())
                is_plain = frame.CODE < 0  # headers and heartbeats have nothing to compare
                kept = (
                    replace(frame) if isinstance(frame, Transfer | Disposition) else frame
                )  # the next one may be the same object
                frames.append(Seen(decoder.channel, frame.NAME if is_plain else kept, decoder.payload))
    except AmqpError as error:
        return Outcome(frames, (error.condition, str(error)))
    return Outcome(frames, None)
