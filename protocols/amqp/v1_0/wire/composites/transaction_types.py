"""The coordinator of transactions as a target, and the bodies of messages to it.  Source: AMQP 1.0 part 4, 4.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composites.composite import BINARY, BOOLEAN, SYMBOLS, Composite

TRANSACTION_CODES: Final = frozenset((0x31, 0x32))


@dataclass(slots=True)
class Coordinator(Composite):
    CODE: ClassVar[int] = 0x30
    NAME: ClassVar[str] = "amqp:coordinator:list"

    capabilities: SYMBOLS | None = None


@dataclass(slots=True)
class Declare(Composite):
    CODE: ClassVar[int] = 0x31
    NAME: ClassVar[str] = "amqp:declare:list"

    global_id: BINARY | None = None


@dataclass(slots=True)
class Discharge(Composite):
    CODE: ClassVar[int] = 0x32
    NAME: ClassVar[str] = "amqp:discharge:list"

    txn_id: BINARY
    fail: BOOLEAN | None = None
