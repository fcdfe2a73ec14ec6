"""The kind of each field of each command, from the classes of ``commands`` and ``messages``."""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import Final, NamedTuple

from protocols.openwire.wire import commands, identities, messages
from protocols.openwire.wire.commands import Structure

LOWEST_VERSION: Final = 9  # accepted; what came before adds nothing a client sees
VERSION: Final = 12
TEXT_VIEW_SINCE: Final = 10
DEPTH_MAX: Final = 8  # structures inside each other
ELEMENTS_MAX: Final = 1_000  # of all arrays in one command
MAGIC: Final = b"ActiveMQ"

MESSAGE_ID: Final = 110
LOCAL_TRANSACTION: Final = 111
XA_TRANSACTION: Final = 112
CONNECTION_ID: Final = 120
SESSION_ID: Final = 121
CONSUMER_ID: Final = 122
PRODUCER_ID: Final = 123
BROKER_ID: Final = 124
ID_PART_MAX: Final = 64  # octets of a part of an XA transaction id

# Kinds of fields.
BOOL: Final = 0
BYTE: Final = 1
INT: Final = 2
LONG: Final = 3
STRING: Final = 4
BYTES: Final = 5
MAGIC_OCTETS: Final = 6
THROWABLE: Final = 7
NESTED: Final = 8
ARRAY: Final = 9

_SIMPLE: Final = {
    "BOOL": BOOL,
    "BYTE": BYTE,
    "INT": INT,
    "LONG": LONG,
    "STRING": STRING,
    "BYTES": BYTES,
    "MAGIC": MAGIC_OCTETS,
    "Throwable": THROWABLE,
}
# Which types may stand in a nested field.
ANY: Final = frozenset[int]()
NESTED_TYPES: Final = {
    "ConnectionId": frozenset((CONNECTION_ID,)),
    "SessionId": frozenset((SESSION_ID,)),
    "ConsumerId": frozenset((CONSUMER_ID,)),
    "ProducerId": frozenset((PRODUCER_ID,)),
    "BrokerId": frozenset((BROKER_ID,)),
    "MessageId": frozenset((MESSAGE_ID,)),
    "TransactionId": frozenset((LOCAL_TRANSACTION, XA_TRANSACTION)),
    "Destination": frozenset((identities.QUEUE, identities.TOPIC, identities.TEMP_QUEUE, identities.TEMP_TOPIC)),
    "BrokerInfo": frozenset((commands.BrokerInfo.CODE,)),
    "Anything": ANY,
}
DESTINATIONS: Final = NESTED_TYPES["Destination"]
I32: Final = struct.Struct(">i")
I64: Final = struct.Struct(">q")


class Field(NamedTuple):
    name: str
    kind: int
    since: int
    allowed: frozenset[int]


class Layout(NamedTuple):
    made: type[Structure]
    fields: list[Field]


def _layout(made: type[Structure]) -> Layout:
    found: list[Field] = []
    for one in fields(made):
        kind = str(one.type).removesuffix(" | None")
        since = made.SINCE.get(one.name, 1)
        if kind in _SIMPLE:
            found.append(Field(one.name, _SIMPLE[kind], since, ANY))
        elif kind.startswith("list["):
            found.append(Field(one.name, ARRAY, since, NESTED_TYPES[kind[5:-1]]))
        else:
            found.append(Field(one.name, NESTED, since, NESTED_TYPES[kind]))
    return Layout(made, found)


LAYOUTS: Final[dict[int, Layout]] = {
    one.CODE: _layout(one)
    for one in [*vars(commands).values(), *messages.MESSAGE_CLASSES.values()]
    if isinstance(one, type) and issubclass(one, Structure) and one.CODE
}


# What a field has in a version without it, by kind.
ABSENT: Final = (False, 0, 0, 0, None, None, b"", None, None, None)
