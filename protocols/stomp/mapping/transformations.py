"""The header ``transformation``: bodies that represent JMS messages other than text or octets.

On SEND it declares the body as the text of a map, which AMQP clients get as a MapMessage.  On SUBSCRIBE it asks for
a form of MapMessages.  A text is always stored as it came.
Source: ActiveMQ's ``JmsFrameTranslator`` and ``StompSubscription``: a message whose transformation fails is delivered
untransformed, with a header ``transformation-error``.
"""

from __future__ import annotations

from typing import Final

from engine.values.message import STOMP, TEXT, Message, annotation, unescaped
from protocols.converter import Converter
from protocols.map_message import FORMS, JSON, XML, MapError, read_map, write_map
from protocols.stomp.mapping.reply_to import with_headers

TRANSFORMATION: Final = "transformation"
ERROR: Final = "transformation-error"
BYTES_TRANSFORMATION: Final = "jms-byte"
_EITHER: Final = frozenset(("jms-xml", "jms-json"))  # of SUBSCRIBE; without an effect on SEND
_OBJECTS: Final = "jms-object-"
_ADVISORIES: Final = frozenset(("jms-advisory-xml", "jms-advisory-json"))  # advisories are JSON already

_LINE: Final = b"\ntransformation:"
_ERROR_LINE: Final = b"\ntransformation-error:"
# Headers of another protocol's map in JSON.
_OF_OTHERS: Final = (b"amqp-body:", b"content-type:application/json", b"transformation:")


def transformation_error(headers: dict[str, str], has_length: bool, body: bytes) -> str:
    """Return why a SEND's transformation is not done, "" if it is; ActiveMQ sends the text on anyway.

    has_length: with a content-length the body is bytes, and is not transformed.
    """
    name = headers.get(TRANSFORMATION, "")
    if not name or has_length or name == BYTES_TRANSFORMATION or name in _EITHER:
        return ""
    if name in FORMS:
        try:
            read_map(body, name)
        except MapError as error:
            return str(error)
        return ""
    if name.startswith(_OBJECTS):
        return f"{name} needs Java; allowed are {JSON}, {XML} and {BYTES_TRANSFORMATION}"
    return f"{name[:80]} is not known; allowed are {JSON}, {XML} and {BYTES_TRANSFORMATION}"


def looks_at_body(headers: dict[str, str]) -> bool:
    """Say whether a check of a SEND's transformation needs the body."""
    return headers.get(TRANSFORMATION) in FORMS


def form_asked(headers: dict[str, str]) -> str:
    """Return the form of MapMessages that a SUBSCRIBE asks for, "" for no change."""
    name = headers.get(TRANSFORMATION, "")
    if name in FORMS or name in _EITHER or name.startswith(_OBJECTS):
        return {"xml": XML, "json": JSON}.get(name.rpartition("-")[2], "")
    return ""


def is_known(name: str) -> bool:
    """Say whether a SUBSCRIBE may ask for this transformation."""
    if name.startswith(_OBJECTS):
        return name in (_OBJECTS + "xml", _OBJECTS + "json")
    return name in FORMS or name in _EITHER or name in _ADVISORIES or name == BYTES_TRANSFORMATION


def transformed(message: Message, original: Message, form: str, converter: Converter | None) -> Message:
    """Return ``message`` in the form that a subscription asked for; other messages than maps are unchanged.

    message: in STOMP's encoding; original: as it is stored, perhaps in another encoding.
    """
    try:
        if original.encoding == STOMP:
            return _from_stomp(message, form)
        assert converter is not None, "a gateway that takes other protocols has a converter"
        values = converter.map_of(original)
        if values is None:
            return message
        body = write_map(values, form)
        kept = [line for line in message.headers.split(b"\n") if not line.startswith(_OF_OTHERS)]
        return _with_form(message, b"\n".join(kept), body, form)
    except MapError as error:
        return with_headers(message, message.headers + annotation(ERROR, str(error)), message.body)


def _from_stomp(message: Message, form: str) -> Message:
    """Raises: MapError."""
    lines = b"\n" + message.headers
    start = lines.find(_LINE)
    if start < 0 or not message.flags & TEXT or _ERROR_LINE in lines:
        return message
    end = lines.index(b"\n", start + 1)
    name = unescaped(lines[start + len(_LINE) : end].decode())
    if name == form or name not in FORMS:
        return message
    body = write_map(read_map(message.body, name), form)
    return _with_form(message, message.headers[:start] + lines[end + 1 :], body, form)


def _with_form(message: Message, headers: bytes, body: bytes, form: str) -> Message:
    return with_headers(message, headers + annotation(TRANSFORMATION, form), body, TEXT)
