"""STOMP -> AMQP 1.0, by way of JMS.  The table is in docs/reference/amqp.md."""

from __future__ import annotations

import codecs
import json
from typing import Final

from engine.values.destination import is_topic
from engine.values.message import TEXT, Message
from protocols.amqp.v1_0.mapping.delayed_delivery import DELIVERY_TIME
from protocols.amqp.v1_0.mapping.jms_ids import id_value
from protocols.amqp.v1_0.mapping.jms_types import (
    BYTES_MESSAGE,
    MAP_MESSAGE,
    MESSAGE,
    OBJECT_MESSAGE,
    STREAM_MESSAGE,
    TEXT_MESSAGE,
    group_sequence_for,
)
from protocols.amqp.v1_0.mapping.map_body import amqp_map, stream_value
from protocols.amqp.v1_0.mapping.property_types import typed_property
from protocols.amqp.v1_0.mapping.stomp_headers import ANNOTATION_HEADER, RAW, amqp_address, is_annotation, is_property
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_decoder import ITEMS_MAX
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode, is_within_limits
from protocols.amqp.v1_0.wire.types.values import Byte, Described, Symbol, Timestamp, ULong, Value
from protocols.broker_headers import (
    JMS_DESTINATION,
    JMS_REPLY_TO,
    JMS_TYPE,
    TRANSFORMATION_ERROR,
    USER,
    is_broker_annotation,
)
from protocols.converter import items_in
from protocols.map_message import FORMS, MapError, read_map
from protocols.message_lines import (
    BODY_HEADER,
    GROUP_HEADER,
    JAVA_OBJECT,
    JSON,
    MESSAGE_ID_HEADER,
    OCTETS,
    TYPES_HEADER,
    named_types,
    read_lines,
)

CONTENT_ENCODING: Final = "content-encoding"
IDENTITY: Final = "identity"  # no content-encoding may be that (messaging 3.2.4)
JSON_SIGNS_MAX: Final = 4 * ITEMS_MAX  # commas and brackets, also within texts; a value within the limits has half
DATA_SECTION: Final = bytes((0, 0x53, at.DATA))
BINARY: Final = (0xA0, 0xB0)  # format codes
TEXT_FORM: Final = (0xA1, 0xB1)
DECODED_BYTES: Final = 65_536  # of a text at once
MAP_LINE: Final = b"transformation:"
MAP_ITEM_STEPS: Final = 4  # for a part of a map of JMS: a name, a value or a type
MESSAGE_STEPS: Final = 16  # of a turn, for a message apart from its headers and items; one and a half for each of these


def conversion_steps(message: Message) -> int:
    """Return how many steps of a turn ``amqp_sections`` takes for a STOMP message."""
    count = message.headers.count(b"\n")
    items = items_in(message)
    if MAP_LINE in message.headers:
        return MESSAGE_STEPS + count + count // 2 + MAP_ITEM_STEPS * items
    return MESSAGE_STEPS + (count + items) * 3 // 2


def amqp_sections(message: Message, kind: int, name: str, message_id: str) -> tuple[bytes, bytes]:
    """Return a STOMP message in AMQP's form, without a header section.  The second part is its body, not copied.

    kind, name: of its destination.  message_id: the broker's id of it.
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
        address, reply_kind = amqp_address(headers["reply-to"])
        properties[at.REPLY_TO] = address
        if reply_kind is not None:
            annotations[Symbol(JMS_REPLY_TO)] = Byte(reply_kind)
    properties[at.SUBJECT] = headers.get("type")
    properties[at.GROUP_ID] = headers.get("JMSXGroupID")
    properties[at.REPLY_TO_GROUP_ID] = headers.get(GROUP_HEADER)
    if USER in headers:
        properties[at.USER_ID] = headers[USER].encode()
    properties[at.GROUP_SEQUENCE] = group_sequence_for(headers.get("JMSXGroupSeq"))
    timestamp = _whole(headers.get("timestamp"), 2**63)
    properties[at.CREATION_TIME] = Timestamp(message.store_time_ms if timestamp is None else timestamp)
    if message.expires_ms:
        properties[at.ABSOLUTE_EXPIRY_TIME] = Timestamp(message.expires_ms)
    start, body, jms_type, content_type = _amqp_body(message, headers, is_text)
    encoding = headers.get(CONTENT_ENCODING)
    is_data = (start or body).startswith(DATA_SECTION)
    if encoding is not None and encoding.isascii() and is_data and encoding != IDENTITY:
        properties[at.CONTENT_ENCODING] = Symbol(encoding)
    annotations[Symbol(JMS_TYPE)] = Byte(jms_type)
    if content_type is not None and content_type.isascii():
        properties[at.CONTENT_TYPE] = Symbol(content_type)
    application: dict[Value, Value] = {}
    if encoding is not None and not is_data:  # of no other section may the property say it (messaging 3.2.4)
        application[CONTENT_ENCODING] = encoding
    types = named_types(headers.get(TYPES_HEADER, ""))
    for header, text in headers.items():
        if is_annotation(header):
            _annotate(annotations, header.removeprefix(ANNOTATION_HEADER), text)
        elif is_property(header) or header == TRANSFORMATION_ERROR:  # the gateway's own is for AMQP clients, too
            application[header] = typed_property(text, types.get(header))
    octets = b"\x00\x53\x72" + encode(annotations)
    while properties and properties[-1] is None:
        properties.pop()
    octets += described_list(at.PROPERTIES, len(properties), b"".join([encode(value) for value in properties]))
    if application:
        octets += b"\x00\x53\x74" + encode(application)
    return octets + start, body


def _annotate(annotations: dict[Value, Value], name: str, text: str) -> None:
    """Add a sender's annotation, unless the name is the gateway's own or JMS clients could not cast the value."""
    if is_broker_annotation(name):
        return
    if name != DELIVERY_TIME:
        annotations[Symbol(name)] = text
        return
    time_ms = _whole(text, 2**63)
    if time_ms is not None:
        annotations[Symbol(name)] = time_ms


def raw_sections(message: Message, message_id: str) -> tuple[bytes, bytes]:
    """Return the least that AMQP needs of a STOMP message: the fallback if ``amqp_sections`` fails."""
    properties = described_list(at.PROPERTIES, 1, encode(message_id))
    return properties + section_start(at.DATA, BINARY, len(message.body)), message.body


def section_start(code: int, form: tuple[int, int], size: int) -> bytes:
    """Return the octets of a section before its ``size`` octets.  form: format codes for a small and a large size."""
    small, large = form
    if size < 256:
        return bytes((0, 0x53, code, small, size))
    return bytes((0, 0x53, code, large)) + size.to_bytes(4, "big")


def _amqp_body(message: Message, headers: dict[str, str], is_text: bool) -> tuple[bytes, bytes, int, str | None]:
    """Return the body section, its start apart from its octets, x-opt-jms-msg-type and content-type."""
    body = message.body
    content_type = headers.get("content-type")
    was = headers.get(BODY_HEADER, "")
    if content_type == RAW and body[:2] == b"\x00\x53":
        return b"", body, MESSAGE, None
    form = headers.get("transformation", "")
    if is_text and form in FORMS and TRANSFORMATION_ERROR not in headers:
        try:
            found = amqp_map(read_map(body, form))
        except MapError as error:
            headers[TRANSFORMATION_ERROR] = str(error)
        else:
            return encode(Described(ULong(at.VALUE), found)), b"", MAP_MESSAGE, None
    if was == "null" and not body:
        return encode(Described(ULong(at.VALUE), None)), b"", TEXT_MESSAGE, content_type
    if was in ("value", "sequence"):
        read = _from_json(body, was)
        if read is not None:
            section, jms_type = read
            return section, b"", jms_type, None if content_type == JSON else content_type
    if is_text and is_utf8(body):
        return section_start(at.VALUE, TEXT_FORM, len(body)), body, TEXT_MESSAGE, content_type
    if was == "binary":
        return section_start(at.VALUE, BINARY, len(body)), body, BYTES_MESSAGE, content_type
    kind = OBJECT_MESSAGE if content_type == JAVA_OBJECT else BYTES_MESSAGE
    return section_start(at.DATA, BINARY, len(body)), body, kind, content_type or OCTETS


def is_utf8(octets: bytes) -> bool:
    """Say whether these are UTF-8, without a copy of a large text."""
    try:
        if len(octets) <= DECODED_BYTES:
            octets.decode()
            return True
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(octets), DECODED_BYTES):
            decoder.decode(octets[start : start + DECODED_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _from_json(body: bytes, was: str) -> tuple[bytes, int] | None:
    """Return the section of a JSON text, and x-opt-jms-msg-type; None for a text that AMQP cannot express."""
    try:
        if body.count(b",") + body.count(b"[") + body.count(b"{") > JSON_SIGNS_MAX:
            return None  # it would fill the memory before ``is_within_limits`` could say that it is too much
        value = json.loads(body)
        if value is None or (was == "sequence" and not isinstance(value, list)) or not is_within_limits(value):
            return None
        if was == "sequence":
            value = [stream_value(one) for one in value]
        section = encode(Described(ULong(at.VALUE if was == "value" else at.SEQUENCE), value))
    except (ValueError, RecursionError):  # no JSON, too deep for its reader, or a number of more than 64 bits
        return None
    if was == "sequence":
        return section, STREAM_MESSAGE
    return section, MAP_MESSAGE if isinstance(value, dict) else OBJECT_MESSAGE


def _whole(text: str | None, limit: int) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if number < limit else None
