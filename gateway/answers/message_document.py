"""One message as JSON, and a message to be sent as headers of STOMP: the same fields both ways.

Properties keep their types: texts, whole numbers, fractions and booleans.  Other types of AMQP are texts.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from engine.store.read.found_message import FoundMessage
from engine.values.errors import DATA_FAULTS
from engine.values.message import DEAD_LETTER, PERSISTENT, TEXT, Message, split_annotations
from engine.values.message import STOMP as STOMP_ENCODING
from gateway.settings.conversions import CONVERTERS
from protocols.amqp.v1_0.mapping.property_types import typed_property
from protocols.message_lines import MEANT, TYPES_HEADER, read_lines

# Larger messages are shown without their content: JSON may take six times as much.  A request sends half of it at most.
WHOLE_BYTES_MAX: Final = 2 * 1024 * 1024
BODY_FORMS: Final = ("auto", "json", "base64", "none")
NO_MORE: Final[Mapping[str, Any]] = MappingProxyType({})
_JSON_TYPES: Final[dict[type, str]] = {bool: "boolean", int: "long", float: "double"}
_TYPED_KINDS: Final = frozenset(
    ("boolean", "ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long", "float", "double", "timestamp")
)
# Member of the document -> header of STOMP.
FIELDS: Final = {
    "correlation_id": "correlation-id",
    "reply_to": "reply-to",
    "type": "type",
    "group": "JMSXGroupID",
    "content_type": "content-type",
}


def document(message: Message, message_id: str, destination: str, body_form: str) -> dict[str, Any]:
    """Return a message, a large one without its content.

    body_form: one of BODY_FORMS; auto is a text if the body is one, else base64.
    """
    is_whole = message.size <= WHOLE_BYTES_MAX
    form = _stomp_form(message) if is_whole else message
    headers = read_lines(form.headers) if is_whole else {}
    found: dict[str, Any] = {
        "id": message_id,
        "destination": destination,
        "store_time_ms": message.store_time_ms,
        "persistent": bool(message.flags & PERSISTENT),
        "priority": message.jms_priority(),
        "expires_ms": message.expires_ms,
        **{member: headers.get(header) for member, header in FIELDS.items()},
        "properties": _properties(headers),
        "annotations": dict(reversed(split_annotations(message.annotations))) if is_whole else {},
        "body_bytes": len(form.body),
        "whole": is_whole,
    }
    if is_whole and body_form != "none":
        name, body = _body(form, body_form)
        found[name] = body
    return found


def document_text(
    message: Message, message_id: str, destination: str, body_form: str, more: Mapping[str, Any] = NO_MORE
) -> bytes:
    """Return the same as JSON, with more members."""
    return json.dumps({**document(message, message_id, destination, body_form), **more}).encode()


def type_header(properties: dict[str, str | int | float | bool]) -> str:
    """Return the header that keeps the types of properties; "" if all are texts."""
    typed = ((name, _JSON_TYPES.get(type(value))) for name, value in properties.items())
    return ",".join(f"{name}={kind}" for name, kind in typed if kind is not None and "," not in name)


def _stomp_form(message: Message) -> Message:
    if message.encoding == STOMP_ENCODING:
        return message
    try:
        return CONVERTERS.stomp_form(message)[0]
    except DATA_FAULTS:
        return CONVERTERS.raw_form(message)


def _properties(headers: dict[str, str]) -> dict[str, str | int | float | bool]:
    types = dict(pair.rpartition("=")[::2] for pair in headers.get(TYPES_HEADER, "").split(",") if "=" in pair)
    return {name: _typed(text, types.get(name)) for name, text in headers.items() if name not in MEANT}


def _typed(text: str, kind: str | None) -> str | int | float | bool:
    value = typed_property(text, kind) if kind in _TYPED_KINDS else text
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):  # JSON has no other
        return float(value)
    return text


def _body(form: Message, body_form: str) -> tuple[str, Any]:
    """Return the name of the member, and its value."""
    if body_form != "base64":
        try:
            text = form.body.decode()
            if body_form == "json":
                return "body_json", json.loads(text, parse_constant=_no_constant)
            if form.flags & TEXT or text.isprintable():
                return "body", text
        except (ValueError, RecursionError):
            pass
    return "body_base64", base64.b64encode(form.body).decode("ascii")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def found_message(found: FoundMessage) -> Message:
    """Return a message of the log as one of the engine, in its sender's encoding."""
    flags = (found.is_persistent * PERSISTENT) | (found.is_text * TEXT) | (found.is_dead_letter * DEAD_LETTER)
    message = Message(
        0,
        found.encoding,
        flags,
        found.jms_priority,
        0,
        0,
        found.expires_ms,
        found.annotations,
        found.headers,
        found.body,
    )
    message.log_offset = found.log_offset
    message.queue_offset = found.queue_offset
    message.store_time_ms = found.store_time_ms
    return message
