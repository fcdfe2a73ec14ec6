"""The seven classes of messages, which differ in their content only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from protocols.openwire.wire.commands import BOOL, BYTE, BYTES, INT, LONG, STRING, Anything, Command
from protocols.openwire.wire.identities import (
    BrokerId,
    ConsumerId,
    Destination,
    MessageId,
    ProducerId,
    TransactionId,
)

PLAIN: Final = 23
BYTES_MESSAGE: Final = 24
MAP: Final = 25
OBJECT: Final = 26
STREAM: Final = 27
TEXT: Final = 28
BLOB: Final = 29


@dataclass(slots=True)
class WireMessage(Command):
    """arrival, broker_in_time, broker_out_time, cluster, droppable: of networks of brokers, and not used here."""

    CODE: ClassVar[int] = PLAIN
    NAME: ClassVar[str] = "ActiveMQMessage"
    SINCE: ClassVar[dict[str, int]] = {
        "droppable": 2,
        "cluster": 3,
        "broker_in_time": 3,
        "broker_out_time": 3,
        "jmsx_group_first_for_consumer": 10,
        "remote_blob_url": 3,
        "mime_type": 3,
        "deleted_by_broker": 3,
    }

    producer_id: ProducerId | None = None
    destination: Destination | None = None
    transaction_id: TransactionId | None = None
    original_destination: Destination | None = None
    message_id: MessageId | None = None
    original_transaction_id: TransactionId | None = None
    group_id: STRING = None
    group_sequence: INT = 0
    correlation_id: STRING = None
    persistent: BOOL = False
    expiration: LONG = 0
    priority: BYTE = 0
    reply_to: Destination | None = None
    timestamp: LONG = 0
    type: STRING = None
    content: BYTES = None
    marshalled_properties: BYTES = None
    data_structure: Anything | None = None
    target_consumer_id: ConsumerId | None = None
    compressed: BOOL = False
    redelivery_counter: INT = 0
    broker_path: list[BrokerId] | None = None
    arrival: LONG = 0
    user_id: STRING = None
    received_by_df_bridge: BOOL = False
    droppable: BOOL = False
    cluster: list[BrokerId] | None = None
    broker_in_time: LONG = 0
    broker_out_time: LONG = 0
    jmsx_group_first_for_consumer: BOOL = False


@dataclass(slots=True)
class BytesMessage(WireMessage):
    CODE: ClassVar[int] = BYTES_MESSAGE
    NAME: ClassVar[str] = "ActiveMQBytesMessage"


@dataclass(slots=True)
class MapMessage(WireMessage):
    CODE: ClassVar[int] = MAP
    NAME: ClassVar[str] = "ActiveMQMapMessage"


@dataclass(slots=True)
class ObjectMessage(WireMessage):
    CODE: ClassVar[int] = OBJECT
    NAME: ClassVar[str] = "ActiveMQObjectMessage"


@dataclass(slots=True)
class StreamMessage(WireMessage):
    CODE: ClassVar[int] = STREAM
    NAME: ClassVar[str] = "ActiveMQStreamMessage"


@dataclass(slots=True)
class TextMessage(WireMessage):
    CODE: ClassVar[int] = TEXT
    NAME: ClassVar[str] = "ActiveMQTextMessage"


@dataclass(slots=True)
class BlobMessage(WireMessage):
    CODE: ClassVar[int] = BLOB
    NAME: ClassVar[str] = "ActiveMQBlobMessage"

    remote_blob_url: STRING = None
    mime_type: STRING = None
    deleted_by_broker: BOOL = False


MESSAGE_CLASSES: Final[dict[int, type[WireMessage]]] = {
    one.CODE: one
    for one in (WireMessage, BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage, BlobMessage)
}
