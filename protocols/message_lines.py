"""The form in which messages cross protocols: header lines with the escapes of STOMP 1.2, and a text or octets.

Values without a header of their own in STOMP become headers, from which another protocol makes them again:
``amqp-property-types`` has the types of properties (name=type, comma-separated; the types are those of AMQP and JMS),
``amqp-body`` what a body was that became JSON, ``amqp-message-id`` the sender's own id.
"""

from __future__ import annotations

import re
from typing import Final

from engine.values.message import JOB_ID
from protocols.broker_headers import BROKER_HEADERS

TYPES_HEADER: Final = "amqp-property-types"
BODY_HEADER: Final = "amqp-body"
GROUP_HEADER: Final = "JMS_AMQP_REPLY_TO_GROUP_ID"
MESSAGE_ID_HEADER: Final = "amqp-message-id"
OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"
# Of a body of AMQP that JSON cannot express: its sections as on the wire.
AMQP_SECTIONS: Final = "application/vnd.amqp-1.0"
JAVA_OBJECT: Final = "application/x-java-serialized-object"

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


def named_types(text: str) -> dict[str, str]:
    """Return the type of each property from the header ``amqp-property-types``."""
    return dict(pair.rpartition("=")[::2] for pair in text.split(",") if "=" in pair)
