"""AMQP 1.0 <-> STOMP, by way of JMS.  The table is in docs/amqp.md; this is its only implementation.

What STOMP has no words for becomes headers that come back as what they were: types of application properties in
``amqp-property-types`` (name=type, comma-separated), other message annotations in ``JMS_AMQP_MA_<name>``, a body that
is neither text nor octets as JSON with ``amqp-body`` naming the section.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable
from typing import Final

from engine.annotations import annotation
from engine.destination import is_topic
from engine.message import AMQP_1_0, PLAIN, STOMP, TEXT, Message
from protocols.amqp.v1_0.mapping.contents import Contents, read_contents
from protocols.amqp.v1_0.mapping.delayed_delivery import DELIVERY_TIME
from protocols.amqp.v1_0.mapping.jms_ids import id_text, id_value
from protocols.amqp.v1_0.mapping.map_body import amqp_map, typed_map
from protocols.amqp.v1_0.wire import sections as at
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.types import described_list, encode, is_within_limits
from protocols.amqp.v1_0.wire.values import (
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Value,
)
from protocols.broker_headers import (
    BROKER_HEADERS,
    JMS_DESTINATION,
    JMS_REPLY_TO,
    JMS_TYPE,
    TRANSFORMATION_ERROR,
    USER,
    is_broker_annotation,
)
from protocols.converter import Converter
from protocols.map_message import FORMS, Map, MapError, read_map

MESSAGE: Final = 0
OBJECT_MESSAGE: Final = 1
MAP_MESSAGE: Final = 2
BYTES_MESSAGE: Final = 3
STREAM_MESSAGE: Final = 4
TEXT_MESSAGE: Final = 5

TYPES_HEADER: Final = "amqp-property-types"
BODY_HEADER: Final = "amqp-body"
ANNOTATION_HEADER: Final = "JMS_AMQP_MA_"
GROUP_HEADER: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"
MESSAGE_ID_HEADER: Final = "amqp-message-id"
OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"
RAW: Final = "application/vnd.amqp-1.0"  # a body that JSON cannot hold, as its sections stand on the wire

_TEXTUAL: Final = re.compile(r"text/|application/(json|xml|javascript|ecmascript)|.*\+(json|xml)")
# x-opt-jms-reply-to -> how STOMP clients write such a destination (of another connection, where it is temporary).
_PREFIXES: Final = {0: "/queue/", 1: "/topic/", 2: "/remote-temp-queue/", 3: "/remote-temp-topic/"}
_BODY_NAMES: Final = {at.VALUE: "value", at.SEQUENCE: "sequence", at.DATA: "data"}

# Headers of STOMP that say something of the message itself, or of its delivery; all others are application properties.
_MEANT: Final = BROKER_HEADERS | {
    "correlation-id",
    "reply-to",
    "type",
    "timestamp",
    "content-type",
    "content-encoding",
    "amq-msg-type",
    "JMSXGroupID",
    "JMSXGroupSeq",
    "receipt",
    "transaction",
    TYPES_HEADER,
    BODY_HEADER,
    GROUP_HEADER,
    MESSAGE_ID_HEADER,
}

_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "boolean",
    UByte: "ubyte",
    UShort: "ushort",
    UInt: "uint",
    ULong: "ulong",
    Byte: "byte",
    Short: "short",
    Int: "int",
    int: "long",
    Float: "float",
    float: "double",
    Timestamp: "timestamp",
    Char: "char",
    Symbol: "symbol",
    bytes: "binary",
    uuid.UUID: "uuid",
}


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


_FROM_TEXT: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": _boolean,
    "ubyte": UByte,
    "ushort": UShort,
    "uint": UInt,
    "ulong": ULong,
    "byte": Byte,
    "short": Short,
    "int": Int,
    "long": int,
    "float": Float,
    "double": float,
    "timestamp": Timestamp,
    "char": Char,
    "symbol": Symbol,
    "binary": base64.b64decode,
    "uuid": uuid.UUID,
}

_ESCAPED: Final = re.compile(r"\\([nrc\\])")
_UNESCAPED: Final = {"n": "\n", "r": "\r", "c": ":", "\\": "\\"}


class StompForm(Converter):
    def map_of(self, message: Message) -> Map | None:
        assert message.encoding == AMQP_1_0, f"encoding {message.encoding} is not AMQP 1.0"
        try:
            contents = read_contents(message)
        except DecodeError:
            return None
        kind = contents.annotation(JMS_TYPE)
        if kind == OBJECT_MESSAGE:
            raise MapError("an ObjectMessage needs Java; allowed are MapMessages")
        value = contents.sections[0] if contents.body_kind == at.VALUE else None
        if not isinstance(value, dict) or kind not in (None, MAP_MESSAGE):
            return None
        return typed_map(value)

    def stomp_form(self, message: Message) -> Message:
        assert message.encoding == AMQP_1_0, f"encoding {message.encoding} is not AMQP 1.0"
        try:
            contents = read_contents(message)
        except DecodeError:
            # Its routing was read, so it is only inside that it is broken: who gets it sees it as it came.
            return self.raw_form(message)
        headers, body, flags = _to_stomp(contents, message)
        return _copy(message, headers, body, flags)

    def raw_form(self, message: Message) -> Message:
        return _copy(message, annotation("content-type", RAW), message.headers + message.body, 0)


def _copy(message: Message, headers: bytes, body: bytes, text_flag: int) -> Message:
    copy = Message(
        message.destination_id,
        STOMP,
        (message.flags & ~(PLAIN | TEXT)) | text_flag | (0 if b"\\" in headers or message.annotations else PLAIN),
        message.priority,
        message.tag_hash,
        message.group_hash,
        message.expires_ms,
        message.annotations,
        headers,
        body,
    )
    copy.store_time_ms = message.store_time_ms
    copy.log_offset = message.log_offset
    copy.queue_offset = message.queue_offset
    copy.serial = message.serial
    return copy


# -- AMQP to STOMP


def _to_stomp(contents: Contents, message: Message) -> tuple[bytes, bytes, int]:
    headers: dict[str, str] = {}
    field = contents.field
    message_id = id_text(field(at.MESSAGE_ID))
    if message_id is not None:
        headers[MESSAGE_ID_HEADER] = message_id
    correlation_id = id_text(field(at.CORRELATION_ID))
    if correlation_id is not None:
        headers["correlation-id"] = correlation_id
    reply_to = field(at.REPLY_TO)
    if isinstance(reply_to, str):
        headers["reply-to"] = _named(reply_to, contents.annotation(JMS_REPLY_TO))
    for name, place in (
        ("type", at.SUBJECT),
        ("content-type", at.CONTENT_TYPE),
        ("content-encoding", at.CONTENT_ENCODING),
        ("JMSXGroupID", at.GROUP_ID),
        (GROUP_HEADER, at.REPLY_TO_GROUP_ID),
    ):
        value = field(place)
        if isinstance(value, str):
            headers[name] = str(value)
    for name, place in (("timestamp", at.CREATION_TIME), ("JMSXGroupSeq", at.GROUP_SEQUENCE)):
        value = field(place)
        if isinstance(value, int):
            headers[name] = str(int(value))
    user_id = field(at.USER_ID)
    if isinstance(user_id, bytes):
        headers[USER] = user_id.decode("utf-8", "replace")
    types: list[str] = []
    for key, value in contents.application_properties.items():
        name = str(key)
        if not name or name in _MEANT or value is None:
            continue
        headers[name] = _property_text(value)
        kind = _TYPE_NAMES.get(type(value))
        if kind is not None:
            types.append(f"{name}={kind}")
    if types:
        headers[TYPES_HEADER] = ",".join(types)
    for key, value in contents.annotations.items():
        if value is not None and not is_broker_annotation(key):
            headers[f"{ANNOTATION_HEADER}{key}"] = _property_text(value)
    body, text_flag = _stomp_body(contents, message, headers)
    lines = b"".join(annotation(name, value) for name, value in headers.items() if "\0" not in name + value)
    return lines, body, text_flag


def _stomp_body(contents: Contents, message: Message, headers: dict[str, str]) -> tuple[bytes, int]:
    """Return the body and whether it is text; says in ``headers`` what it was, where that is no text and no octets."""
    sections = contents.sections
    kind = contents.body_kind
    if kind == 0:
        return b"", TEXT if contents.annotation(JMS_TYPE) == TEXT_MESSAGE else 0
    if (kind == at.DATA and not all(isinstance(one, bytes) for one in sections)) or (
        kind == at.SEQUENCE and not all(isinstance(one, list) for one in sections)
    ):
        headers["content-type"] = RAW  # a body that is none (3.2.6, 3.2.7): its receiver sees it as it came
        return message.body, 0
    if kind == at.DATA:
        body = b"".join(sections)
        content_type = headers.get("content-type", "")
        # A STOMP text must be UTF-8, whatever the sender says it is.
        is_text = bool(_TEXTUAL.match(content_type)) and _is_utf_8(body)
        return body, TEXT if is_text else 0
    value = sections[0] if kind == at.VALUE else [item for one in sections for item in one]
    if kind == at.VALUE:
        if value is None:
            headers[BODY_HEADER] = "null"
            return b"", TEXT
        if type(value) is str:
            return value.encode(), TEXT
        if type(value) is bytes:
            headers[BODY_HEADER] = "binary"
            return value, 0
    try:
        body = json.dumps(value, default=_refuse, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        headers["content-type"] = RAW
        return message.body, 0
    headers[BODY_HEADER] = _BODY_NAMES[kind]
    headers.setdefault("content-type", JSON)
    return body, TEXT


def _refuse(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} is nothing that JSON holds")


def _is_utf_8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _property_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode() if not isinstance(value, Decimal) else value.hex()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    return str(value)


def _named(address: str, kind: Value) -> str:
    """Return an address as STOMP clients write it."""
    for prefix, name in (("queue://", "/queue/"), ("topic://", "/topic/")):
        if address.startswith(prefix):
            return name + address.removeprefix(prefix)
    known = _PREFIXES.get(kind) if isinstance(kind, int) else None
    return address if known is None or address.startswith("/") else known + address


# -- STOMP to AMQP


def amqp_sections(message: Message, kind: int, name: str, message_id: str) -> tuple[bytes, bytes]:
    """Return headers and body of a STOMP message as AMQP's, without a header section.

    kind, name: of its destination.  message_id: what the broker calls it.
    """
    headers = read_lines(message.headers)
    is_text = bool(message.flags & TEXT)
    annotations: dict[Value, Value] = {Symbol(JMS_DESTINATION): Byte(1 if is_topic(kind) else 0)}
    properties: list[Value] = [None] * 13
    own_id = headers.get(MESSAGE_ID_HEADER)
    properties[at.MESSAGE_ID] = message_id if own_id is None else id_value(own_id)
    properties[at.TO] = name
    if "correlation-id" in headers:
        properties[at.CORRELATION_ID] = id_value(headers["correlation-id"])
    if "reply-to" in headers:
        address, reply_kind = _address(headers["reply-to"])
        properties[at.REPLY_TO] = address
        if reply_kind is not None:
            annotations[Symbol(JMS_REPLY_TO)] = Byte(reply_kind)
    properties[at.SUBJECT] = headers.get("type")
    properties[at.GROUP_ID] = headers.get("JMSXGroupID")
    properties[at.REPLY_TO_GROUP_ID] = headers.get(GROUP_HEADER)
    if USER in headers:
        properties[at.USER_ID] = headers[USER].encode()
    sequence = _whole(headers.get("JMSXGroupSeq"), 2**32)
    properties[at.GROUP_SEQUENCE] = None if sequence is None else UInt(sequence)
    timestamp = _whole(headers.get("timestamp"), 2**63)
    properties[at.CREATION_TIME] = Timestamp(message.store_time_ms if timestamp is None else timestamp)
    if message.expires_ms:
        properties[at.ABSOLUTE_EXPIRY_TIME] = Timestamp(message.expires_ms)
    encoding = headers.get("content-encoding")
    if encoding is not None and encoding.isascii():
        properties[at.CONTENT_ENCODING] = Symbol(encoding)
    body, jms_type, content_type = _amqp_body(message, headers, is_text)
    annotations[Symbol(JMS_TYPE)] = Byte(jms_type)
    if content_type is not None and content_type.isascii():
        properties[at.CONTENT_TYPE] = Symbol(content_type)
    application: dict[Value, Value] = {}
    types = dict(pair.rpartition("=")[::2] for pair in headers.get(TYPES_HEADER, "").split(",") if "=" in pair)
    for header, text in headers.items():
        if header in _MEANT and header != TRANSFORMATION_ERROR:  # the gateway's own is for AMQP's clients, too
            continue
        if header.startswith(ANNOTATION_HEADER) and header.isascii():
            _annotate(annotations, header.removeprefix(ANNOTATION_HEADER), text)
        else:
            application[header] = _typed(text, types.get(header))
    octets = b"\x00\x53\x72" + encode(annotations)
    while properties and properties[-1] is None:
        properties.pop()
    octets += described_list(at.PROPERTIES, len(properties), b"".join([encode(value) for value in properties]))
    if application:
        octets += b"\x00\x53\x74" + encode(application)
    return octets, body


def _annotate(annotations: dict[Value, Value], name: str, text: str) -> None:
    """Add what a sender calls an annotation, unless it is the gateway's own or not what JMS clients cast it to."""
    if is_broker_annotation(name):
        return
    if name != DELIVERY_TIME:
        annotations[Symbol(name)] = text
        return
    time_ms = _whole(text, 2**63)
    if time_ms is not None:
        annotations[Symbol(name)] = time_ms


def raw_sections(message: Message, message_id: str) -> tuple[bytes, bytes]:
    """Return the least that AMQP needs of a STOMP message: for one that ``amqp_sections`` fails with."""
    properties = described_list(at.PROPERTIES, 1, encode(message_id))
    return properties, encode(Described(ULong(at.DATA), message.body))


def _amqp_body(message: Message, headers: dict[str, str], is_text: bool) -> tuple[bytes, int, str | None]:
    """Return body section, x-opt-jms-msg-type and content-type."""
    content_type = headers.get("content-type")
    was = headers.get(BODY_HEADER, "")
    if content_type == RAW and message.body[:2] == b"\x00\x53":
        return message.body, MESSAGE, None
    form = headers.get("transformation", "")
    if is_text and form in FORMS and TRANSFORMATION_ERROR not in headers:
        try:
            found = amqp_map(read_map(message.body, form))
        except MapError as error:
            headers[TRANSFORMATION_ERROR] = str(error)
        else:
            return encode(Described(ULong(at.VALUE), found)), MAP_MESSAGE, None
    if was == "null" and not message.body:
        return encode(Described(ULong(at.VALUE), None)), TEXT_MESSAGE, content_type
    if was in ("value", "sequence"):
        read = _from_json(message.body, was)
        if read is not None:
            section, jms_type = read
            return section, jms_type, None if content_type == JSON else content_type
    if is_text:
        try:
            text = message.body.decode()
        except UnicodeDecodeError:
            is_text = False
        else:
            return encode(Described(ULong(at.VALUE), text)), TEXT_MESSAGE, content_type
    if was == "binary":
        return encode(Described(ULong(at.VALUE), message.body)), BYTES_MESSAGE, content_type
    return encode(Described(ULong(at.DATA), message.body)), BYTES_MESSAGE, content_type or OCTETS


def _from_json(body: bytes, was: str) -> tuple[bytes, int] | None:
    """Return the section that a JSON text stands for, and x-opt-jms-msg-type; None for a text that AMQP cannot hold."""
    try:
        value = json.loads(body)
        if value is None or (was == "sequence" and not isinstance(value, list)) or not is_within_limits(value):
            return None
        section = encode(Described(ULong(at.VALUE if was == "value" else at.SEQUENCE), value))
    except (ValueError, RecursionError):  # no JSON, too deep for its reader, or a number of more than 64 bits
        return None
    if was == "sequence":
        return section, STREAM_MESSAGE
    return section, MAP_MESSAGE if isinstance(value, dict) else OBJECT_MESSAGE


def _typed(text: str, kind: str | None) -> Value:
    """Return a property as the type it had; a text that no longer is one stays a text."""
    convert = None if kind is None else _FROM_TEXT.get(kind)
    if convert is None:
        return text
    try:
        value = convert(text)
        encode(value)
    except ValueError:
        return text
    return value


def _address(text: str) -> tuple[str, int | None]:
    """Return an address without its prefix, and what x-opt-jms-reply-to says of it."""
    for prefix, kind in (("queue://", 0), ("topic://", 1), *((prefix, kind) for kind, prefix in _PREFIXES.items())):
        if text.startswith(prefix):
            return text.removeprefix(prefix), kind
    return text, None


def _whole(text: str | None, limit: int) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if number < limit else None


def read_lines(block: bytes) -> dict[str, str]:
    """Return header lines by name; the first of a name counts (STOMP 1.2)."""
    headers: dict[str, str] = {}
    for line in block.decode().split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(unescape(name), unescape(value))
    return headers


def unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _UNESCAPED[match[1]], text) if "\\" in text else text
