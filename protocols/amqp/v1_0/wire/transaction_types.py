"""The coordinator of transactions as a target, and the bodies of messages to it.  Source: AMQP 1.0 part 4, 4.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.composite import BINARY, BOOLEAN, SYMBOLS, Composite

TRANSACTION_CODES: Final = frozenset((0x31, 0x32))


@dataclass(slots=True)
class Coordinator(Composite):
    CODE: ClassVar[int] = 0x30
    NAME: ClassVar[str] = "amqp:coordinator:list"
    FIELDS: ClassVar = (("capabilities", SYMBOLS, False),)

    capabilities: list[str] | None = None


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
