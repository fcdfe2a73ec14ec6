"""Frames of the SASL layer.  Source: AMQP 1.0 part 5, 5.3.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from protocols.amqp.v1_0.wire.composites.composite import BINARY, STRING, SYMBOL, SYMBOLS, UBYTE, Composite


@dataclass(slots=True)
class SaslMechanisms(Composite):
    CODE: ClassVar[int] = 0x40
    NAME: ClassVar[str] = "amqp:sasl-mechanisms:list"

    sasl_server_mechanisms: SYMBOLS


@dataclass(slots=True)
class SaslInit(Composite):
    CODE: ClassVar[int] = 0x41
    NAME: ClassVar[str] = "amqp:sasl-init:list"

    mechanism: SYMBOL
    initial_response: BINARY | None = None
    hostname: STRING | None = None


@dataclass(slots=True)
class SaslChallenge(Composite):
    CODE: ClassVar[int] = 0x42
    NAME: ClassVar[str] = "amqp:sasl-challenge:list"

    challenge: BINARY


@dataclass(slots=True)
class SaslResponse(Composite):
    CODE: ClassVar[int] = 0x43
    NAME: ClassVar[str] = "amqp:sasl-response:list"

    response: BINARY


@dataclass(slots=True)
class SaslOutcome(Composite):
    CODE: ClassVar[int] = 0x44
    NAME: ClassVar[str] = "amqp:sasl-outcome:list"

    code: UBYTE
    additional_data: BINARY | None = None
