"""Termini: the source and the target of a link.  Source: AMQP 1.0 part 3, 3.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from protocols.amqp.v1_0.wire.composite import BOOLEAN, MAP, PROPERTIES, STATE, STRING, SYMBOL, SYMBOLS, UINT, Composite
from protocols.amqp.v1_0.wire.delivery_states import State
from protocols.amqp.v1_0.wire.values import Value


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
        ("dynamic-node-properties", PROPERTIES, False),
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
        ("dynamic-node-properties", PROPERTIES, False),
        ("capabilities", SYMBOLS, False),
    )

    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: dict[Value, Value] | None = None
    capabilities: list[str] | None = None
