"""A message as the log keeps it: its command in version 12, with the content apart, so that it is copied once.

    octets  headers of the Message
    4       place of brokerSequenceId in the command
    4       place of the destination
    4       its end
    4       octets of the command before its content
    1       1 if there is a content
    then    the command from its type octet on, without the content

    body of the Message: the content

A dispatch copies all of it and changes the eight octets of brokerSequenceId, and the destination if the message was
moved.  Selectors and readers of the log decode the rest.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from engine.values.errors import StoreCorrupt
from protocols.errors import FrameError
from protocols.openwire.wire.identities import TEMP_QUEUE, TEMP_TOPIC, Destination
from protocols.openwire.wire.layouts import LAYOUTS, VERSION
from protocols.openwire.wire.messages import MESSAGE_CLASSES, WireMessage
from protocols.openwire.wire.reader import Reader, decode
from protocols.openwire.wire.writer import encode_structure

HEAD: Final = struct.Struct(">IIIIB")
SEQUENCE_BYTES: Final = 8
SAME_FORM_SINCE: Final = 10  # versions that write messages alike

# What only a broker knows.  Nobody has checked the user; a structure may name a class that a receiver's client loads.
OF_BROKERS: Final = (
    "user_id",
    "data_structure",
    "target_consumer_id",
    "original_transaction_id",
    "broker_path",
    "cluster",
)
_NAMES: Final = [field.name for field in LAYOUTS[WireMessage.CODE].fields]
# A field that is there and names a temporary queue or topic.
_TEMPORARY: Final = [(kind, bytes((1, kind, 1))) for kind in (TEMP_QUEUE, TEMP_TOPIC)]
_MESSAGE_ID: Final = _NAMES.index("message_id")
_DESTINATION: Final = _NAMES.index("destination")
_CONTENT: Final = _NAMES.index("content")


class Stored:
    """message: decoded.  headers, body: of the engine's Message."""

    __slots__ = ("message", "headers", "body")

    def __init__(self, message: WireMessage, headers: bytes, body: bytes) -> None:
        self.message = message
        self.headers = headers
        self.body = body


def stored(command: bytes, version: int, is_ours: bool = False) -> Stored:
    """Return the form of a command in ``version``.  is_ours: no client has sent it.  Raises: FrameError."""
    if version < SAME_FORM_SINCE:
        command = encode_structure(decode(command, version), VERSION)
    reader = Reader(command, VERSION)
    fields = LAYOUTS[reader.octet()].fields
    values: list[Any] = []
    ends: list[int] = []
    for field in fields:
        values.append(reader.field(field))
        ends.append(reader.position)
    if reader.position != len(command):
        raise FrameError(f"{len(command) - reader.position} octets follow a message")
    message = MESSAGE_CLASSES[command[0]](*values)
    if not is_ours and any(getattr(message, name) is not None for name in OF_BROKERS):
        for name in OF_BROKERS:
            setattr(message, name, None)
        return stored(encode_structure(message), VERSION)
    if message.message_id is None or message.destination is None:
        raise FrameError("a message has no messageId or no destination")
    split = ends[_CONTENT - 1]
    content = message.content
    head = HEAD.pack(
        ends[_MESSAGE_ID] - SEQUENCE_BYTES,
        ends[_DESTINATION - 1],
        ends[_DESTINATION],
        split,
        content is not None,
    )
    return Stored(message, head + command[:split] + command[ends[_CONTENT] :], content or b"")


def read_stored(headers: bytes, body: bytes | None = None) -> WireMessage:
    """Return the message of ``stored``.  body: None to leave the content out.  Raises: FrameError, StoreCorrupt."""
    if len(headers) <= HEAD.size:
        raise StoreCorrupt("the headers of an OpenWire message are too short")
    _, _, _, split, has_content = HEAD.unpack_from(headers)
    middle = HEAD.size + split
    content = b"\0" if body is None or not has_content else b"\1" + len(body).to_bytes(4, "big") + body
    found = decode(headers[HEAD.size : middle] + content + headers[middle:])
    if not isinstance(found, WireMessage):
        raise StoreCorrupt("an OpenWire message is another command")
    return found


def temporary_reply_to(headers: bytes) -> Destination | None:
    """Return the reply-to of a message if it is a temporary destination.

    The octets that announce one may also be in a text before it: then this is a destination that nobody has made.
    """
    sequence_at, _, _, split, _ = HEAD.unpack_from(headers)
    start, end = HEAD.size + sequence_at + SEQUENCE_BYTES, HEAD.size + split
    for kind, beginning in _TEMPORARY:
        at = headers.find(beginning, start, end) + len(beginning)
        if at >= len(beginning):
            size = int.from_bytes(headers[at : at + 2], "big")
            return Destination(kind, headers[at + 2 : at + 2 + size].decode("utf-8", "replace"))
    return None


def message_parts(headers: bytes, body: bytes, sequence: int, destination: bytes) -> tuple[bytes, bytes]:
    """Return the octets of a dispatched message before and after its content, which follows the first ones as it is.

    destination: the field as it must be.
    """
    sequence_at, destination_at, destination_end, split, has_content = HEAD.unpack_from(headers)
    start = HEAD.size
    middle = start + split
    after = start + sequence_at
    number = sequence.to_bytes(SEQUENCE_BYTES, "big")
    if headers[start + destination_at : start + destination_end] == destination:
        before = headers[start:after]
    else:
        before = headers[start : start + destination_at] + destination + headers[start + destination_end : after]
    content = b"\1" + len(body).to_bytes(4, "big") if has_content else b"\0"
    return before + number + headers[after + SEQUENCE_BYTES : middle] + content, headers[middle:]
