"""Composite types: described lists.  Each has a class that lists its fields in the order of the wire.

Fields have the names of the standard.  An absent field is None, and its reader applies the default of the standard:

    open     max-frame-size 4294967295, channel-max 65535      begin    handle-max 4294967295
    attach   snd-settle-mode 2 (mixed), rcv-settle-mode 0      all booleans  false
    termini  durable 0 (none), expiry-policy session-end, timeout 0

The classes are in ``performatives``, ``sasl_frames``, ``delivery_states``, ``termini`` and ``transaction_types``;
``composite_codec`` knows them all.  Source: AMQP 1.0 part 1, 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.amqp.v1_0.wire.values import Value

# Kinds of values in a field.
STRING: Final = "a string"
SYMBOL: Final = "a symbol"
BINARY: Final = "binary"
BOOLEAN: Final = "a boolean"
UBYTE: Final = "a ubyte"
USHORT: Final = "a ushort"
UINT: Final = "a uint"
ULONG: Final = "a ulong"
MAP: Final = "a map"
PROPERTIES: Final = "a map whose keys are symbols"  # the type ``fields`` (transport 2.8.13)
SYMBOLS: Final = "symbols"  # multiple=true: null, one symbol, or an array of them
STATE: Final = "a delivery state"
SOURCE: Final = "a source"
TARGET: Final = "a target or a coordinator"
ERROR: Final = "an error"


class Composite:
    """FIELDS: (name on the wire, kind of value, whether it is mandatory), in order."""

    __slots__ = ()

    CODE: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    FIELDS: ClassVar[tuple[tuple[str, str, bool], ...]] = ()


@dataclass(slots=True, eq=True)
class Error(Composite):
    CODE: ClassVar[int] = 0x1D
    NAME: ClassVar[str] = "amqp:error:list"
    FIELDS: ClassVar = (("condition", SYMBOL, True), ("description", STRING, False), ("info", PROPERTIES, False))

    condition: str
    description: str | None = None
    info: dict[Value, Value] | None = None
