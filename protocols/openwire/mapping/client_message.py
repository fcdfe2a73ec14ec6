"""The messages of one client: what the session needs of each, and the form in which the log keeps it.

Successive messages of a producer have the same fields from producerId to messageId but for the sequence.  These octets
are decoded once and then compared.  The fields behind them are read one by one here as long as a message is plain, as
those of activemq-client are; any other message is decoded whole.
"""

from __future__ import annotations

from typing import Final

from protocols.openwire.mapping.known_fields import FIELDS_START, KnownFields
from protocols.openwire.mapping.stored_form import HEAD, SAME_FORM_SINCE, Stored, stored
from protocols.openwire.wire.identities import Destination, ProducerId, TransactionId
from protocols.openwire.wire.messages import BLOB
from protocols.openwire.wire.modified_utf8 import decode_text

# Steps of a turn.  A step is some 25 lines of Python.
WHOLE_STEPS: Final = 20
OLD_FORM_STEPS: Final = 55  # for one that is decoded, written anew and decoded
PLAIN_STEPS: Final = 6
SEQUENCE_BYTES: Final = 8
# Behind the properties: no dataStructure, no targetConsumerId, compressed, redeliveryCounter, no brokerPath, arrival,
# no userID, recievedByDFBridge, droppable, no cluster, brokerInTime, brokerOutTime, JMSXGroupFirstForConsumer.
PLAIN_END: Final = bytes(37)
COMPRESSED_END: Final = b"\0\0\1" + bytes(34)


class MessageNames:
    """The fields from producerId to messageId.

    start, end: places of the destination in a command.  sequence_at: that of messageId's sequence.
    """

    __slots__ = (
        "producer_id",
        "destination",
        "transaction_id",
        "start",
        "end",
        "sequence_at",
    )

    def __init__(
        self,
        producer_id: ProducerId | None,
        destination: Destination,
        transaction_id: TransactionId | None,
        start: int,
        end: int,
        sequence_at: int,
    ) -> None:
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        self.start = start
        self.end = end
        self.sequence_at = sequence_at


class ClientMessage:
    """names: shared by messages.  headers, body: of the engine's Message.  properties: as on the wire."""

    __slots__ = (
        "command_id",
        "response_required",
        "names",
        "sequence",
        "group_id",
        "has_correlation_id",
        "persistent",
        "expiration",
        "priority",
        "type",
        "properties",
        "headers",
        "body",
    )

    def __init__(
        self,
        command_id: int,
        response_required: bool,
        names: MessageNames,
        sequence: int,
        group_id: str | None,
        has_correlation_id: bool,
        persistent: bool,
        expiration: int,
        priority: int,
        jms_type: str | None,
        properties: bytes | None,
        headers: bytes,
        body: bytes,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.names = names
        self.sequence = sequence
        self.group_id = group_id
        self.has_correlation_id = has_correlation_id
        self.persistent = persistent
        self.expiration = expiration
        self.priority = priority
        self.type = jms_type
        self.properties = properties
        self.headers = headers
        self.body = body


class MessageReader:
    """Reads the messages of one connection.  steps: of a turn, for the last one."""

    __slots__ = ("steps", "_known")

    def __init__(self) -> None:
        self.steps = WHOLE_STEPS
        self._known: KnownFields[MessageNames] = KnownFields()

    def read(self, command: bytes, version: int) -> ClientMessage:
        """version: agreed with the client.  Raises: FrameError."""
        is_same_form = version >= SAME_FORM_SINCE
        if is_same_form and command[0] != BLOB:
            known = self._known.find(command)
            if known is not None:
                try:
                    found = _plain(command, known)
                except (IndexError, UnicodeDecodeError):
                    found = None
                if found is not None:
                    self.steps = PLAIN_STEPS
                    return found
        self.steps = WHOLE_STEPS if is_same_form else OLD_FORM_STEPS
        form = stored(command, version)
        names = _names_of(form)
        if is_same_form:
            end = names.sequence_at
            key = command[FIELDS_START:end]
            if form.headers[HEAD.size + FIELDS_START : HEAD.size + end] == key:  # not written anew in another way
                self._known.keep(key, names)
        return whole(form, names)


def whole(form: Stored, names: MessageNames | None = None) -> ClientMessage:
    """Return a message that is decoded."""
    message = form.message
    assert message.message_id is not None, "a stored message has an id"
    return ClientMessage(
        message.command_id,
        message.response_required,
        names or _names_of(form),
        message.message_id.sequence,
        message.group_id,
        message.correlation_id is not None,
        message.persistent,
        message.expiration,
        message.priority,
        message.type,
        message.marshalled_properties,
        form.headers,
        form.body,
    )


def _names_of(form: Stored) -> MessageNames:
    message = form.message
    assert message.message_id is not None and message.destination is not None, "a stored message has both"
    broker_sequence_at, start, end, _, _ = HEAD.unpack_from(form.headers)
    return MessageNames(
        message.producer_id,
        message.destination,
        message.transaction_id,
        start,
        end,
        broker_sequence_at - SEQUENCE_BYTES,
    )


def _plain(command: bytes, names: MessageNames) -> ClientMessage | None:
    """Read the fields from messageId's sequence on; None if the message is not plain.

    Raises: IndexError, UnicodeDecodeError for one that is broken.
    """
    end = names.sequence_at
    at = end + 2 * SEQUENCE_BYTES
    if command[at]:  # originalTransactionId
        return None
    group_end = _string_end(command, at + 1)
    at = group_end + 4  # groupSequence
    correlation_end = _string_end(command, at)
    has_correlation_id = command[at] != 0
    if has_correlation_id:
        decode_text(command[at + 3 : correlation_end])
    at = correlation_end
    persistent = command[at] != 0
    expiration = int.from_bytes(command[at + 1 : at + 9], "big", signed=True)
    priority = command[at + 9]
    if command[at + 10]:  # replyTo
        return None
    type_at = at + 19  # behind timestamp
    split = _string_end(command, type_at)
    properties_at = _octets_end(command, split)
    end_at = _octets_end(command, properties_at)
    rest = command[end_at:]
    if rest != PLAIN_END and rest != COMPRESSED_END:
        return None
    has_content = command[split] != 0
    head = HEAD.pack(end + SEQUENCE_BYTES, names.start, names.end, split, has_content)
    return ClientMessage(
        int.from_bytes(command[1:5], "big", signed=True),
        command[5] != 0,
        names,
        int.from_bytes(command[end : end + SEQUENCE_BYTES], "big", signed=True),
        _text(command, end + 2 * SEQUENCE_BYTES + 1, group_end),
        has_correlation_id,
        persistent,
        expiration,
        priority if priority < 128 else priority - 256,
        _text(command, type_at, split),
        command[properties_at + 5 : end_at] if command[properties_at] else None,
        head + command[:split] + command[properties_at:],
        command[split + 5 : properties_at] if has_content else b"",
    )


def _string_end(command: bytes, at: int) -> int:
    """Return the end of a string that begins here.  Raises: IndexError."""
    return at + 3 + (command[at + 1] << 8 | command[at + 2]) if command[at] else at + 1


def _octets_end(command: bytes, at: int) -> int:
    """Return the end of a field of octets that begins here.  Raises: IndexError for a size below 0, too."""
    if not command[at]:
        return at + 1
    if command[at + 1] > 127:
        raise IndexError
    return at + 5 + int.from_bytes(command[at + 1 : at + 5], "big")


def _text(command: bytes, at: int, end: int) -> str | None:
    """Raises: UnicodeDecodeError."""
    return decode_text(command[at + 3 : end]) if command[at] else None
