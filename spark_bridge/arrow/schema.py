"""The columns of a message: the one list, for Arrow and for Spark alike."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TEXT_MAP: Final = pa.map_(pa.string(), pa.string())

# Name, Arrow type, Spark type, content.  ``docs/reference/export.md`` shows the same table to users.
COLUMNS: Final[tuple[tuple[str, pa.DataType, str, str], ...]] = (
    ("destination", pa.string(), "string", "`queue://orders.eu`"),
    ("destination_kind", pa.string(), "string", "`queue` or `topic`"),
    ("destination_name", pa.string(), "string", "`orders.eu`"),
    ("message_id", pa.string(), "string", "`ID:<store>-<log offset>`, the same in every protocol"),
    ("log_offset", pa.int64(), "bigint", "place in the commit log, octets; unique in a store"),
    ("queue_offset", pa.int64(), "bigint", "place among the messages of its destination and priority"),
    ("store_time", TIMESTAMP, "timestamp", "when the gateway took it, UTC, milliseconds"),
    ("date", pa.date32(), "date", "day of `store_time`, UTC"),
    ("priority", pa.int32(), "int", "0 to 9"),
    ("persistent", pa.bool_(), "boolean", "JMSDeliveryMode"),
    ("correlation_id", pa.string(), "string", "header `correlation-id`"),
    ("type", pa.string(), "string", "header `type` (JMSType)"),
    ("reply_to", pa.string(), "string", "header `reply-to`"),
    ("expires", TIMESTAMP, "timestamp", "when it expires; null for never"),
    ("headers", TEXT_MAP, "map<string,string>", "every header, unescaped, with what the gateway added"),
    ("body", pa.binary(), "binary", "octets as sent"),
    ("body_text", pa.string(), "string", "the body of a text message that is valid UTF-8, else null"),
    (
        "delivery_state",
        pa.string(),
        "string",
        "`pending`, `acknowledged`, `dead-lettered`, `expired`, `dropped`; of a topic's message `published`",
    ),
    (
        "delivery_cause",
        pa.string(),
        "string",
        "why it is in that state; null without a cause",
    ),
    ("dead_letter", pa.bool_(), "boolean", "moved here by the gateway after failed deliveries"),
    (
        "subscription_states",
        TEXT_MAP,
        "map<string,string>",
        "of a topic's message: by durable subscription; null for a queue's",
    ),
)

ARROW_SCHEMA: Final = pa.schema([pa.field(name, arrow_type) for name, arrow_type, _, _ in COLUMNS])


def spark_ddl() -> str:
    """Return the columns as Spark's schema text."""
    return ", ".join(f"`{name}` {spark_type}" for name, _, spark_type, _ in COLUMNS)
