"""Delivery states: outcomes, and the states before an outcome.  Sources: AMQP 1.0 part 3, 3.4; part 4, 4.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composite import BINARY, BOOLEAN, ERROR, MAP, STATE, UINT, ULONG, Composite, Error
from protocols.amqp.v1_0.wire.values import Value


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

ACCEPTED: Final = Accepted()  # no fields, so one object is enough
ACCEPTED_LIST0: Final = b"\x00\x53\x24\x45"
