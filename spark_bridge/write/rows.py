"""Rows as SEND frames: the columns that a write understands, in the words of ``arrow/schema.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from engine.values.message import DUPLICATE_ID_NAMES
from protocols.broker_headers import BROKER_HEADERS
from spark_bridge.arrow.schema import TABLES, readable

# By column, the header of a SEND with the same meaning.
HEADERS: Final = {
    "correlation_id": "correlation-id",
    "type": "type",
    "reply_to": "reply-to",
    "content_type": "content-type",
    "group_id": "JMSXGroupID",
    "group_sequence": "JMSXGroupSeq",
}
OTHERS: Final = ("destination", "body", "body_text", "headers", "priority", "persistent", "expires", "message_id")
# Of a read, so that its rows can be written back; they say nothing about the new message.
LEFT_OUT: Final = frozenset(name for table in TABLES for name, _, _, _ in readable(table)) - {*HEADERS, *OTHERS}
WRITTEN_BACK: Final = "replayed-message-id"
# Headers of the first SEND only, and those that columns have.
_NOT_COPIED: Final = BROKER_HEADERS | {
    "receipt",
    "transaction",
    "timestamp",
    "expiration",
    *DUPLICATE_ID_NAMES,
    *HEADERS.values(),
}


def check_columns(names: Sequence[str]) -> None:
    """Raises: ValueError for a column that means nothing to a write."""
    for name in names:
        if name not in HEADERS and name not in OTHERS and name not in LEFT_OUT:
            raise ValueError(f"unknown column {name!r}; a write takes {', '.join((*OTHERS, *HEADERS))}")


def frame_of(row: Mapping[str, Any], destination: str) -> tuple[str, bytes, dict[str, str]]:
    """Return destination, body and headers of the SEND for a row.

    A text is sent without a content-length, as STOMP clients send texts.  Raises: ValueError.
    """
    name = row.get("destination") or destination
    if not name:
        raise ValueError("a row has no destination; give the column destination or the option destination")
    headers = {key: value for key, value in (row.get("headers") or {}).items() if key not in _NOT_COPIED}
    for column, header in HEADERS.items():
        value = row.get(column)
        if value is not None:
            headers[header] = str(value)
    headers["persistent"] = "false" if row.get("persistent") is False else "true"
    if row.get("priority") is not None:
        headers["priority"] = str(row["priority"])
    if row.get("expires") is not None:
        headers["expires"] = str(_milliseconds(row["expires"]))
    if row.get("message_id") is not None:
        headers[WRITTEN_BACK] = row["message_id"]
    body, text = row.get("body"), row.get("body_text")
    if text is not None:
        headers["amq-msg-type"] = "text"
        return _stomp_name(name), text.encode(), headers
    octets = bytes(body or b"")
    headers["content-length"] = str(len(octets))
    return _stomp_name(name), octets, headers


def _stomp_name(name: str) -> str:
    """Return a destination as STOMP spells it; ``queue://a`` and ``topic://a`` are those of the column."""
    for prefix, spelled in (("queue://", "/queue/"), ("topic://", "/topic/")):
        if name.startswith(prefix):
            return spelled + name.removeprefix(prefix)
    return name if name.startswith("/") else f"/queue/{name}"


def _milliseconds(time: datetime) -> int:
    """Return a time of Spark, which is without a zone where its session's zone is meant."""
    return round((time if time.tzinfo else time.astimezone(UTC)).timestamp() * 1000)
