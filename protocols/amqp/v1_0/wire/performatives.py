"""Performatives: the frames of connection, session and link.  Source: AMQP 1.0 part 2, 2.7.

A field that is null on the wire is None here (``composite``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composite import (
    BINARY,
    BOOLEAN,
    ERROR,
    MAP,
    PROPERTIES,
    SOURCE,
    STATE,
    STRING,
    SYMBOLS,
    TARGET,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Composite,
    Error,
)
from protocols.amqp.v1_0.wire.delivery_states import State
from protocols.amqp.v1_0.wire.termini import Source, Target
from protocols.amqp.v1_0.wire.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.values import Value

# Codes that the session compares; the others are only in the classes.
OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18

SND_SETTLE_MODE_MOST: Final = 2  # unsettled, settled, mixed
RCV_SETTLE_MODE_MOST: Final = 1  # first, second
DELIVERY_TAG_MOST: Final = 32  # octets


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
        ("properties", PROPERTIES, False),
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
        ("properties", PROPERTIES, False),
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
        ("properties", PROPERTIES, False),
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
        ("properties", PROPERTIES, False),
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
    """role: of its sender; True for deliveries that it received."""

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
