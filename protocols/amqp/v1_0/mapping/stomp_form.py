"""AMQP 1.0 -> STOMP, by way of JMS; ``amqp_form`` goes the other way.  The table is in docs/reference/amqp.md.

Values without a form in STOMP become headers, from which ``amqp_form`` makes them again.  ``amqp-property-types`` has
the types of application properties (name=type, comma-separated), ``JMS_AMQP_MA_<name>`` other message annotations.  A
body that is neither text nor octets becomes JSON, and ``amqp-body`` names its section.
"""

from __future__ import annotations

import json
import re
from typing import Final

from engine.values.annotations import annotation
from engine.values.message import AMQP_1_0, PLAIN, STOMP, TEXT, Message
from protocols.amqp.v1_0.mapping.contents import Contents, read_contents
from protocols.amqp.v1_0.mapping.jms_ids import id_text
from protocols.amqp.v1_0.mapping.jms_types import MAP_MESSAGE, OBJECT_MESSAGE, TEXT_MESSAGE
from protocols.amqp.v1_0.mapping.map_body import typed_map
from protocols.amqp.v1_0.mapping.property_types import TYPE_NAMES, property_text
from protocols.amqp.v1_0.mapping.stomp_headers import (
    ANNOTATION_HEADER,
    BODY_HEADER,
    GROUP_HEADER,
    JSON,
    MEANT,
    MESSAGE_ID_HEADER,
    RAW,
    TYPES_HEADER,
    stomp_address,
)
from protocols.amqp.v1_0.wire import sections as at
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.broker_headers import BESIDE_NAMES, JMS_REPLY_TO, JMS_TYPE, USER, is_broker_annotation
from protocols.converter import Converter
from protocols.map_message import Map, MapError

_TEXTUAL: Final = re.compile(r"text/|application/(json|xml|javascript|ecmascript)|.*\+(json|xml)")
_BODY_NAMES: Final = {at.VALUE: "value", at.SEQUENCE: "sequence", at.DATA: "data"}


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
            # Its routing fields were readable, so only its content is malformed: receivers get it as it came.
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
        headers["reply-to"] = stomp_address(reply_to, contents.annotation(JMS_REPLY_TO))
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
        if not name or name.strip(BESIDE_NAMES) in MEANT or value is None:
            continue
        headers[name] = property_text(value)
        kind = TYPE_NAMES.get(type(value))
        if kind is not None:
            types.append(f"{name}={kind}")
    if types:
        headers[TYPES_HEADER] = ",".join(types)
    for key, value in contents.annotations.items():
        if value is not None and not is_broker_annotation(key):
            headers[f"{ANNOTATION_HEADER}{key}"] = property_text(value)
    body, text_flag = _stomp_body(contents, message, headers)
    lines = b"".join(annotation(name, value) for name, value in headers.items() if "\0" not in name + value)
    return lines, body, text_flag


def _stomp_body(contents: Contents, message: Message, headers: dict[str, str]) -> tuple[bytes, int]:
    """Return the body and whether it is text; if it was neither text nor octets, ``headers`` gets its section."""
    sections = contents.sections
    kind = contents.body_kind
    if kind == 0:
        return b"", TEXT if contents.annotation(JMS_TYPE) == TEXT_MESSAGE else 0
    if (kind == at.DATA and not all(isinstance(one, bytes) for one in sections)) or (
        kind == at.SEQUENCE and not all(isinstance(one, list) for one in sections)
    ):
        headers["content-type"] = RAW  # an invalid body (3.2.6, 3.2.7): its receiver gets it as it came
        return message.body, 0
    if kind == at.DATA:
        body = b"".join(sections)
        content_type = headers.get("content-type", "")
        # A STOMP text must be UTF-8, even if the sender declares another charset.
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
    raise TypeError(f"a {type(value).__name__} cannot be in JSON")


def _is_utf_8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True
