"""Identities and destinations: values that commands name.

An id contains the id of its connection as a text, so it tells whom it belongs to.
"""

from __future__ import annotations

from typing import Final, NamedTuple

QUEUE: Final = 100
TOPIC: Final = 101
TEMP_QUEUE: Final = 102
TEMP_TOPIC: Final = 103
EXCEPTION_MESSAGE_MAX: Final = 1_024  # characters; Java cuts longer ones
_PREFIXES: Final = {QUEUE: "queue://", TOPIC: "topic://", TEMP_QUEUE: "temp-queue://", TEMP_TOPIC: "temp-topic://"}


class ConnectionId(NamedTuple):
    value: str


class BrokerId(NamedTuple):
    value: str


class SessionId(NamedTuple):
    connection_id: str
    value: int


class ConsumerId(NamedTuple):
    connection_id: str
    session_id: int
    value: int

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class ProducerId(NamedTuple):
    connection_id: str
    value: int
    session_id: int

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class MessageId(NamedTuple):
    """text_view: a foreign id, None for none.  sequence: of the producer.  broker_sequence: set by the broker."""

    text_view: str | None
    producer_id: ProducerId
    sequence: int
    broker_sequence: int

    def __str__(self) -> str:
        """Return JMSMessageID."""
        if self.text_view is not None:
            return self.text_view if self.text_view.startswith("ID:") else f"ID:{self.text_view}"
        return f"{self.producer_id}:{self.sequence}"


class LocalTransactionId(NamedTuple):
    value: int
    connection_id: ConnectionId


class XaTransactionId(NamedTuple):
    format_id: int
    global_id: bytes
    branch: bytes


class Destination(NamedTuple):
    """kind: one of the four types above."""

    kind: int
    name: str

    def __str__(self) -> str:
        return f"{_PREFIXES[self.kind]}{self.name}"


TransactionId = LocalTransactionId | XaTransactionId


class Throwable(NamedTuple):
    """An exception: its Java class and its message.  Clients load the class by its name; we only copy names."""

    class_name: str
    message: str
