"""Performatives: the frames of connection, session and link.  Source: AMQP 1.0 part 2, 2.7.

A field that is null on the wire is None here (``composite``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composites.composite import (
    BINARY,
    BOOLEAN,
    MAP,
    PROPERTIES,
    STRING,
    SYMBOLS,
    UBYTE,
    UINT,
    ULONG,
    USHORT,
    Composite,
    Error,
)
from protocols.amqp.v1_0.wire.composites.delivery_states import State
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator

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

    container_id: STRING
    hostname: STRING | None = None
    max_frame_size: UINT | None = None
    channel_max: USHORT | None = None
    idle_time_out: UINT | None = None
    outgoing_locales: SYMBOLS | None = None
    incoming_locales: SYMBOLS | None = None
    offered_capabilities: SYMBOLS | None = None
    desired_capabilities: SYMBOLS | None = None
    properties: PROPERTIES | None = None


@dataclass(slots=True)
class Begin(Composite):
    CODE: ClassVar[int] = BEGIN
    NAME: ClassVar[str] = "amqp:begin:list"

    remote_channel: USHORT | None
    next_outgoing_id: UINT
    incoming_window: UINT
    outgoing_window: UINT
    handle_max: UINT | None = None
    offered_capabilities: SYMBOLS | None = None
    desired_capabilities: SYMBOLS | None = None
    properties: PROPERTIES | None = None


@dataclass(slots=True)
class Attach(Composite):
    """role: False is a sender, True a receiver."""

    CODE: ClassVar[int] = ATTACH
    NAME: ClassVar[str] = "amqp:attach:list"

    name: STRING
    handle: UINT
    role: BOOLEAN
    snd_settle_mode: UBYTE | None = None
    rcv_settle_mode: UBYTE | None = None
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: MAP | None = None
    incomplete_unsettled: BOOLEAN | None = None
    initial_delivery_count: UINT | None = None
    max_message_size: ULONG | None = None
    offered_capabilities: SYMBOLS | None = None
    desired_capabilities: SYMBOLS | None = None
    properties: PROPERTIES | None = None


@dataclass(slots=True)
class Flow(Composite):
    CODE: ClassVar[int] = FLOW
    NAME: ClassVar[str] = "amqp:flow:list"

    next_incoming_id: UINT | None
    incoming_window: UINT
    next_outgoing_id: UINT
    outgoing_window: UINT
    handle: UINT | None = None
    delivery_count: UINT | None = None
    link_credit: UINT | None = None
    available: UINT | None = None
    drain: BOOLEAN | None = None
    echo: BOOLEAN | None = None
    properties: PROPERTIES | None = None


@dataclass(slots=True)
class Transfer(Composite):
    CODE: ClassVar[int] = TRANSFER
    NAME: ClassVar[str] = "amqp:transfer:list"

    handle: UINT
    delivery_id: UINT | None = None
    delivery_tag: BINARY | None = None
    message_format: UINT | None = None
    settled: BOOLEAN | None = None
    more: BOOLEAN | None = None
    rcv_settle_mode: UBYTE | None = None
    state: State | None = None
    resume: BOOLEAN | None = None
    aborted: BOOLEAN | None = None
    batchable: BOOLEAN | None = None


@dataclass(slots=True)
class Disposition(Composite):
    """role: of its sender; True for deliveries that it received."""

    CODE: ClassVar[int] = DISPOSITION
    NAME: ClassVar[str] = "amqp:disposition:list"

    role: BOOLEAN
    first: UINT
    last: UINT | None = None
    settled: BOOLEAN | None = None
    state: State | None = None
    batchable: BOOLEAN | None = None


@dataclass(slots=True)
class Detach(Composite):
    CODE: ClassVar[int] = DETACH
    NAME: ClassVar[str] = "amqp:detach:list"

    handle: UINT
    closed: BOOLEAN | None = None
    error: Error | None = None


@dataclass(slots=True)
class End(Composite):
    CODE: ClassVar[int] = END
    NAME: ClassVar[str] = "amqp:end:list"

    error: Error | None = None


@dataclass(slots=True)
class Close(Composite):
    CODE: ClassVar[int] = CLOSE
    NAME: ClassVar[str] = "amqp:close:list"

    error: Error | None = None
