"""Octets -> commands: loose encoding, uncached, without stack traces, of any version."""

from __future__ import annotations

from typing import Any

from protocols.errors import FrameError
from protocols.openwire.wire.commands import Structure
from protocols.openwire.wire.identities import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    Throwable,
    XaTransactionId,
)
from protocols.openwire.wire.layouts import (
    ABSENT,
    ARRAY,
    BOOL,
    BROKER_ID,
    BYTE,
    BYTES,
    CONNECTION_ID,
    CONSUMER_ID,
    DEPTH_MAX,
    DESTINATIONS,
    ELEMENTS_MAX,
    I32,
    I64,
    ID_PART_MAX,
    INT,
    LAYOUTS,
    LOCAL_TRANSACTION,
    LONG,
    MESSAGE_ID,
    NESTED,
    NESTED_TYPES,
    PRODUCER_ID,
    SESSION_ID,
    STRING,
    TEXT_VIEW_SINCE,
    THROWABLE,
    VERSION,
    XA_TRANSACTION,
    Field,
)
from protocols.openwire.wire.modified_utf8 import STRING_BYTES_MAX, decode_text, encode_text


def decode(body: bytes, version: int = VERSION) -> Structure:
    """Return the command of a frame.  body: the frame without its size.  Raises: FrameError."""
    reader = Reader(body, version)
    found = reader.structure(reader.octet())
    if reader.position != len(body):
        raise FrameError(f"{len(body) - reader.position} octets follow a command of type {body[0]}")
    assert isinstance(found, Structure), "identities are refused at the top"
    return found


class Reader:
    """Reads fields one after the other, within bounds.  Every method raises FrameError."""

    __slots__ = ("octets", "position", "version", "depth", "elements")

    def __init__(self, octets: bytes, version: int) -> None:
        self.octets = octets
        self.position = 0
        self.version = version
        self.depth = 0
        self.elements = 0

    def structure(self, code: int) -> object:
        """Return a structure whose type octet has been read; at the top only a command."""
        layout = LAYOUTS.get(code)
        if layout is None:
            if not self.depth:
                raise FrameError(f"there is no command of type {code}")
            return self._identity(code)
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise FrameError(f"more than {DEPTH_MAX} structures inside each other")
        values = [self.field(one) if one.since <= self.version else ABSENT[one.kind] for one in layout.fields]
        self.depth -= 1
        return layout.made(*values)

    def field(self, field: Field) -> Any:
        kind = field.kind
        if kind == BOOL:
            return self.octet() != 0
        if kind == INT:
            return self.int32()
        if kind == LONG:
            return self.int64()
        if kind == STRING:
            return self.text()
        if kind == NESTED:
            return self.nested(field.allowed)
        if kind == BYTES:
            return self.sized_octets()
        if kind == BYTE:
            octet = self.octet()
            return octet if octet < 128 else octet - 256
        if kind == ARRAY:
            return self._array(field.allowed)
        if kind == THROWABLE:
            return self._throwable()
        return self.take(8)

    def take(self, count: int) -> bytes:
        start = self.position
        end = start + count
        if count < 0 or end > len(self.octets):
            raise FrameError(f"{count} octets are announced where {len(self.octets) - start} are left")
        self.position = end
        return self.octets[start:end]

    def octet(self) -> int:
        position = self.position
        if position >= len(self.octets):
            raise FrameError("a frame ends within a command")
        self.position = position + 1
        return self.octets[position]

    def int32(self) -> int:
        number: int = I32.unpack(self.take(4))[0]
        return number

    def int64(self) -> int:
        number: int = I64.unpack(self.take(8))[0]
        return number

    def text(self) -> str | None:
        if not self.octet():
            return None
        size = int.from_bytes(self.take(2), "big")
        try:
            text = decode_text(self.take(size))
        except UnicodeDecodeError as error:
            raise FrameError(f"a string is not in modified UTF-8: {error.reason}") from None
        if 2 * size > STRING_BYTES_MAX and len(encode_text(text)) > STRING_BYTES_MAX:
            raise FrameError(f"a string has more than {STRING_BYTES_MAX} octets in modified UTF-8, which is the limit")
        return text

    def sized_octets(self) -> bytes | None:
        return self.take(self.int32()) if self.octet() else None

    def nested(self, allowed: frozenset[int]) -> object:
        if not self.octet():
            return None
        code = self.octet()
        if allowed and code not in allowed:
            raise FrameError(f"a structure of type {code} stands where {sorted(allowed)} are allowed")
        if code in LAYOUTS:
            return self.structure(code)
        return self._identity(code)

    def _array(self, allowed: frozenset[int]) -> list[object] | None:
        if not self.octet():
            return None
        count = int.from_bytes(self.take(2), "big", signed=True)
        if not 0 <= count <= len(self.octets) - self.position:
            raise FrameError(f"an array announces {count} elements in {len(self.octets) - self.position} octets")
        self.elements += count
        if self.elements > ELEMENTS_MAX:
            raise FrameError(f"{self.elements} elements of arrays in one command, the limit is {ELEMENTS_MAX}")
        return [self.nested(allowed) for _ in range(count)]

    def _throwable(self) -> Throwable | None:
        return Throwable(self.text() or "", self.text() or "") if self.octet() else None

    def _identity(self, code: int) -> object:
        if code in DESTINATIONS:
            return Destination(code, self._required())
        if code == PRODUCER_ID:
            return ProducerId(self._required(), self.int64(), self.int64())
        if code == CONSUMER_ID:
            return ConsumerId(self._required(), self.int64(), self.int64())
        if code == MESSAGE_ID:
            text_view = self.text() if self.version >= TEXT_VIEW_SINCE else None
            producer = self.nested(NESTED_TYPES["ProducerId"])
            if not isinstance(producer, ProducerId):
                raise FrameError("a message id has no producer")
            return MessageId(text_view, producer, self.int64(), self.int64())
        if code == LOCAL_TRANSACTION:
            number = self.int64()
            connection = self.nested(NESTED_TYPES["ConnectionId"])
            if not isinstance(connection, ConnectionId):
                raise FrameError("a local transaction has no connection")
            return LocalTransactionId(number, connection)
        if code == XA_TRANSACTION:
            return XaTransactionId(self.int32(), self._id_part(), self._id_part())
        if code == SESSION_ID:
            return SessionId(self._required(), self.int64())
        if code == CONNECTION_ID:
            return ConnectionId(self._required())
        if code == BROKER_ID:
            return BrokerId(self._required())
        raise FrameError(f"there is no structure of type {code}")

    def _required(self) -> str:
        text = self.text()
        if text is None:
            raise FrameError("an id or a destination has no name")
        return text

    def _id_part(self) -> bytes:
        part = self.sized_octets() or b""
        if len(part) > ID_PART_MAX:
            raise FrameError(f"a part of a transaction id has {len(part)} octets; the limit is {ID_PART_MAX}")
        return part
