"""The columns of each table: the one list, for Arrow and for Spark alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
PROPERTY: Final = pa.struct(
    [
        ("type", pa.string()),
        ("boolean", pa.bool_()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("string", pa.string()),
    ]
)
PROPERTY_MAP: Final = pa.map_(pa.string(), PROPERTY)
# As Spark's VARIANT crosses from Python: the mark at the second field is what Spark knows it by.
VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
SPARK_PROPERTY_MAP: Final = "map<string,struct<type:string,boolean:boolean,long:bigint,double:double,string:string>>"

# Name, Arrow type, Spark type, content.  ``docs/reference/export.md`` shows the same tables to users.
Columns = tuple[tuple[str, pa.DataType, str, str], ...]

MESSAGES: Final = "messages"
DELIVERIES: Final = "deliveries"
DEAD_LETTERS: Final = "dead_letters"

MESSAGE_COLUMNS: Final[Columns] = (
    ("destination", pa.string(), "string", "`queue://orders.eu`"),
    ("destination_kind", pa.string(), "string", "`queue` or `topic`"),
    ("destination_name", pa.string(), "string", "`orders.eu`"),
    ("store", pa.string(), "string", "id of the store"),
    ("message_id", pa.string(), "string", "`ID:<store>-<log offset>`, the same in every protocol"),
    ("log_offset", pa.int64(), "bigint", "place in the commit log, octets; unique in a store"),
    ("queue_offset", pa.int64(), "bigint", "place among the messages of its destination and lane"),
    ("lane", pa.int32(), "int", "priority of the lane that `queue_offset` counts in"),
    ("store_time", TIMESTAMP, "timestamp", "when the gateway took it, UTC, milliseconds"),
    ("date", pa.date32(), "date", "day of `store_time`, UTC"),
    ("priority", pa.int32(), "int", "JMSPriority, 0 to 9"),
    ("persistent", pa.bool_(), "boolean", "JMSDeliveryMode"),
    ("correlation_id", pa.string(), "string", "header `correlation-id`"),
    ("type", pa.string(), "string", "header `type` (JMSType)"),
    ("reply_to", pa.string(), "string", "header `reply-to`"),
    ("content_type", pa.string(), "string", "header `content-type`"),
    ("sender_message_id", pa.string(), "string", "the sender's own JMSMessageID (AMQP); null if it gave none"),
    ("user_id", pa.string(), "string", "JMSXUserID, checked by the gateway; null if the sender gave none"),
    ("group_id", pa.string(), "string", "JMSXGroupID"),
    ("group_sequence", pa.int64(), "bigint", "JMSXGroupSeq; null if it is no whole number"),
    ("sent_time", TIMESTAMP, "timestamp", "JMSTimestamp, by the sender's clock; null if it gave none"),
    ("expires", TIMESTAMP, "timestamp", "when it expires; null for never"),
    ("headers", TEXT_MAP, "map<string,string>", "every header and property, unescaped, with what the gateway added"),
    ("properties", PROPERTY_MAP, SPARK_PROPERTY_MAP, "JMS properties with type and value"),
    ("body", pa.binary(), "binary", "octets as a STOMP consumer gets them; null for a text"),
    ("body_text", pa.string(), "string", "the body if it is text, else null"),
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

DELIVERY_COLUMNS: Final[Columns] = (
    ("destination", pa.string(), "string", "`queue://orders.eu`; of a durable subscription its topic"),
    ("destination_kind", pa.string(), "string", "`queue` or `topic`"),
    ("destination_name", pa.string(), "string", "`orders.eu`"),
    ("subscription", pa.string(), "string", "the durable subscription, `client:subscription`; null for a queue's"),
    ("store", pa.string(), "string", "id of the store"),
    ("log_offset", pa.int64(), "bigint", "place of its record in the commit log, which may name many messages"),
    ("store_time", TIMESTAMP, "timestamp", "when the gateway recorded it, UTC, milliseconds"),
    ("date", pa.date32(), "date", "day of `store_time`, UTC"),
    ("message_id", pa.string(), "string", "as in `messages`"),
    ("message_offset", pa.int64(), "bigint", "`log_offset` of the message"),
    ("message_time", TIMESTAMP, "timestamp", "`store_time` of the message"),
    ("time_in_queue_ms", pa.int64(), "bigint", "from `message_time` to `store_time`"),
    ("queue_offset", pa.int64(), "bigint", "`queue_offset` of the message"),
    ("lane", pa.int32(), "int", "priority of the lane that `queue_offset` counts in"),
    (
        "outcome",
        pa.string(),
        "string",
        "`acknowledged`, `dead-lettered`, `expired`, `dropped`; `failed`: it is tried again",
    ),
    ("cause", pa.string(), "string", "why; null without a cause"),
    ("attempt", pa.int32(), "int", "number of the attempt, from 1; null if the message was not with a consumer"),
    ("next_attempt", TIMESTAMP, "timestamp", "of `failed`: not before; null for at once"),
    ("consumer", pa.int64(), "bigint", "number of the consumer in the store; null for the gateway itself"),
    ("client_id", pa.string(), "string", "its client id (AMQP: container id)"),
    ("address", pa.string(), "string", "address and port of its socket"),
    ("login", pa.string(), "string", "its login"),
    ("subscription_id", pa.string(), "string", "the id that the client chose: STOMP's `id`, the name of an AMQP link"),
)

DEAD_LETTER_COLUMNS: Final[Columns] = (
    *(column for column in MESSAGE_COLUMNS if column[0] != "dead_letter"),
    ("original_destination", pa.string(), "string", "where it failed: `queue://orders.eu`"),
    ("original_subscription", pa.string(), "string", "the durable subscription in which it failed; null for a queue"),
    ("original_message_id", pa.string(), "string", "its `message_id` there"),
    ("cause", pa.string(), "string", "`nack`, `exhausted`, `rejected`, `connection-lost`, `expired`, `no-route`, ..."),
    ("failure", pa.string(), "string", "the same in words, with the reason that the consumer gave"),
    ("failed_attempts", pa.int32(), "int", "how often it had failed"),
    ("first_failure", TIMESTAMP, "timestamp", "when it failed first; null if it expired"),
    ("last_failure", TIMESTAMP, "timestamp", "when it failed last"),
    ("last_consumer", pa.string(), "string", "who had it last: client id or login, address, subscription"),
    ("retry_count", pa.int32(), "int", "how often `penstock retry` had sent it back before; null for never"),
)

TABLES: Final[dict[str, Columns]] = {
    MESSAGES: MESSAGE_COLUMNS,
    DELIVERIES: DELIVERY_COLUMNS,
    DEAD_LETTERS: DEAD_LETTER_COLUMNS,
}
PAYLOAD: Final = "payload"
# What a read has beside the columns of its table if its options ask for it.
PAYLOAD_COLUMNS: Final[Columns] = ((PAYLOAD, VARIANT, "variant", "a text body that is JSON; null for any other body"),)
ON_REQUEST: Final[dict[str, Columns]] = {MESSAGES: PAYLOAD_COLUMNS, DEAD_LETTERS: PAYLOAD_COLUMNS}
SCHEMAS: Final[dict[str, pa.Schema]] = {
    table: pa.schema([pa.field(name, arrow_type) for name, arrow_type, _, _ in columns])
    for table, columns in TABLES.items()
}


def readable(table: str) -> Columns:
    """Return the columns that a read of a table may have."""
    return (*TABLES[table], *ON_REQUEST.get(table, ()))


def chosen_schema(table: str, columns: Sequence[str]) -> pa.Schema:
    """Return columns of a read as Arrow's schema."""
    types = {name: arrow_type for name, arrow_type, _, _ in readable(table)}
    return pa.schema([(name, types[name]) for name in columns])


def spark_ddl(table: str, columns: Sequence[str]) -> str:
    """Return columns of a read as Spark's schema text."""
    types = {name: spark_type for name, _, spark_type, _ in readable(table)}
    return ", ".join(f"`{name}` {types[name]}" for name in columns)


def chosen_tables(text: str) -> tuple[str, ...]:
    """Parse names with commas between them, in the order of TABLES; "" means none.  Raises: ValueError."""
    names = {name.strip() for name in text.split(",")} - {""}
    unknown = sorted(names - TABLES.keys())
    if unknown:
        raise ValueError(f"unknown table {unknown[0]!r}; penstock has {', '.join(TABLES)}")
    return tuple(table for table in TABLES if table in names)
