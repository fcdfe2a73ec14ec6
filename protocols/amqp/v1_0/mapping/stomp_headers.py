"""Headers of STOMP for fields of AMQP: their names, their lines, and addresses in them."""

from __future__ import annotations

import re
from typing import Final

from engine.values.message import JOB_ID
from protocols.amqp.v1_0.wire.types.values import Value
from protocols.broker_headers import BROKER_HEADERS

TYPES_HEADER: Final = "amqp-property-types"
BODY_HEADER: Final = "amqp-body"
ANNOTATION_HEADER: Final = "JMS_AMQP_MA_"
GROUP_HEADER: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"
MESSAGE_ID_HEADER: Final = "amqp-message-id"
OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"
RAW: Final = "application/vnd.amqp-1.0"  # content-type of a body that JSON cannot express: its sections as on the wire

# x-opt-jms-reply-to -> STOMP's prefix of such a destination (a temporary one belongs to another connection).
PREFIXES: Final = {0: "/queue/", 1: "/topic/", 2: "/remote-temp-queue/", 3: "/remote-temp-topic/"}

# Headers of STOMP about the message itself or its delivery; all others are application properties.
MEANT: Final = BROKER_HEADERS | {
    JOB_ID,
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

_ESCAPED: Final = re.compile(r"\\([nrc\\])")
_UNESCAPED: Final = {"n": "\n", "r": "\r", "c": ":", "\\": "\\"}


def is_property(name: str) -> bool:
    """Return whether a header is an application property."""
    return name not in MEANT and not is_annotation(name)


def is_annotation(name: str) -> bool:
    """Return whether a header is a message annotation."""
    return name.startswith(ANNOTATION_HEADER) and name.isascii()


def stomp_address(address: str, kind: Value) -> str:
    """Return an address as STOMP clients write it."""
    for prefix, name in (("queue://", "/queue/"), ("topic://", "/topic/")):
        if address.startswith(prefix):
            return name + address.removeprefix(prefix)
    known = PREFIXES.get(kind) if isinstance(kind, int) else None
    return address if known is None or address.startswith("/") else known + address


def amqp_address(text: str) -> tuple[str, int | None]:
    """Return an address without its prefix, and its value of x-opt-jms-reply-to."""
    for prefix, kind in (("queue://", 0), ("topic://", 1), *((prefix, kind) for kind, prefix in PREFIXES.items())):
        if text.startswith(prefix):
            return text.removeprefix(prefix), kind
    return text, None


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
