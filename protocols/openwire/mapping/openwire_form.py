"""Messages of other protocols -> OpenWire, by way of their header lines (protocols.message_lines)."""

from __future__ import annotations

import base64
import json
import struct
from typing import Final

from engine.values.message import PERSISTENT, STOMP, TEXT, Message
from protocols import map_message as words
from protocols.broker_headers import TRANSFORMATION_ERROR
from protocols.converter import Converter
from protocols.errors import FrameError
from protocols.map_message import FORMS, Map, MapError, Typed, read_map
from protocols.message_lines import (
    AMQP_SECTIONS,
    BODY_HEADER,
    JAVA_OBJECT,
    MEANT,
    MESSAGE_ID_HEADER,
    TYPES_HEADER,
    named_types,
    read_lines,
)
from protocols.openwire.mapping import advisory
from protocols.openwire.mapping.contents import text_content
from protocols.openwire.mapping.identity import invented_identity
from protocols.openwire.mapping.stored_form import Stored, stored
from protocols.openwire.wire import identities, messages
from protocols.openwire.wire.identities import Destination, MessageId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import MESSAGE_CLASSES, WireMessage
from protocols.openwire.wire.property_map import Tally, write_map, write_stream
from protocols.openwire.wire.property_map import read_map as read_property_map
from protocols.openwire.wire.writer import encode_structure

STRING_MOST: Final = 20_000  # characters of a string field; three octets each fit into its length

_WHOLE: Final = {"byte": (words.BYTE, 8), "short": (words.SHORT, 16), "int": (words.INT, 32), "long": (words.LONG, 64)}
# Types of AMQP -> the narrowest kind that holds all of their values (AMQP JMS mapping 1.0, 3.1.2).
_WIDENED: Final = {"ubyte": "short", "ushort": "int", "uint": "long", "ulong": "long", "timestamp": "long"}
_PREFIXES: Final = (
    ("/queue/", identities.QUEUE),
    ("/topic/", identities.TOPIC),
    ("queue://", identities.QUEUE),
    ("topic://", identities.TOPIC),
    ("/remote-temp-queue/", identities.TEMP_QUEUE),
    ("/remote-temp-topic/", identities.TEMP_TOPIC),
    ("temp-queue://", identities.TEMP_QUEUE),
    ("temp-topic://", identities.TEMP_TOPIC),
)


def openwire_form(
    message: Message,
    form: Message,
    converter: Converter,
    destination: Destination,
    store_id: str,
    own_id: str,
) -> Stored:
    """Return a message of another protocol as OpenWire.

    form: with header lines; the message itself if it has them.  own_id: the broker's id of the message.
    """
    assert form.encoding == STOMP, "converters make header lines"
    headers = read_lines(form.headers)
    code, content = _content(message, form, converter, headers)
    found = MESSAGE_CLASSES[code]()
    if headers.get("transformation") == advisory.FORM and advisory.is_advisory_topic(destination):
        found = WireMessage(data_structure=advisory.structure_in(form, destination))
    found.message_id = _message_id(message, store_id, headers.get(MESSAGE_ID_HEADER, own_id))
    found.producer_id = found.message_id.producer_id
    found.destination = destination
    found.content = content if found.CODE != messages.PLAIN else None
    found.persistent = bool(message.flags & PERSISTENT)
    found.expiration = message.expires_ms
    found.priority = message.jms_priority()
    found.timestamp = _whole(headers.get("timestamp"), 64, message.store_time_ms)
    found.correlation_id = _field(headers.get("correlation-id"))
    found.type = _field(headers.get("type"))
    found.group_id = _field(headers.get("JMSXGroupID"))
    found.group_sequence = _whole(headers.get("JMSXGroupSeq"), 32, 0)
    if "reply-to" in headers:
        found.reply_to = reply_destination(headers["reply-to"], False)
    properties = _properties(headers) if found.CODE != messages.PLAIN else advisory.properties_of(headers)
    if properties:
        found.marshalled_properties = write_map(properties, is_modified=False)
    return stored(encode_structure(found), VERSION, is_ours=True)


def raw_form(message: Message, destination: Destination, store_id: str, own_id: str) -> Stored:
    """Return the least that a client needs of a message: the fallback if ``openwire_form`` fails."""
    found = MESSAGE_CLASSES[messages.BYTES_MESSAGE]()
    found.message_id = _message_id(message, store_id, own_id)
    found.producer_id = found.message_id.producer_id
    found.destination = destination
    found.content = message.body
    found.persistent = bool(message.flags & PERSISTENT)
    return stored(encode_structure(found), VERSION)


def with_properties(message: WireMessage, added: Map) -> Stored:
    """Return a message with more properties.  message: with its content.

    Unreadable properties stay as they came, with nothing added.
    """
    try:
        known = read_properties(message.marshalled_properties)
    except FrameError:
        return stored(encode_structure(message), VERSION)
    message.marshalled_properties = write_map({**known, **added}, is_modified=False)
    return stored(encode_structure(message), VERSION)


def read_properties(octets: bytes | None, tally: Tally | None = None) -> Map:
    """Raises: FrameError."""
    return read_property_map(octets or b"\0\0\0\0", tally)


def reply_destination(text: str, is_known: bool) -> Destination:
    """Return the destination of a header reply-to.

    Clients publish to temporary destinations only if they have heard of them; those of other protocols are shown as
    queues and topics of the same name.
    """
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            if not is_known and kind == identities.TEMP_QUEUE:
                kind = identities.QUEUE
            elif not is_known and kind == identities.TEMP_TOPIC:
                kind = identities.TOPIC
            return Destination(kind, text.removeprefix(prefix)[:STRING_MOST])
    return Destination(identities.QUEUE, text[:STRING_MOST])


def _message_id(message: Message, store_id: str, text: str) -> MessageId:
    producer, sequence = invented_identity(message, store_id)
    return MessageId(text[:STRING_MOST], producer, sequence, 0)


def _content(
    message: Message, form: Message, converter: Converter, headers: dict[str, str]
) -> tuple[int, bytes | None]:
    """Return the class of message and its content."""
    body = form.body
    was = headers.get(BODY_HEADER, "")
    is_text = bool(form.flags & TEXT)
    try:
        if is_text and headers.get("transformation") in FORMS and TRANSFORMATION_ERROR not in headers:
            return messages.MAP, write_map(read_map(body, headers["transformation"]))
        may_be_map = was == "value" or headers.get("content-type") == AMQP_SECTIONS
        values = converter.map_of(message) if form is not message and may_be_map else None
        if values is not None:
            return messages.MAP, write_map(values)
        if was == "sequence" and is_text:
            items = json.loads(body)
            if isinstance(items, list):
                return messages.STREAM, write_stream([_typed(one) for one in items])
    except (MapError, ValueError, RecursionError, struct.error):
        pass  # a text, or octets, as any other receiver gets them
    if headers.get("content-type") == JAVA_OBJECT:
        return messages.OBJECT, body
    if is_text:
        return messages.TEXT, None if was == "null" and not body else text_content(body.decode("utf-8", "replace"))
    return messages.BYTES_MESSAGE, body


def _typed(value: object) -> Typed:
    """Raises: MapError."""
    if isinstance(value, bool):
        return Typed(words.BOOLEAN, value)
    if isinstance(value, int | float):
        return Typed(words.number_kind(value), value)
    if isinstance(value, str):
        return Typed(words.STRING, value)
    if value is None:
        return Typed(words.NULL, None)
    if isinstance(value, list):
        return Typed(words.LIST, [_typed(one) for one in value])
    if isinstance(value, dict):
        return Typed(words.MAP, {str(name): _typed(one) for name, one in value.items()})
    raise MapError(f"a {type(value).__name__} cannot be in a stream")


def _properties(headers: dict[str, str]) -> Map:
    types = named_types(headers.get(TYPES_HEADER, ""))
    return {
        name: typed_property(text, types.get(name, ""))
        for name, text in headers.items()
        if name not in MEANT and name != "transformation"
    }


def typed_property(text: str, kind: str) -> Typed:
    """Return a property in its original type; a text that no longer fits stays a text."""
    try:
        if kind == "boolean":
            return Typed(words.BOOLEAN, text.strip().lower() == "true")
        if kind in ("float", "double"):
            return Typed(words.FLOAT if kind == "float" else words.DOUBLE, float(text))
        if kind == "binary":
            return Typed(words.BYTES, base64.b64decode(text, validate=True))
        if kind == "char" and len(text) == 1 and text <= "\uffff":
            return Typed(words.CHAR, text)
        whole = _WHOLE.get(_WIDENED.get(kind, kind))
        if whole is not None:
            word, bits = whole
            number = int(text)
            if -(1 << (bits - 1)) <= number < 1 << (bits - 1):
                return Typed(word, number)
    except ValueError:
        pass
    return Typed(words.STRING, text)


def _field(text: str | None) -> str | None:
    return None if text is None else text[:STRING_MOST]


def _whole(text: str | None, bits: int, otherwise: int) -> int:
    if text is None or not text.removeprefix("-").isdigit() or not text.isascii() or len(text) > 19:
        return otherwise
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else otherwise
