"""Composites to octets and back: the complete codec, which knows every field and every rule.

The fast paths of the decoder make Transfer, Disposition and Flow without it, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import (
    CLOSE,
    OPEN,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.sasl_frames import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator, Declare, Discharge
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Array, Described, Symbol, UByte, UInt, ULong, UShort, Value

# The type of a field's value, by its kind.
_TYPES: Final[dict[str, type]] = {
    "STRING": str,
    "SYMBOL": Symbol,
    "BINARY": bytes,
    "BOOLEAN": bool,
    "UBYTE": UByte,
    "USHORT": UShort,
    "UINT": UInt,
    "ULONG": ULong,
    "MAP": dict,
    "PROPERTIES": dict,
}
COMPOSITES: Final[tuple[type[Composite], ...]] = (
    Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close,
    SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome,
    Error, Received, Accepted, Rejected, Released, Modified, Declared, TransactionalState,
    Source, Target, Coordinator, Declare, Discharge,
)  # fmt: skip
FRAME_CODES: Final = frozenset(range(OPEN, CLOSE + 1))
SASL_CODES: Final = frozenset(range(0x40, 0x45))
_STATE_CODES: Final = frozenset((0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34))
# The composites allowed in a field, by its kind.
_NESTED: Final[dict[str, frozenset[int]]] = {
    "State": _STATE_CODES,
    "Source": frozenset((0x28,)),
    "Target | Coordinator": frozenset((0x29, 0x30)),
    "Error": frozenset((Error.CODE,)),
}
# How an error names a kind.
_WORDS: Final = {
    "BINARY": "binary",
    "SYMBOLS": "symbols",
    "PROPERTIES": "a map whose keys are symbols",
    "State": "a delivery state",
    "Target | Coordinator": "a target or a coordinator",
    "Error": "an error",
}
_NULL: Final = b"\x40"
_BY_CODE: Final[dict[int, type[Composite]]] = {composite.CODE: composite for composite in COMPOSITES}
_CODE_BY_NAME: Final[dict[str, int]] = {composite.NAME: composite.CODE for composite in COMPOSITES}


def read_composite(octets: bytes, position: int, allowed: frozenset[int]) -> tuple[Composite, int]:
    """Return the composite at ``position`` and where it ends.  Raises: DecodeError."""
    value, end = decode(octets, position)
    if not isinstance(value, Described):
        raise DecodeError(f"a {type(value).__name__} is not a performative")
    return composite_of(value, allowed), end


def composite_of(described: Described, allowed: frozenset[int]) -> Composite:
    """Return the composite of a described list.  Raises: DecodeError."""
    descriptor = described.descriptor
    code = _CODE_BY_NAME.get(descriptor) if isinstance(descriptor, Symbol) else descriptor
    if not isinstance(code, int) or code not in allowed:
        names = ", ".join(_BY_CODE[one].NAME for one in sorted(allowed))
        seen = f"{int(code):#x}" if isinstance(code, int) else repr(descriptor)[:80]
        raise DecodeError(f"a composite has the descriptor {seen}; allowed are {names}")
    composite = _BY_CODE[code]
    if not isinstance(described.value, list):
        raise DecodeError(f"{composite.NAME} holds a {type(described.value).__name__}, not a list")
    # Further fields belong to a later version and do not change those that we know.
    values = described.value[: len(composite.FIELDS)]
    fields: list[Value] = []
    for (name, holds, is_mandatory), value in zip(composite.FIELDS, values, strict=False):
        if value is None:
            if is_mandatory:
                raise DecodeError(f"{composite.NAME} lacks {name}")
            fields.append(None)
        else:
            fields.append(_field(composite, name, holds, value))
    for name, _, is_mandatory in composite.FIELDS[len(values) :]:
        if is_mandatory:
            raise DecodeError(f"{composite.NAME} lacks {name}")
        fields.append(None)
    make: Callable[..., Composite] = composite
    return make(*fields)


def is_delivery_state(value: Value) -> bool:
    """Say whether ``value`` is the described list of a delivery state."""
    if not isinstance(value, Described):
        return False
    try:
        composite_of(value, _STATE_CODES)
    except DecodeError:
        return False
    return True


def encode_composite(composite: Composite) -> bytes:
    """Return the described list; null fields at its end are left out."""
    items: list[bytes] = []
    count = 0
    for name, holds in composite.ATTRIBUTES:
        value = getattr(composite, name)
        if value is None:
            items.append(_NULL)
        else:
            items.append(_encode_field(holds, value))
            count = len(items)
    return described_list(composite.CODE, count, b"".join(items[:count]))


def _field(composite: type[Composite], name: str, holds: str, value: Value) -> Value:
    expected = _TYPES.get(holds)
    if expected is not None:
        # A Symbol is also a str, a Decimal is also bytes: compare the exact type.
        if type(value) is not expected:
            raise _wrong(composite, name, holds, value)
        if holds == "PROPERTIES" and isinstance(value, dict):
            for key in value:
                if type(key) is not Symbol:
                    raise DecodeError(
                        f"{name} of {composite.NAME} has a {type(key).__name__} as a key; allowed are symbols"
                    )
        return value
    if holds == "SYMBOLS":
        if isinstance(value, Symbol):
            return [value]
        if isinstance(value, Array) and all(isinstance(one, Symbol) for one in value.items):
            return value.items
        raise _wrong(composite, name, holds, value)
    if not isinstance(value, Described):
        raise _wrong(composite, name, holds, value)
    return composite_of(value, _NESTED[holds])


def _wrong(composite: type[Composite], name: str, holds: str, value: Any) -> DecodeError:
    return DecodeError(
        f"{name} of {composite.NAME} is a {type(value).__name__}; allowed is {_WORDS.get(holds, f'a {holds.lower()}')}"
    )


def _encode_field(holds: str, value: Value) -> bytes:
    if holds == "SYMBOLS":
        return encode(Array(0xB3, [Symbol(one) for one in value]))
    if holds in _NESTED:
        return encode_composite(value)
    return encode(value if holds in ("MAP", "PROPERTIES") else _TYPES[holds](value))
