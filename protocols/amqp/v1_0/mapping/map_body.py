"""The body of a MapMessage (an amqp-value with a map) <-> the map in the texts of other protocols."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from protocols import map_message as words
from protocols.amqp.v1_0.wire.types.values import (
    Byte,
    Char,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)
from protocols.map_message import DEPTH_MAX, Budget, Map, MapError, Typed, number_kind

# AMQP's types -> the narrowest of JMS that holds all of their values (AMQP JMS mapping 1.0, section 3.1.2).
_KINDS: Final[dict[type, str]] = {
    bool: words.BOOLEAN,
    Byte: words.BYTE,
    UByte: words.SHORT,
    Short: words.SHORT,
    UShort: words.INT,
    Int: words.INT,
    UInt: words.LONG,
    int: words.LONG,
    ULong: words.LONG,
    Timestamp: words.LONG,
    Float: words.FLOAT,
    float: words.DOUBLE,
    Char: words.CHAR,
    str: words.STRING,
    Symbol: words.STRING,
    uuid.UUID: words.STRING,
    bytes: words.BYTES,
    type(None): words.NULL,
}
_TYPES: Final[dict[str, Callable[[Value], Value]]] = {
    words.BYTE: Byte,
    words.SHORT: Short,
    words.INT: Int,
    words.FLOAT: Float,
    words.CHAR: Char,
}


def typed_map(values: dict[Value, Value]) -> Map:
    """Return a map of AMQP in the types of JMS.  Raises: MapError."""
    return _typed_map(values, 1, Budget())


def amqp_map(values: Map) -> dict[Value, Value]:
    """Return the map in the types of AMQP."""
    return {name: _amqp_value(typed) for name, typed in values.items()}


def stream_value(value: Value) -> Value:
    """Return a value of a StreamMessage; a number has the smallest type that holds it."""
    if type(value) is int or type(value) is float:
        return _amqp_value(Typed(number_kind(value), value))
    return value


def _typed_map(values: dict[Value, Value], depth: int, budget: Budget) -> Map:
    if depth > DEPTH_MAX:
        raise MapError(f"{depth} maps and lists inside each other; the limit is {DEPTH_MAX}")
    budget.spend(len(values))
    found: Map = {}
    for name, value in values.items():
        if not isinstance(name, str) or not name:
            raise MapError(f"the name of an entry is a {type(name).__name__}; allowed is a string")
        found[str(name)] = _typed(value, depth, budget)
    return found


def _typed(value: Value, depth: int, budget: Budget) -> Typed:
    if isinstance(value, dict):
        return Typed(words.MAP, _typed_map(value, depth + 1, budget))
    if isinstance(value, list):
        if depth >= DEPTH_MAX:
            raise MapError(f"{depth + 1} maps and lists inside each other; the limit is {DEPTH_MAX}")
        budget.spend(len(value))
        return Typed(words.LIST, [_typed(one, depth + 1, budget) for one in value])
    kind = _KINDS.get(type(value))
    if kind is None or (kind == words.LONG and value >= 2**63):
        raise MapError(f"a {type(value).__name__} cannot be in a map")
    return Typed(kind, str(value) if kind == words.STRING else value)


def _amqp_value(typed: Typed) -> Value:
    value = typed.value
    if isinstance(value, dict):
        return amqp_map(value)
    if isinstance(value, list):
        return [_amqp_value(one) for one in value]
    convert = _TYPES.get(typed.kind)
    return value if convert is None else convert(value)
