"""Every composite type of the standard: performatives, SASL frames, outcomes, termini, transactions.

A composite is a described list.  Its class lists the fields in the order of the wire, as the standard spells them;
None is a field that was not there, and whoever looks at it applies the default of the standard:

    open     max-frame-size 4294967295, channel-max 65535      begin    handle-max 4294967295
    attach   snd-settle-mode 2 (mixed), rcv-settle-mode 0      all booleans  false
    termini  durable 0 (none), expiry-policy session-end, timeout 0

The fast ways of the codec make Transfer, Disposition and Flow without what stands here; the result is the same.
Sources: AMQP 1.0 parts 2 (transport 2.7), 3 (messaging 3.4, 3.5), 4 (transactions 4.5), 5 (security 5.3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from protocols.amqp.v1_0.errors import DecodeError
from protocols.amqp.v1_0.types import decode, described_list, encode
from protocols.amqp.v1_0.values import Array, Described, Symbol, UByte, UInt, ULong, UShort, Value

# Codes that the session looks at; the others are only in the classes.
OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

# What a field holds.
STRING: Final = "a string"
SYMBOL: Final = "a symbol"
BINARY: Final = "binary"
BOOLEAN: Final = "a boolean"
UBYTE: Final = "a ubyte"
USHORT: Final = "a ushort"
UINT: Final = "a uint"
ULONG: Final = "a ulong"
MAP: Final = "a map"
SYMBOLS: Final = "symbols"  # multiple=true: null, one symbol, or an array of them
STATE: Final = "a delivery state"
SOURCE: Final = "a source"
TARGET: Final = "a target or a coordinator"
ERROR: Final = "an error"

_TYPES: Final[dict[str, type]] = {
    STRING: str,
    SYMBOL: Symbol,
    BINARY: bytes,
    BOOLEAN: bool,
    UBYTE: UByte,
    USHORT: UShort,
    UINT: UInt,
    ULONG: ULong,
    MAP: dict,
}


class Composite:
    """FIELDS: (name on the wire, what it holds, whether it must be there), in order."""

    __slots__ = ()

    CODE: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    FIELDS: ClassVar[tuple[tuple[str, str, bool], ...]] = ()


@dataclass(slots=True, eq=True)
class Error(Composite):
    CODE: ClassVar[int] = 0x1D
    NAME: ClassVar[str] = "amqp:error:list"
    FIELDS: ClassVar = (("condition", SYMBOL, True), ("description", STRING, False), ("info", MAP, False))

    condition: str
    description: str | None = None
    info: dict[Value, Value] | None = None


# -- connection, session, link


@dataclass(slots=True)
class Open(Composite):
    CODE: ClassVar[int] = OPEN
    NAME: ClassVar[str] = "amqp:open:list"
    FIELDS: ClassVar = (
        ("container-id", STRING, True),
        ("hostname", STRING, False),
        ("max-frame-size", UINT, False),
        ("channel-max", USHORT, False),
        ("idle-time-out", UINT, False),
        ("outgoing-locales", SYMBOLS, False),
        ("incoming-locales", SYMBOLS, False),
        ("offered-capabilities", SYMBOLS, False),
        ("desired-capabilities", SYMBOLS, False),
        ("properties", MAP, False),
    )

    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: list[str] | None = None
    incoming_locales: list[str] | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Value, Value] | None = None


@dataclass(slots=True)
class Begin(Composite):
    CODE: ClassVar[int] = BEGIN
    NAME: ClassVar[str] = "amqp:begin:list"
    FIELDS: ClassVar = (
        ("remote-channel", USHORT, False),
        ("next-outgoing-id", UINT, True),
        ("incoming-window", UINT, True),
        ("outgoing-window", UINT, True),
        ("handle-max", UINT, False),
        ("offered-capabilities", SYMBOLS, False),
        ("desired-capabilities", SYMBOLS, False),
        ("properties", MAP, False),
    )

    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Value, Value] | None = None


@dataclass(slots=True)
class Attach(Composite):
    """role: False is a sender, True a receiver."""

    CODE: ClassVar[int] = ATTACH
    NAME: ClassVar[str] = "amqp:attach:list"
    FIELDS: ClassVar = (
        ("name", STRING, True),
        ("handle", UINT, True),
        ("role", BOOLEAN, True),
        ("snd-settle-mode", UBYTE, False),
        ("rcv-settle-mode", UBYTE, False),
        ("source", SOURCE, False),
        ("target", TARGET, False),
        ("unsettled", MAP, False),
        ("incomplete-unsettled", BOOLEAN, False),
        ("initial-delivery-count", UINT, False),
        ("max-message-size", ULONG, False),
        ("offered-capabilities", SYMBOLS, False),
        ("desired-capabilities", SYMBOLS, False),
        ("properties", MAP, False),
    )

    name: str
    handle: int
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: dict[Value, Value] | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: list[str] | None = None
    desired_capabilities: list[str] | None = None
    properties: dict[Value, Value] | None = None


@dataclass(slots=True)
class Flow(Composite):
    CODE: ClassVar[int] = FLOW
    NAME: ClassVar[str] = "amqp:flow:list"
    FIELDS: ClassVar = (
        ("next-incoming-id", UINT, False),
        ("incoming-window", UINT, True),
        ("next-outgoing-id", UINT, True),
        ("outgoing-window", UINT, True),
        ("handle", UINT, False),
        ("delivery-count", UINT, False),
        ("link-credit", UINT, False),
        ("available", UINT, False),
        ("drain", BOOLEAN, False),
        ("echo", BOOLEAN, False),
        ("properties", MAP, False),
    )

    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Value, Value] | None = None


@dataclass(slots=True)
class Transfer(Composite):
    CODE: ClassVar[int] = TRANSFER
    NAME: ClassVar[str] = "amqp:transfer:list"
    FIELDS: ClassVar = (
        ("handle", UINT, True),
        ("delivery-id", UINT, False),
        ("delivery-tag", BINARY, False),
        ("message-format", UINT, False),
        ("settled", BOOLEAN, False),
        ("more", BOOLEAN, False),
        ("rcv-settle-mode", UBYTE, False),
        ("state", STATE, False),
        ("resume", BOOLEAN, False),
        ("aborted", BOOLEAN, False),
        ("batchable", BOOLEAN, False),
    )

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: State | None = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(slots=True)
class Disposition(Composite):
    """role: of its sender; True speaks of deliveries that it received."""

    CODE: ClassVar[int] = DISPOSITION
    NAME: ClassVar[str] = "amqp:disposition:list"
    FIELDS: ClassVar = (
        ("role", BOOLEAN, True),
        ("first", UINT, True),
        ("last", UINT, False),
        ("settled", BOOLEAN, False),
        ("state", STATE, False),
        ("batchable", BOOLEAN, False),
    )

    role: bool
    first: int
    last: int | None = None
    settled: bool | None = None
    state: State | None = None
    batchable: bool | None = None


@dataclass(slots=True)
class Detach(Composite):
    CODE: ClassVar[int] = DETACH
    NAME: ClassVar[str] = "amqp:detach:list"
    FIELDS: ClassVar = (("handle", UINT, True), ("closed", BOOLEAN, False), ("error", ERROR, False))

    handle: int
    closed: bool | None = None
    error: Error | None = None


@dataclass(slots=True)
class End(Composite):
    CODE: ClassVar[int] = END
    NAME: ClassVar[str] = "amqp:end:list"
    FIELDS: ClassVar = (("error", ERROR, False),)

    error: Error | None = None


@dataclass(slots=True)
class Close(Composite):
    CODE: ClassVar[int] = CLOSE
    NAME: ClassVar[str] = "amqp:close:list"
    FIELDS: ClassVar = (("error", ERROR, False),)

    error: Error | None = None


# -- SASL


@dataclass(slots=True)
class SaslMechanisms(Composite):
    CODE: ClassVar[int] = 0x40
    NAME: ClassVar[str] = "amqp:sasl-mechanisms:list"
    FIELDS: ClassVar = (("sasl-server-mechanisms", SYMBOLS, True),)

    sasl_server_mechanisms: list[str]


@dataclass(slots=True)
class SaslInit(Composite):
    CODE: ClassVar[int] = 0x41
    NAME: ClassVar[str] = "amqp:sasl-init:list"
    FIELDS: ClassVar = (("mechanism", SYMBOL, True), ("initial-response", BINARY, False), ("hostname", STRING, False))

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(slots=True)
class SaslChallenge(Composite):
    CODE: ClassVar[int] = 0x42
    NAME: ClassVar[str] = "amqp:sasl-challenge:list"
    FIELDS: ClassVar = (("challenge", BINARY, True),)

    challenge: bytes


@dataclass(slots=True)
class SaslResponse(Composite):
    CODE: ClassVar[int] = 0x43
    NAME: ClassVar[str] = "amqp:sasl-response:list"
    FIELDS: ClassVar = (("response", BINARY, True),)

    response: bytes


@dataclass(slots=True)
class SaslOutcome(Composite):
    CODE: ClassVar[int] = 0x44
    NAME: ClassVar[str] = "amqp:sasl-outcome:list"
    FIELDS: ClassVar = (("code", UBYTE, True), ("additional-data", BINARY, False))

    code: int
    additional_data: bytes | None = None


# -- delivery states


@dataclass(slots=True)
class Received(Composite):
    CODE: ClassVar[int] = 0x23
    NAME: ClassVar[str] = "amqp:received:list"
    FIELDS: ClassVar = (("section-number", UINT, True), ("section-offset", ULONG, True))

    section_number: int
    section_offset: int


@dataclass(slots=True)
class Accepted(Composite):
    CODE: ClassVar[int] = 0x24
    NAME: ClassVar[str] = "amqp:accepted:list"


@dataclass(slots=True)
class Rejected(Composite):
    CODE: ClassVar[int] = 0x25
    NAME: ClassVar[str] = "amqp:rejected:list"
    FIELDS: ClassVar = (("error", ERROR, False),)

    error: Error | None = None


@dataclass(slots=True)
class Released(Composite):
    CODE: ClassVar[int] = 0x26
    NAME: ClassVar[str] = "amqp:released:list"


@dataclass(slots=True)
class Modified(Composite):
    CODE: ClassVar[int] = 0x27
    NAME: ClassVar[str] = "amqp:modified:list"
    FIELDS: ClassVar = (
        ("delivery-failed", BOOLEAN, False),
        ("undeliverable-here", BOOLEAN, False),
        ("message-annotations", MAP, False),
    )

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: dict[Value, Value] | None = None


@dataclass(slots=True)
class Declared(Composite):
    CODE: ClassVar[int] = 0x33
    NAME: ClassVar[str] = "amqp:declared:list"
    FIELDS: ClassVar = (("txn-id", BINARY, True),)

    txn_id: bytes


@dataclass(slots=True)
class TransactionalState(Composite):
    CODE: ClassVar[int] = 0x34
    NAME: ClassVar[str] = "amqp:transactional-state:list"
    FIELDS: ClassVar = (("txn-id", BINARY, True), ("outcome", STATE, False))

    txn_id: bytes
    outcome: State | None = None


Outcome = Accepted | Rejected | Released | Modified | Declared
State = Outcome | Received | TransactionalState

# -- termini


@dataclass(slots=True)
class Source(Composite):
    CODE: ClassVar[int] = 0x28
    NAME: ClassVar[str] = "amqp:source:list"
    FIELDS: ClassVar = (
        ("address", STRING, False),
        ("durable", UINT, False),
        ("expiry-policy", SYMBOL, False),
        ("timeout", UINT, False),
        ("dynamic", BOOLEAN, False),
        ("dynamic-node-properties", MAP, False),
        ("distribution-mode", SYMBOL, False),
        ("filter", MAP, False),
        ("default-outcome", STATE, False),
        ("outcomes", SYMBOLS, False),
        ("capabilities", SYMBOLS, False),
    )

    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Value, Value] | None = None
    distribution_mode: str | None = None
    filter: dict[Value, Value] | None = None
    default_outcome: State | None = None
    outcomes: list[str] | None = None
    capabilities: list[str] | None = None


@dataclass(slots=True)
class Target(Composite):
    CODE: ClassVar[int] = 0x29
    NAME: ClassVar[str] = "amqp:target:list"
    FIELDS: ClassVar = (
        ("address", STRING, False),
        ("durable", UINT, False),
        ("expiry-policy", SYMBOL, False),
        ("timeout", UINT, False),
        ("dynamic", BOOLEAN, False),
        ("dynamic-node-properties", MAP, False),
        ("capabilities", SYMBOLS, False),
    )

    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Value, Value] | None = None
    capabilities: list[str] | None = None


@dataclass(slots=True)
class Coordinator(Composite):
    CODE: ClassVar[int] = 0x30
    NAME: ClassVar[str] = "amqp:coordinator:list"
    FIELDS: ClassVar = (("capabilities", SYMBOLS, False),)

    capabilities: list[str] | None = None


# -- transactions: bodies of messages to a coordinator


@dataclass(slots=True)
class Declare(Composite):
    CODE: ClassVar[int] = 0x31
    NAME: ClassVar[str] = "amqp:declare:list"
    FIELDS: ClassVar = (("global-id", BINARY, False),)

    global_id: bytes | None = None


@dataclass(slots=True)
class Discharge(Composite):
    CODE: ClassVar[int] = 0x32
    NAME: ClassVar[str] = "amqp:discharge:list"
    FIELDS: ClassVar = (("txn-id", BINARY, True), ("fail", BOOLEAN, False))

    txn_id: bytes
    fail: bool | None = None


COMPOSITES: Final[tuple[type[Composite], ...]] = (
    Open,
    Begin,
    Attach,
    Flow,
    Transfer,
    Disposition,
    Detach,
    End,
    Close,
    SaslMechanisms,
    SaslInit,
    SaslChallenge,
    SaslResponse,
    SaslOutcome,
    Error,
    Received,
    Accepted,
    Rejected,
    Released,
    Modified,
    Declared,
    TransactionalState,
    Source,
    Target,
    Coordinator,
    Declare,
    Discharge,
)

FRAME_CODES: Final = frozenset(range(OPEN, CLOSE + 1))
SASL_CODES: Final = frozenset(range(0x40, 0x45))
_STATE_CODES: Final = frozenset((0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34))
TRANSACTION_CODES: Final = frozenset((0x31, 0x32))

# What a nested composite may be, by what the field holds.
_NESTED: Final[dict[str, frozenset[int]]] = {
    STATE: _STATE_CODES,
    SOURCE: frozenset((0x28,)),
    TARGET: frozenset((0x29, 0x30)),
    ERROR: frozenset((Error.CODE,)),
}

_BY_CODE: Final[dict[int, type[Composite]]] = {composite.CODE: composite for composite in COMPOSITES}
_CODE_BY_NAME: Final[dict[str, int]] = {composite.NAME: composite.CODE for composite in COMPOSITES}


def read_composite(octets: bytes, position: int, allowed: frozenset[int]) -> tuple[Composite, int]:
    """Return the composite at ``position`` and where it ends.  Raises: DecodeError."""
    value, end = decode(octets, position)
    if not isinstance(value, Described):
        raise DecodeError(f"a {type(value).__name__} stands where a performative is expected")
    return composite_of(value, allowed), end


def composite_of(described: Described, allowed: frozenset[int]) -> Composite:
    """Return what a described list stands for.  Raises: DecodeError."""
    descriptor = described.descriptor
    code = _CODE_BY_NAME.get(descriptor) if isinstance(descriptor, Symbol) else descriptor
    if not isinstance(code, int) or code not in allowed:
        names = ", ".join(_BY_CODE[one].NAME for one in sorted(allowed))
        seen = f"{int(code):#x}" if isinstance(code, int) else repr(descriptor)[:80]
        raise DecodeError(f"a composite has the descriptor {seen}; allowed are {names}")
    composite = _BY_CODE[code]
    if not isinstance(described.value, list):
        raise DecodeError(f"{composite.NAME} holds a {type(described.value).__name__}, not a list")
    # Fields beyond those we know belong to a later version and change nothing of what we know.
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


def encode_composite(composite: Composite) -> bytes:
    """Return the described list; null fields at its end are left out."""
    items: list[bytes] = []
    count = 0
    for number, (name, holds, _) in enumerate(composite.FIELDS, 1):
        value = getattr(composite, name.replace("-", "_"))
        items.append(_encode_field(holds, value))
        if value is not None:
            count = number
    return described_list(composite.CODE, count, b"".join(items[:count]))


def described_of(composite: Composite) -> Described:
    """Return ``composite`` as a value, for places that hold any value, such as a map."""
    value, _ = decode(encode_composite(composite))
    assert isinstance(value, Described), "a composite is a described list"
    return value


def _field(composite: type[Composite], name: str, holds: str, value: Value) -> Value:
    expected = _TYPES.get(holds)
    if expected is not None:
        # A symbol is a str in Python, a decimal is bytes: only the type itself will do.
        if type(value) is not expected:
            raise _wrong(composite, name, holds, value)
        return value
    if holds == SYMBOLS:
        if isinstance(value, Symbol):
            return [value]
        if isinstance(value, Array) and all(isinstance(one, Symbol) for one in value.items):
            return value.items
        raise _wrong(composite, name, holds, value)
    if not isinstance(value, Described):
        raise _wrong(composite, name, holds, value)
    return composite_of(value, _NESTED[holds])


def _wrong(composite: type[Composite], name: str, holds: str, value: Any) -> DecodeError:
    return DecodeError(f"{name} of {composite.NAME} is a {type(value).__name__}; allowed is {holds}")


def _encode_field(holds: str, value: Value) -> bytes:
    if value is None:
        return b"\x40"
    if holds == SYMBOLS:
        return encode(Array(0xB3, [Symbol(one) for one in value]))
    if holds in _NESTED:
        return encode_composite(value)
    return encode(value if holds == MAP else _TYPES[holds](value))
