"""The content of an OpenWire message as header lines and a body (protocols.message_lines); openwire_form goes back.

    class     body                                           class     body
    text      its text                                       stream    JSON, a list
    bytes     its octets                                     object    the octets of Java's serialization
    map       ActiveMQ's JSON of a map                       others    nothing

Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from engine.values.message import TEXT, annotation
from protocols import map_message as words
from protocols.broker_headers import BESIDE_NAMES
from protocols.errors import FrameError
from protocols.map_message import JSON as JSON_MAP
from protocols.map_message import MapError, Typed, write_map
from protocols.message_lines import (
    BODY_HEADER,
    JAVA_OBJECT,
    JSON,
    MEANT,
    MESSAGE_ID_HEADER,
    TYPES_HEADER,
)
from protocols.openwire.mapping.contents import content_of, inflated_most, inflating_steps, text_of
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire import identities, messages
from protocols.openwire.wire.identities import Destination
from protocols.openwire.wire.messages import WireMessage
from protocols.openwire.wire.property_map import Tally, read_map, read_stream

RAW: Final = "application/vnd.openwire"  # content-type of a body that comes as it was on the wire
OCTETS_A_STEP: Final = 8_192  # of a body
Content = tuple[bytes, bytes, int]  # header lines, body, TEXT or 0
_PREFIXES: Final = {
    identities.QUEUE: "/queue/",
    identities.TOPIC: "/topic/",
    identities.TEMP_QUEUE: "/remote-temp-queue/",
    identities.TEMP_TOPIC: "/remote-temp-topic/",
}
# Kinds of properties whose text has its type in ``amqp-property-types``.
_NAMED: Final = {
    words.BOOLEAN: "boolean",
    words.BYTE: "byte",
    words.SHORT: "short",
    words.INT: "int",
    words.LONG: "long",
    words.FLOAT: "float",
    words.DOUBLE: "double",
    words.CHAR: "char",
    words.BYTES: "binary",
}


def stomp_content(headers: bytes, body: bytes) -> Content:
    """Return a message's header lines, its body and the flag TEXT or 0.

    headers, body: as ``Message`` keeps them.  A malformed content comes as it was on the wire.
    """
    return counted_content(headers, body)[0]


def counted_content(headers: bytes, body: bytes) -> tuple[Content, int]:
    """Do the same; return also how many steps of a turn inflating took, or all that was read of a malformed content."""
    message = read_stored(headers, body)
    found: dict[str, str] = {}
    _add_fields(found, message)
    steps = 0
    tally = Tally()
    try:
        _add_properties(found, message, tally)
        octets, text_flag = _body(found, message, tally)
        if message.compressed:
            steps = inflating_steps(message.content or b"", len(octets))
    except (FrameError, MapError):
        found["content-type"] = RAW
        octets, text_flag = body, 0
        steps = tally.values + _octet_steps(message)
    lines = [annotation(name, value) for name, value in found.items()]
    return (b"".join(lines), octets, text_flag), steps


def _octet_steps(message: WireMessage) -> int:
    """Return the most that the octets of a content take, which may have been inflated."""
    content = message.content or b""
    if not message.compressed:
        return len(content) // OCTETS_A_STEP
    size = inflated_most(content)
    return inflating_steps(content, size) + size // OCTETS_A_STEP


def raw_content(headers: bytes, body: bytes) -> Content:
    """Return the content as it was on the wire."""
    return annotation("content-type", RAW), body, 0


def stomp_address(destination: Destination) -> str:
    """Return a destination as headers of STOMP write it."""
    return _PREFIXES[destination.kind] + destination.name


def _add_fields(found: dict[str, str], message: WireMessage) -> None:
    if message.message_id is not None:
        found[MESSAGE_ID_HEADER] = str(message.message_id)
    if message.correlation_id is not None:
        found["correlation-id"] = message.correlation_id
    if message.reply_to is not None:
        found["reply-to"] = stomp_address(message.reply_to)
    if message.type is not None:
        found["type"] = message.type
    if message.timestamp:
        found["timestamp"] = str(message.timestamp)
    if message.group_id is not None:
        found["JMSXGroupID"] = message.group_id
        found["JMSXGroupSeq"] = str(message.group_sequence)


def _add_properties(found: dict[str, str], message: WireMessage, tally: Tally) -> None:
    types: list[str] = []
    for name, typed in read_map(message.marshalled_properties or b"\0\0\0\0", tally).items():
        if not name or name.strip(BESIDE_NAMES) in MEANT or typed.kind in (words.NULL, words.MAP, words.LIST):
            continue
        found[name] = property_text(typed)
        kind = _NAMED.get(typed.kind)
        if kind is not None:
            types.append(f"{name}={kind}")
    if types:
        found[TYPES_HEADER] = ",".join(types)


def property_text(typed: Typed) -> str:
    value = typed.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return repr(value) if isinstance(value, float) else str(value)


def _body(found: dict[str, str], message: WireMessage, tally: Tally) -> tuple[bytes, int]:
    """Return the body and whether it is text; headers say what else it was.  Raises: FrameError, MapError."""
    content = content_of(message)
    match message.CODE:
        case messages.TEXT:
            text = text_of(content)
            if text is None:
                found[BODY_HEADER] = "null"
            return (text or "").encode("utf-8", "replace"), TEXT
        case messages.BYTES_MESSAGE:
            return content or b"", 0
        case messages.MAP:
            found["transformation"] = JSON_MAP
            return write_map(read_map(content or b"\0\0\0\0", tally), JSON_MAP), TEXT
        case messages.STREAM:
            values = [_json_value(one) for one in read_stream(content or b"", tally)]
            found[BODY_HEADER] = "sequence"
            found["content-type"] = JSON
            return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"), TEXT
        case messages.OBJECT:
            found["content-type"] = JAVA_OBJECT
            return content or b"", 0
    return b"", 0


def _json_value(typed: Typed) -> object:
    """Raises: MapError for octets and what else JSON cannot express."""
    value = typed.value
    if isinstance(value, bytes) or (isinstance(value, float) and value - value != 0):
        raise MapError(f"a {typed.kind} in a stream cannot be in JSON")
    if isinstance(value, list):
        return [_json_value(one) for one in value]
    if isinstance(value, dict):
        return {name: _json_value(one) for name, one in value.items()}
    return value
