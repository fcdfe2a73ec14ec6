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
from typing import ClassVar, TypeAlias

from engine.values.errors import PenstockError
from protocols.amqp.v1_0.wire.errors import symbol_for
from protocols.amqp.v1_0.wire.types.values import Value

# Kinds of values in a field, and what holds them here.
STRING: TypeAlias = str
SYMBOL: TypeAlias = str
BINARY: TypeAlias = bytes
BOOLEAN: TypeAlias = bool
UBYTE: TypeAlias = int
USHORT: TypeAlias = int
UINT: TypeAlias = int
ULONG: TypeAlias = int
MAP: TypeAlias = dict[Value, Value]
PROPERTIES: TypeAlias = dict[Value, Value]  # the type ``fields`` (transport 2.8.13): the keys are symbols
SYMBOLS: TypeAlias = list[str]  # multiple=true: null, one symbol, or an array of them


class Composite:
    """FIELDS: (name on the wire, kind of value, whether it is mandatory), in order, from the annotations.

    A kind is the name of a type above or of a composite.  ATTRIBUTES: (name here, kind), in the same order.
    """

    __slots__ = ()

    CODE: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    FIELDS: ClassVar[tuple[tuple[str, str, bool], ...]] = ()
    ATTRIBUTES: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.FIELDS = tuple(
            (name.replace("_", "-"), kind.removesuffix(" | None"), not kind.endswith(" | None"))
            for name, kind in cls.__annotations__.items()
            if not kind.startswith("ClassVar")
        )
        cls.ATTRIBUTES = tuple((name.replace("-", "_"), kind) for name, kind, _ in cls.FIELDS)


@dataclass(slots=True, eq=True)
class Error(Composite):
    CODE: ClassVar[int] = 0x1D
    NAME: ClassVar[str] = "amqp:error:list"

    condition: SYMBOL
    description: STRING | None = None
    info: PROPERTIES | None = None


def error_of(error: PenstockError) -> Error:
    """Return the error that the peer gets."""
    return Error(symbol_for(error), str(error))
