"""The content of an AMQP message as STOMP headers and a body, by way of JMS; ``amqp_form`` goes the other way.

Values without a form in STOMP become headers, from which ``amqp_form`` makes them again.  ``amqp-property-types`` has
the types of application properties (name=type, comma-separated), ``JMS_AMQP_MA_<name>`` other message annotations.  A
body that is neither text nor octets becomes JSON, and ``amqp-body`` names its section.  The table is in
docs/reference/amqp.md.

Spark workers load this module, so it imports nothing live.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from typing import Final

from engine.values.message import TEXT, annotation
from protocols.amqp.v1_0.mapping.contents import Contents, read_contents, read_headers
from protocols.amqp.v1_0.mapping.jms_ids import id_text
from protocols.amqp.v1_0.mapping.jms_types import TEXT_MESSAGE, group_sequence_of
from protocols.amqp.v1_0.mapping.property_types import TYPE_NAMES, property_text
from protocols.amqp.v1_0.mapping.stomp_headers import ANNOTATION_HEADER, RAW, stomp_address
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_decoder import decode_plain
from protocols.amqp.v1_0.wire.types.values import Value
from protocols.broker_headers import BESIDE_NAMES, JMS_REPLY_TO, JMS_TYPE, USER, is_broker_annotation
from protocols.message_lines import BODY_HEADER, GROUP_HEADER, JSON, MEANT, MESSAGE_ID_HEADER, TYPES_HEADER

_SPECIAL: Final = re.compile("[\\\\\r\n:\0]")  # what a line escapes or cannot hold
_TEXTUAL: Final = re.compile(r"text/|application/(json|xml|javascript|ecmascript)|.*\+(json|xml)")
_BEFORE_PROPERTIES: Final = (b"\x00\x53\x70", b"\x00\x53\x72")  # header, message-annotations
_PROPERTIES: Final = b"\x00\x53\x73"
_SMALL_TEXT: Final = b"\x00\x53\x77\xa1"  # amqp-value with a string
_LARGE_TEXT: Final = b"\x00\x53\x77\xb1"
_NO_FIELDS: Final[list[Value]] = [None] * (at.REPLY_TO_GROUP_ID + 1)
_TEXT_START: Final = 8  # octets of _LARGE_TEXT and its length
KNOWN_MOST: Final = 1_000
LARGE_BYTES: Final = 1024 * 1024  # of a body; each copy of a large one takes new memory, and so 1.5 ms for 1 MiB
CHECKED_BYTES: Final = 64 * 1024  # of a text at a time
BINARY: Final = "binary"
Content = tuple[bytes, bytes, int]  # header lines, body, TEXT or 0
_BODY_NAMES: Final = {at.VALUE: "value", at.SEQUENCE: "sequence", at.DATA: "data"}


def stomp_content(headers: bytes, body: bytes) -> Content:
    """Return a message's header lines for STOMP, its body and the flag TEXT or 0.

    headers, body: as ``Message`` keeps them.  A message whose sections are malformed is returned by ``raw_content``.
    """
    return counted_content(headers, body)[0]


def counted_content(headers: bytes, body: bytes) -> tuple[Content, int]:
    """Do the same; return also how many items of lists and maps in the body were read for it."""
    is_large_text = _is_large_text(body)
    try:
        contents = read_headers(headers) if is_large_text else read_contents(headers, body)
    except DecodeError as error:
        # Its routing fields were readable, so only its content is malformed: receivers get it as it came.
        return raw_content(headers, body), error.items_read
    found = _of_properties(contents) | _of_others(contents)
    if is_large_text:
        return (_lines(found), body[_TEXT_START:], TEXT), 0
    octets, text_flag = _body(contents, body, found)
    return (_lines(found), octets, text_flag), contents.body_items


@dataclass(slots=True, eq=False)
class ContentReader:
    """Does the same as ``stomp_content``, faster for messages of few senders: they differ in properties and body.

    It keeps the headers of up to KNOWN_MOST combinations of the other sections.
    """

    _known: dict[bytes, tuple[Contents, bytes]] = field(default_factory=dict)

    def read(self, headers: bytes, body: bytes) -> tuple[bytes, bytes, int]:
        """Return header lines, body and the flag TEXT or 0."""
        start = 0
        try:
            while headers[start : start + 3] in _BEFORE_PROPERTIES:
                start = at.end_of(headers, start + 3)
            if headers[start : start + 3] != _PROPERTIES or (body[:4] != _SMALL_TEXT and body[:4] != _LARGE_TEXT):
                return stomp_content(headers, body)
            fields, end = decode_plain(headers, start + 3)
            text = body[5:] if body[:4] == _SMALL_TEXT else body[8:]
            if len(text) != int.from_bytes(body[4 : len(body) - len(text)], "big") or not isinstance(fields, list):
                return stomp_content(headers, body)
            text.decode()
            known = self._known.get(headers[:start] + headers[end:])
            if known is None:
                known = self._learn(headers[:start] + headers[end:])
        except (DecodeError, IndexError, UnicodeDecodeError):
            return stomp_content(headers, body)
        contents, others = known
        contents.properties = fields
        return _lines(_of_properties(contents)) + others, text, TEXT

    def _learn(self, headers: bytes) -> tuple[Contents, bytes]:
        contents = read_headers(headers)
        if len(self._known) >= KNOWN_MOST:
            self._known.clear()
        known = self._known[headers] = contents, _lines(_of_others(contents))
        return known


def _lines(headers: dict[str, str]) -> bytes:
    lines: list[bytes] = []
    for name, value in headers.items():
        if _SPECIAL.search(name) is None and _SPECIAL.search(value) is None:
            lines.append(f"{name}:{value}\n".encode())
        elif "\0" not in name + value:
            lines.append(annotation(name, value))
    return b"".join(lines)


def is_textual(content_type: str) -> bool:
    """Return whether octets of this type are text."""
    return _TEXTUAL.match(content_type.lower()) is not None


def raw_content(headers: bytes, body: bytes) -> Content:
    """Return the sections as they came, for a body of octets."""
    return annotation("content-type", RAW), headers + body, 0


def _of_properties(contents: Contents) -> dict[str, str]:
    headers: dict[str, str] = {}
    field = (contents.properties + _NO_FIELDS[len(contents.properties) :]).__getitem__
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
    created = field(at.CREATION_TIME)
    if isinstance(created, int):
        headers["timestamp"] = str(int(created))
    sequence = group_sequence_of(field(at.GROUP_SEQUENCE))
    if sequence is not None:
        headers["JMSXGroupSeq"] = str(sequence)
    user_id = field(at.USER_ID)
    if isinstance(user_id, bytes):
        headers[USER] = user_id.decode("utf-8", "replace")
    return headers


def _of_others(contents: Contents) -> dict[str, str]:
    """Return the headers of application properties and annotations."""
    headers: dict[str, str] = {}
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
    return headers


def _body(contents: Contents, octets: bytes, headers: dict[str, str]) -> tuple[bytes, int]:
    """Return the body and whether it is text; if it was neither text nor octets, ``headers`` gets its section.

    octets: its sections.
    """
    sections = contents.sections
    kind = contents.body_kind
    if kind == 0:
        return b"", TEXT if contents.annotation(JMS_TYPE) == TEXT_MESSAGE else 0
    if (kind == at.DATA and not all(isinstance(one, bytes) for one in sections)) or (
        kind == at.SEQUENCE and not all(isinstance(one, list) for one in sections)
    ):
        headers["content-type"] = RAW  # an invalid body (3.2.6, 3.2.7): its receiver gets it as it came
        return octets, 0
    if kind == at.DATA:
        body = b"".join(sections)
        content_type = headers.get("content-type", "")
        # A STOMP text must be UTF-8, even if the sender declares another charset.
        is_text = is_textual(content_type) and _is_utf_8(body)
        return body, TEXT if is_text else 0
    value = sections[0] if kind == at.VALUE else [item for one in sections for item in one]
    if kind == at.VALUE:
        if value is None:
            headers[BODY_HEADER] = "null"
            return b"", TEXT
        if type(value) is str:
            return value.encode(), TEXT
        if type(value) is bytes:
            headers[BODY_HEADER] = BINARY
            return value, 0
    try:
        body = json.dumps(value, default=_refuse, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        headers["content-type"] = RAW
        return octets, 0
    headers[BODY_HEADER] = _BODY_NAMES[kind]
    headers.setdefault("content-type", JSON)
    return body, TEXT


def _refuse(value: object) -> object:
    raise TypeError(f"a {type(value).__name__} cannot be in JSON")


def _is_large_text(body: bytes) -> bool:
    """Say whether a body is one large string, whose octets are those of the text: no string is made of it."""
    return (
        len(body) > LARGE_BYTES
        and body.startswith(_LARGE_TEXT)
        and int.from_bytes(body[len(_LARGE_TEXT) : _TEXT_START], "big") == len(body) - _TEXT_START
        and _is_utf_8(memoryview(body)[_TEXT_START:])
    )


def _is_utf_8(octets: bytes | memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(octets), CHECKED_BYTES):
            decoder.decode(octets[start : start + CHECKED_BYTES])
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True
