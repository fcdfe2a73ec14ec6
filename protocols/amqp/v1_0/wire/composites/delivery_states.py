"""Delivery states: outcomes, and the states before an outcome.  Sources: AMQP 1.0 part 3, 3.4; part 4, 4.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composites.composite import BINARY, BOOLEAN, MAP, UINT, ULONG, Composite, Error


@dataclass(slots=True)
class Received(Composite):
    CODE: ClassVar[int] = 0x23
    NAME: ClassVar[str] = "amqp:received:list"

    section_number: UINT
    section_offset: ULONG


@dataclass(slots=True)
class Accepted(Composite):
    CODE: ClassVar[int] = 0x24
    NAME: ClassVar[str] = "amqp:accepted:list"


@dataclass(slots=True)
class Rejected(Composite):
    CODE: ClassVar[int] = 0x25
    NAME: ClassVar[str] = "amqp:rejected:list"

    error: Error | None = None


@dataclass(slots=True)
class Released(Composite):
    CODE: ClassVar[int] = 0x26
    NAME: ClassVar[str] = "amqp:released:list"


@dataclass(slots=True)
class Modified(Composite):
    CODE: ClassVar[int] = 0x27
    NAME: ClassVar[str] = "amqp:modified:list"

    delivery_failed: BOOLEAN | None = None
    undeliverable_here: BOOLEAN | None = None
    message_annotations: MAP | None = None


@dataclass(slots=True)
class Declared(Composite):
    CODE: ClassVar[int] = 0x33
    NAME: ClassVar[str] = "amqp:declared:list"

    txn_id: BINARY


@dataclass(slots=True)
class TransactionalState(Composite):
    CODE: ClassVar[int] = 0x34
    NAME: ClassVar[str] = "amqp:transactional-state:list"

    txn_id: BINARY
    outcome: State | None = None


Outcome = Accepted | Rejected | Released | Modified | Declared
State = Outcome | Received | TransactionalState

ACCEPTED: Final = Accepted()  # no fields, so one object is enough
ACCEPTED_LIST0: Final = b"\x00\x53\x24\x45"
