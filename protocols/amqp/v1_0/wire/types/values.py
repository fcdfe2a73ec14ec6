"""AMQP values in Python that keep their types.

    AMQP          Python              AMQP          Python              AMQP          Python
    null          None                byte          Byte                string        str
    boolean       bool                short         Short               symbol        Symbol
    ubyte         UByte               int           Int                 binary        bytes
    ushort        UShort              long          int                 uuid          uuid.UUID
    uint          UInt                float         Float               timestamp     Timestamp
    ulong         ULong               double        float               char          Char
    list          list                map           dict                array         Array
    described     Described           decimal32, decimal64, decimal128  Decimal (the bits as sent)

Values compare as in Python: ``UInt(1) == 1``.  Two keys of one map that are equal in Python count as repeated.
"""

from __future__ import annotations

from typing import Any

Value = Any  # one of the types above; mypy could not use a recursive alias


class UByte(int):
    __slots__ = ()


class UShort(int):
    __slots__ = ()


class UInt(int):
    __slots__ = ()


class ULong(int):
    __slots__ = ()


class Byte(int):
    __slots__ = ()


class Short(int):
    __slots__ = ()


class Int(int):
    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC."""

    __slots__ = ()


class Float(float):
    """binary32."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """ASCII, from a constrained domain."""

    __slots__ = ()


class Decimal(bytes):
    """decimal32, decimal64 or decimal128: 4, 8 or 16 octets that are only passed on."""

    __slots__ = ()


class Described:
    """A value with a descriptor: a ULong or a Symbol where the standard defines it."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: Value, value: Value) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described)
            and type(self.descriptor) is type(other.descriptor)
            and self.descriptor == other.descriptor
            and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash(self.descriptor)

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


class Array:
    """Values of one type.  ``code``: the widest format code of that type; all items have this type.

    descriptor: of every item if they are described (``is_described``); the items are then the bare values.
    """

    __slots__ = ("code", "items", "is_described", "descriptor")

    def __init__(self, code: int, items: list[Value], is_described: bool = False, descriptor: Value = None) -> None:
        self.code = code
        self.items = items
        self.is_described = is_described
        self.descriptor = descriptor

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.code == other.code
            and self.items == other.items
            and self.is_described == other.is_described
            and self.descriptor == other.descriptor
        )

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"Array({self.code:#04x}, {self.items!r})"
