"""Termini: the source and the target of a link.  Source: AMQP 1.0 part 3, 3.5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from protocols.amqp.v1_0.wire.composites.composite import (
    BOOLEAN,
    MAP,
    PROPERTIES,
    STRING,
    SYMBOL,
    SYMBOLS,
    UINT,
    Composite,
)
from protocols.amqp.v1_0.wire.composites.delivery_states import State


@dataclass(slots=True)
class Source(Composite):
    CODE: ClassVar[int] = 0x28
    NAME: ClassVar[str] = "amqp:source:list"

    address: STRING | None = None
    durable: UINT | None = None
    expiry_policy: SYMBOL | None = None
    timeout: UINT | None = None
    dynamic: BOOLEAN | None = None
    dynamic_node_properties: PROPERTIES | None = None
    distribution_mode: SYMBOL | None = None
    filter: MAP | None = None
    default_outcome: State | None = None
    outcomes: SYMBOLS | None = None
    capabilities: SYMBOLS | None = None


@dataclass(slots=True)
class Target(Composite):
    CODE: ClassVar[int] = 0x29
    NAME: ClassVar[str] = "amqp:target:list"

    address: STRING | None = None
    durable: UINT | None = None
    expiry_policy: SYMBOL | None = None
    timeout: UINT | None = None
    dynamic: BOOLEAN | None = None
    dynamic_node_properties: PROPERTIES | None = None
    capabilities: SYMBOLS | None = None
