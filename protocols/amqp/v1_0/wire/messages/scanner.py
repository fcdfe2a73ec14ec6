"""Fields of a message for routing and storing, read by position: most of a message is never decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from crc32c import crc32c

from engine.values.message import KEYED, PERSISTENT
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages.sections import (
    ABSOLUTE_EXPIRY_TIME,
    APPLICATION_PROPERTIES,
    BODY_SECTIONS_MOST,
    CORRELATION_ID,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    GROUP_ID,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SUBJECT,
    TO,
    USER_ID,
    end_of,
    read_list,
    section_code,
)
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.values import Timestamp, UByte, UInt, Value

DEFAULT_PRIORITY: Final = 4
PRIORITY_MOST: Final = 9

_SMALL_HEADER: Final = b"\x00\x53\x70\xc0"
_BODY: Final = b"\x00\x53\x75"  # the most common of
_BODIES: Final = frozenset((_BODY, b"\x00\x53\x76", b"\x00\x53\x77"))
_KEPT_HEADERS: Final = 256  # known header sections; one application has few different ones
_KEPT_HEADER_BYTES: Final = 64

_KEYS: Final = b"keys"
_SCHEDULED: Final = b"AMQ_SCHED"
_IDENTIFIED: Final = b"_DUPL_ID"
_DELIVERY: Final = b"x-opt-delivery-"
# Fields of the properties that are read here.
_ROUTING: Final = frozenset((USER_ID, TO, SUBJECT, ABSOLUTE_EXPIRY_TIME, GROUP_ID))


class Scanned:
    """Fields of a message for routing and storing.

    flags, tag_hash, group_hash, headers, body: as ``Message`` keeps them.  It is KEYED if it has a correlation-id, or
    octets that look like the application-property ``keys``.
    ttl_ms, expires_ms: -1 and 0 for none; the latter is a wall time.
    to, user_id: of the properties, empty for none.  has_annotations: it has message-annotations.
    may_be_scheduled: some of its octets look like a request for a later delivery.
    may_be_identified: some of its octets look like an application-property with a duplicate id.
    """

    __slots__ = (
        "flags",
        "priority",
        "tag_hash",
        "group_hash",
        "ttl_ms",
        "expires_ms",
        "to",
        "user_id",
        "has_annotations",
        "may_be_scheduled",
        "may_be_identified",
        "headers",
        "body",
    )

    def __init__(self) -> None:
        self.flags = 0
        self.priority = DEFAULT_PRIORITY
        self.tag_hash = 0
        self.group_hash = 0
        self.ttl_ms = -1
        self.expires_ms = 0
        self.to = ""
        self.user_id = b""
        self.has_annotations = False
        self.may_be_scheduled = False
        self.may_be_identified = False
        self.headers = b""
        self.body = b""


@dataclass(slots=True, eq=False)
class Scanner:
    """Reads messages of one connection; remembers the header sections that it has read.

    The result of ``scan`` is valid until the next call.
    _front: header and body descriptor of the last message that had nothing else; _header_bytes: of the header.
    """

    _known: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)
    _simple: dict[bytes, Scanned] = field(default_factory=dict)
    _bare: Scanned = field(default_factory=Scanned)
    _last: Scanned = field(init=False)
    _front: bytes = _BODY
    _header_bytes: int = 0

    def __post_init__(self) -> None:
        self._last = self._bare

    def scan(self, payload: bytes) -> Scanned:
        """Return the fields of a message for routing and storing.  Raises: DecodeError."""
        # Most messages have a known header or none, and then a body: nothing else needs to be read.
        if payload.startswith(self._front):
            last = self._last
            last.body = payload[self._header_bytes :]
            return last
        end = 0
        known: Scanned | None = self._bare
        if payload[:4] == _SMALL_HEADER:
            end = 5 + payload[4] if len(payload) > 4 else 0
            known = self._simple.get(payload[:end])
        front = payload[: end + 3]
        if known is None or front[end:] not in _BODIES:
            return self._scan_sections(payload)
        known.body = payload[end:]
        self._last = known
        self._front = front
        self._header_bytes = end
        return known

    def scan_apart(self, headers: bytes, body: bytes) -> Scanned:
        """Do the same with the sections before the body and the body, which is not copied.  Raises: DecodeError."""
        found = self._scan_sections(headers)
        found.body = body
        return found

    def forget(self) -> None:
        """Keep nothing of a message that was refused."""
        self._simple.clear()
        self._bare.body = b""
        self._last = self._bare
        self._front = _BODY
        self._header_bytes = 0

    def _scan_sections(self, payload: bytes) -> Scanned:
        """Read one section after the other, up to the body."""
        found = Scanned()
        at = 0
        size = len(payload)
        dropped_at = -1
        dropped_end = 0
        last = 0
        try:
            while at < size:
                if payload[at] != 0 or payload[at + 1] != 0x53:
                    return _scan_wide(self, payload)
                code = payload[at + 2]
                if code >= DATA:
                    break
                end = end_of(payload, at + 3)
                if code <= last or end > size:
                    raise DecodeError(f"section {code:#04x} comes after {last:#04x}, or runs past the message")
                last = code
                if code == HEADER:
                    section = payload[at:end]
                    known = self._known.get(section)
                    if known is None:
                        known = self._read_header(section)
                    found.flags, found.priority, found.ttl_ms = known
                elif code == PROPERTIES:
                    _read_properties(payload, at + 3, end, found)
                elif code == MESSAGE_ANNOTATIONS:
                    found.has_annotations = True
                    if payload.find(_DELIVERY, at, end) >= 0:
                        found.may_be_scheduled = True
                elif code == DELIVERY_ANNOTATIONS:
                    dropped_at = at
                    dropped_end = end
                elif code == APPLICATION_PROPERTIES:
                    if payload.find(_KEYS, at, end) >= 0:
                        found.flags |= KEYED
                    if payload.find(_SCHEDULED, at, end) >= 0:
                        found.may_be_scheduled = True
                    if payload.find(_IDENTIFIED, at, end) >= 0:
                        found.may_be_identified = True
                else:
                    raise DecodeError(
                        f"a section of a message has the descriptor {code:#04x}; allowed are 0x70 to 0x78"
                    )
                at = end
        except IndexError:
            raise DecodeError("a message ends in the middle of a section") from None
        if at < size and payload[at + 2] > FOOTER:
            raise DecodeError(f"a section of a message has the descriptor {payload[at + 2]:#04x}")
        if dropped_at < 0:
            found.headers = payload[:at]
        else:
            found.headers = payload[:dropped_at] + payload[dropped_end:at]
        found.body = payload[at:]
        if last == HEADER and at <= _KEPT_HEADER_BYTES:
            self._keep(found)
        return found

    def _keep(self, found: Scanned) -> None:
        """Remember the header of a message that has only a header and a body."""
        if len(self._simple) >= _KEPT_HEADERS:
            self._simple.clear()
        self._simple[found.headers] = found

    def _read_header(self, section: bytes) -> tuple[int, int, int]:
        fields = read_list(section, 3)
        durable = _field(fields, 0, bool, "durable")
        priority = _field(fields, 1, UByte, "priority")
        ttl = _field(fields, 2, UInt, "ttl")
        known = (
            PERSISTENT if durable else 0,
            DEFAULT_PRIORITY if priority is None else min(int(priority), PRIORITY_MOST),
            -1 if ttl is None else int(ttl),
        )
        if len(section) <= _KEPT_HEADER_BYTES:
            if len(self._known) >= _KEPT_HEADERS:
                self._known.clear()
            self._known[section] = known
        return known


def _read_properties(payload: bytes, at: int, end: int, found: Scanned) -> None:
    """Take user-id, to, subject, absolute-expiry-time and group-id out of the list at ``at``."""
    code = payload[at]
    if code == 0xC0:
        count = payload[at + 2]
        at += 3
    elif code == 0xD0:
        count = int.from_bytes(payload[at + 5 : at + 9], "big")
        at += 9
    elif code == 0x45:
        return
    else:
        raise DecodeError(f"properties have the format code {code:#04x}; allowed is a list")
    for index in range(min(count, GROUP_ID + 1)):
        if at >= end:
            raise DecodeError(f"properties announce {count} fields and end after {index}")
        code = payload[at]
        if code == 0x40:
            at += 1
            continue
        if index in _ROUTING:
            value, after = decode(payload, at)
            if index == ABSOLUTE_EXPIRY_TIME:
                if not isinstance(value, Timestamp):
                    raise DecodeError(f"absolute-expiry-time is a {type(value).__name__}; allowed is a timestamp")
                found.expires_ms = max(0, int(value))
            elif index == USER_ID:
                if type(value) is not bytes:
                    raise DecodeError(f"user-id is a {type(value).__name__}; allowed is a binary")
                found.user_id = value
            elif type(value) is not str:
                raise DecodeError(f"field {index} of the properties is a {type(value).__name__}; allowed is a string")
            elif index == TO:
                found.to = value
            elif index == SUBJECT:
                found.tag_hash = crc32c(value.encode()) if value else 0
            else:
                found.group_hash = crc32c(value.encode()) if value else 0
            at = after
        else:
            if index == CORRELATION_ID:
                found.flags |= KEYED
            at = end_of(payload, at)
    if at > end:
        raise DecodeError("properties run past their end")


def _scan_wide(scanner: Scanner, payload: bytes) -> Scanned:
    """Scan a message whose descriptors are written in another way than 0x53; its bare message stays as it is."""
    at = 0
    rewritten: list[bytes] = []
    headers: list[bytes] = []
    body: list[bytes] = []
    last = 0
    while at < len(payload):
        if len(rewritten) == BODY_SECTIONS_MOST:
            raise DecodeError(f"a message has more than {BODY_SECTIONS_MOST} sections, with wide descriptors")
        code, after = section_code(payload, at)
        if code < DATA and code <= last:  # nor behind the body: there nobody would look at it
            raise DecodeError(f"section {code:#04x} comes after {last:#04x}")
        last = code
        try:
            end = end_of(payload, after)
        except IndexError:
            raise DecodeError("a message ends in the middle of a section") from None
        section = bytes((0, 0x53, code)) + payload[after:end]
        rewritten.append(section)
        if code >= DATA:
            body.append(payload[at:end])
        elif code != DELIVERY_ANNOTATIONS:
            headers.append(section if code < PROPERTIES else payload[at:end])
        at = end
    found = scanner.scan(b"".join(rewritten))
    found.headers = b"".join(headers)
    found.body = b"".join(body)
    return found


def _field(fields: list[Value], index: int, kind: type, name: str) -> Value:
    if index >= len(fields) or fields[index] is None:
        return None
    if type(fields[index]) is not kind:
        raise DecodeError(f"{name} of the header is a {type(fields[index]).__name__}; allowed is {kind.__name__}")
    return fields[index]
