"""The commands, field by field in the order of the wire.

An annotation is the kind of a field (``codec`` reads them); SINCE has the versions that added fields.  Strings, octets
and nested structures may be absent: None.

    kind          octets                                kind        octets
    BOOL          1                                     STRING      present(1) length(2) modified UTF-8
    BYTE          1                                     BYTES       present(1) length(4) octets
    INT           4                                     Throwable   present(1) STRING STRING
    LONG          8                                     [X]         present(1) count(2) elements
    any other     present(1) type(1) fields

Source: ActiveMQ's command classes and their generated marshallers, versions 1 to 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from protocols.openwire.wire.identities import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    Destination,
    MessageId,
    ProducerId,
    SessionId,
    Throwable,
    TransactionId,
)

BOOL: TypeAlias = bool
BYTE: TypeAlias = int
INT: TypeAlias = int
LONG: TypeAlias = int
STRING: TypeAlias = str | None
BYTES: TypeAlias = bytes | None
MAGIC: TypeAlias = bytes  # eight octets
Anything: TypeAlias = object


@dataclass(slots=True)
class Structure:
    """CODE: the type octet.  NAME: as ActiveMQ's class."""

    CODE: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    SINCE: ClassVar[dict[str, int]] = {}


@dataclass(slots=True)
class WireFormatInfo(Structure):
    CODE: ClassVar[int] = 1
    NAME: ClassVar[str] = "WireFormatInfo"

    magic: MAGIC = b"ActiveMQ"
    version: INT = 0
    marshalled_properties: BYTES = None


@dataclass(slots=True)
class Command(Structure):
    command_id: INT = 0
    response_required: BOOL = False


@dataclass(slots=True)
class BrokerInfo(Command):
    CODE: ClassVar[int] = 2
    NAME: ClassVar[str] = "BrokerInfo"
    SINCE: ClassVar[dict[str, int]] = {
        "duplex_connection": 2,
        "network_connection": 2,
        "connection_id": 2,
        "broker_upload_url": 3,
        "network_properties": 3,
    }

    broker_id: BrokerId | None = None
    broker_url: STRING = None
    peer_broker_infos: list[BrokerInfo] | None = None
    broker_name: STRING = None
    slave_broker: BOOL = False
    master_broker: BOOL = False
    fault_tolerant_configuration: BOOL = False
    duplex_connection: BOOL = False
    network_connection: BOOL = False
    connection_id: LONG = 0
    broker_upload_url: STRING = None
    network_properties: STRING = None


@dataclass(slots=True)
class ConnectionInfo(Command):
    CODE: ClassVar[int] = 3
    NAME: ClassVar[str] = "ConnectionInfo"
    SINCE: ClassVar[dict[str, int]] = {"client_master": 2, "fault_tolerant": 6, "failover_reconnect": 6, "client_ip": 8}

    connection_id: ConnectionId | None = None
    client_id: STRING = None
    password: STRING = None
    user_name: STRING = None
    broker_path: list[BrokerId] | None = None
    broker_master_connector: BOOL = False
    manageable: BOOL = False
    client_master: BOOL = False
    fault_tolerant: BOOL = False
    failover_reconnect: BOOL = False
    client_ip: STRING = None


@dataclass(slots=True)
class SessionInfo(Command):
    CODE: ClassVar[int] = 4
    NAME: ClassVar[str] = "SessionInfo"

    session_id: SessionId | None = None


@dataclass(slots=True)
class ConsumerInfo(Command):
    CODE: ClassVar[int] = 5
    NAME: ClassVar[str] = "ConsumerInfo"
    SINCE: ClassVar[dict[str, int]] = {"client_id": 10, "network_consumer_path": 4}

    consumer_id: ConsumerId | None = None
    browser: BOOL = False
    destination: Destination | None = None
    prefetch_size: INT = 0
    maximum_pending_message_limit: INT = 0
    dispatch_async: BOOL = False
    selector: STRING = None
    client_id: STRING = None
    subscription_name: STRING = None
    no_local: BOOL = False
    exclusive: BOOL = False
    retroactive: BOOL = False
    priority: BYTE = 0
    broker_path: list[BrokerId] | None = None
    additional_predicate: Anything | None = None
    network_subscription: BOOL = False
    optimized_acknowledge: BOOL = False
    no_range_acks: BOOL = False
    network_consumer_path: list[ConsumerId] | None = None


@dataclass(slots=True)
class ProducerInfo(Command):
    CODE: ClassVar[int] = 6
    NAME: ClassVar[str] = "ProducerInfo"
    SINCE: ClassVar[dict[str, int]] = {"dispatch_async": 2, "window_size": 3}

    producer_id: ProducerId | None = None
    destination: Destination | None = None
    broker_path: list[BrokerId] | None = None
    dispatch_async: BOOL = False
    window_size: INT = 0


@dataclass(slots=True)
class TransactionInfo(Command):
    CODE: ClassVar[int] = 7
    NAME: ClassVar[str] = "TransactionInfo"

    connection_id: ConnectionId | None = None
    transaction_id: TransactionId | None = None
    type: BYTE = 0


@dataclass(slots=True)
class DestinationInfo(Command):
    """operation_type: 0 adds, 1 removes."""

    CODE: ClassVar[int] = 8
    NAME: ClassVar[str] = "DestinationInfo"

    connection_id: ConnectionId | None = None
    destination: Destination | None = None
    operation_type: BYTE = 0
    timeout: LONG = 0
    broker_path: list[BrokerId] | None = None


@dataclass(slots=True)
class RemoveSubscriptionInfo(Command):
    CODE: ClassVar[int] = 9
    NAME: ClassVar[str] = "RemoveSubscriptionInfo"

    connection_id: ConnectionId | None = None
    subscription_name: STRING = None
    client_id: STRING = None


@dataclass(slots=True)
class KeepAliveInfo(Command):
    CODE: ClassVar[int] = 10
    NAME: ClassVar[str] = "KeepAliveInfo"


@dataclass(slots=True)
class ShutdownInfo(Command):
    CODE: ClassVar[int] = 11
    NAME: ClassVar[str] = "ShutdownInfo"


@dataclass(slots=True)
class RemoveInfo(Command):
    CODE: ClassVar[int] = 12
    NAME: ClassVar[str] = "RemoveInfo"
    SINCE: ClassVar[dict[str, int]] = {"last_delivered_sequence_id": 5}

    object_id: Anything | None = None
    last_delivered_sequence_id: LONG = 0


@dataclass(slots=True)
class ControlCommand(Command):
    CODE: ClassVar[int] = 14
    NAME: ClassVar[str] = "ControlCommand"

    command: STRING = None


@dataclass(slots=True)
class FlushCommand(Command):
    CODE: ClassVar[int] = 15
    NAME: ClassVar[str] = "FlushCommand"


@dataclass(slots=True)
class ConnectionError(Command):
    CODE: ClassVar[int] = 16
    NAME: ClassVar[str] = "ConnectionError"

    exception: Throwable | None = None
    connection_id: ConnectionId | None = None


@dataclass(slots=True)
class ConsumerControl(Command):
    CODE: ClassVar[int] = 17
    NAME: ClassVar[str] = "ConsumerControl"
    SINCE: ClassVar[dict[str, int]] = {"destination": 6, "flush": 2, "start": 2, "stop": 2}

    destination: Destination | None = None
    close: BOOL = False
    consumer_id: ConsumerId | None = None
    prefetch: INT = 0
    flush: BOOL = False
    start: BOOL = False
    stop: BOOL = False


@dataclass(slots=True)
class ConnectionControl(Command):
    CODE: ClassVar[int] = 18
    NAME: ClassVar[str] = "ConnectionControl"
    SINCE: ClassVar[dict[str, int]] = {
        "connected_brokers": 6,
        "reconnect_to": 6,
        "rebalance_connection": 6,
        "token": 8,
    }

    close: BOOL = False
    exit: BOOL = False
    fault_tolerant: BOOL = False
    resume: BOOL = False
    suspend: BOOL = False
    connected_brokers: STRING = None
    reconnect_to: STRING = None
    rebalance_connection: BOOL = False
    token: BYTES = None


@dataclass(slots=True)
class ProducerAck(Command):
    CODE: ClassVar[int] = 19
    NAME: ClassVar[str] = "ProducerAck"
    SINCE: ClassVar[dict[str, int]] = {"producer_id": 3, "size": 3}

    producer_id: ProducerId | None = None
    size: INT = 0


@dataclass(slots=True)
class MessagePull(Command):
    CODE: ClassVar[int] = 20
    NAME: ClassVar[str] = "MessagePull"
    SINCE: ClassVar[dict[str, int]] = {"correlation_id": 3, "message_id": 3}

    consumer_id: ConsumerId | None = None
    destination: Destination | None = None
    timeout: LONG = 0
    correlation_id: STRING = None
    message_id: MessageId | None = None


@dataclass(slots=True)
class MessageDispatch(Command):
    CODE: ClassVar[int] = 21
    NAME: ClassVar[str] = "MessageDispatch"

    consumer_id: ConsumerId | None = None
    destination: Destination | None = None
    message: Anything | None = None
    redelivery_counter: INT = 0


@dataclass(slots=True)
class MessageAck(Command):
    CODE: ClassVar[int] = 22
    NAME: ClassVar[str] = "MessageAck"
    SINCE: ClassVar[dict[str, int]] = {"poison_cause": 7}

    destination: Destination | None = None
    transaction_id: TransactionId | None = None
    consumer_id: ConsumerId | None = None
    ack_type: BYTE = 0
    first_message_id: MessageId | None = None
    last_message_id: MessageId | None = None
    message_count: INT = 0
    poison_cause: Throwable | None = None


@dataclass(slots=True)
class Response(Command):
    CODE: ClassVar[int] = 30
    NAME: ClassVar[str] = "Response"

    correlation_id: INT = 0


@dataclass(slots=True)
class ExceptionResponse(Response):
    CODE: ClassVar[int] = 31
    NAME: ClassVar[str] = "ExceptionResponse"

    exception: Throwable | None = None


@dataclass(slots=True)
class DataResponse(Response):
    CODE: ClassVar[int] = 32
    NAME: ClassVar[str] = "DataResponse"

    data: Anything | None = None


@dataclass(slots=True)
class DataArrayResponse(Response):
    CODE: ClassVar[int] = 33
    NAME: ClassVar[str] = "DataArrayResponse"

    data: list[Anything] | None = None


@dataclass(slots=True)
class IntegerResponse(Response):
    CODE: ClassVar[int] = 34
    NAME: ClassVar[str] = "IntegerResponse"

    result: INT = 0
