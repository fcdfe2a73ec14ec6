"""Commands -> octets: loose encoding, uncached, without stack traces, of any version."""

from __future__ import annotations

from typing import Any

from protocols.openwire.wire.commands import Structure
from protocols.openwire.wire.identities import (
    EXCEPTION_MESSAGE_MAX,
    BrokerId,
    ConnectionId,
    ConsumerId,
    Destination,
    LocalTransactionId,
    MessageId,
    ProducerId,
    SessionId,
    XaTransactionId,
)
from protocols.openwire.wire.layouts import (
    ARRAY,
    BOOL,
    BROKER_ID,
    BYTE,
    BYTES,
    CONNECTION_ID,
    CONSUMER_ID,
    I32,
    I64,
    INT,
    LAYOUTS,
    LOCAL_TRANSACTION,
    LONG,
    MAGIC_OCTETS,
    MESSAGE_ID,
    PRODUCER_ID,
    SESSION_ID,
    STRING,
    TEXT_VIEW_SINCE,
    THROWABLE,
    VERSION,
    XA_TRANSACTION,
)
from protocols.openwire.wire.modified_utf8 import STRING_BYTES_MAX, encode_text


def encode(command: Structure, version: int = VERSION) -> bytes:
    """Return a whole frame with its size."""
    body = encode_structure(command, version)
    return len(body).to_bytes(4, "big") + body


def encode_structure(found: object, version: int = VERSION) -> bytes:
    """Return a command or an identity, beginning with its type octet."""
    out: list[bytes] = []
    _write(out, found, version)
    return b"".join(out)


def encode_nested(found: object | None, version: int = VERSION) -> bytes:
    """Return the same as a field: present or not, then its octets."""
    return b"\0" if found is None else b"\1" + encode_structure(found, version)


def encode_string(text: str | None) -> bytes:
    """Return a string as a field.  Raises: ValueError if it is too long for one."""
    if text is None:
        return b"\0"
    octets = encode_text(text)
    if len(octets) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(octets)} octets; the limit of the wire is {STRING_BYTES_MAX}")
    return b"\1" + len(octets).to_bytes(2, "big") + octets


def _write(out: list[bytes], found: object, version: int) -> None:
    if not isinstance(found, Structure):
        _write_identity(out, found, version)
        return
    code = found.CODE
    out.append(bytes((code,)))
    for field in LAYOUTS[code].fields:
        if field.since <= version:
            _write_field(out, field.kind, getattr(found, field.name), version)


def _write_field(out: list[bytes], kind: int, value: Any, version: int) -> None:
    if kind == BOOL:
        out.append(b"\1" if value else b"\0")
    elif kind == INT:
        out.append(I32.pack(value))
    elif kind == LONG:
        out.append(I64.pack(value))
    elif kind == STRING:
        out.append(encode_string(value))
    elif kind == BYTE:
        out.append(bytes((value & 0xFF,)))
    elif kind == MAGIC_OCTETS:
        out.append(value)
    elif value is None:
        out.append(b"\0")
    elif kind == BYTES:
        out.append(b"\1" + len(value).to_bytes(4, "big"))
        out.append(value)
    elif kind == THROWABLE:
        out.append(b"\1" + encode_string(value.class_name) + encode_string(_shortened(value.message)))
    elif kind == ARRAY:
        out.append(b"\1" + len(value).to_bytes(2, "big"))
        for one in value:
            _write_nested(out, one, version)
    else:
        _write_nested(out, value, version)


def _write_nested(out: list[bytes], found: object | None, version: int) -> None:
    if found is None:
        out.append(b"\0")
    else:
        out.append(b"\1")
        _write(out, found, version)


def _write_identity(out: list[bytes], found: object, version: int) -> None:
    if isinstance(found, Destination):
        out.append(bytes((found.kind,)) + encode_string(found.name))
    elif isinstance(found, ProducerId):
        numbers = I64.pack(found.value) + I64.pack(found.session_id)
        out.append(bytes((PRODUCER_ID,)) + encode_string(found.connection_id) + numbers)
    elif isinstance(found, ConsumerId):
        numbers = I64.pack(found.session_id) + I64.pack(found.value)
        out.append(bytes((CONSUMER_ID,)) + encode_string(found.connection_id) + numbers)
    elif isinstance(found, MessageId):
        out.append(bytes((MESSAGE_ID,)))
        if version >= TEXT_VIEW_SINCE:
            out.append(encode_string(found.text_view))
        _write_nested(out, found.producer_id, version)
        out.append(I64.pack(found.sequence) + I64.pack(found.broker_sequence))
    elif isinstance(found, LocalTransactionId):
        out.append(bytes((LOCAL_TRANSACTION,)) + I64.pack(found.value))
        _write_nested(out, found.connection_id, version)
    elif isinstance(found, XaTransactionId):
        out.append(bytes((XA_TRANSACTION,)) + I32.pack(found.format_id))
        for part in (found.global_id, found.branch):
            out.append(b"\1" + len(part).to_bytes(4, "big") + part)
    elif isinstance(found, SessionId):
        out.append(bytes((SESSION_ID,)) + encode_string(found.connection_id) + I64.pack(found.value))
    elif isinstance(found, ConnectionId):
        out.append(bytes((CONNECTION_ID,)) + encode_string(found.value))
    else:
        assert isinstance(found, BrokerId), f"{type(found).__name__} is no structure of the wire"
        out.append(bytes((BROKER_ID,)) + encode_string(found.value))


def _shortened(message: str) -> str:
    """Java cuts messages of exceptions in the same way."""
    return message if len(message) <= EXCEPTION_MESSAGE_MAX else message[: EXCEPTION_MESSAGE_MAX - 3] + "..."
