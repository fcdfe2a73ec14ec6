"""Frames of the SASL layer.  Source: AMQP 1.0 part 5, 5.3.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from protocols.amqp.v1_0.wire.composite import BINARY, STRING, SYMBOL, SYMBOLS, UBYTE, Composite


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
