"""The acknowledgements of one client: what the session needs of each.

Those of one consumer differ in their type and in the numbers of their messages only.  The fields before these are read
once and then compared.
"""

from __future__ import annotations

from typing import Final

from protocols.openwire.mapping.known_fields import FIELDS_START, KnownFields
from protocols.openwire.mapping.stored_form import SAME_FORM_SINCE
from protocols.openwire.wire.commands import MessageAck
from protocols.openwire.wire.identities import ConsumerId, MessageId, Throwable, TransactionId
from protocols.openwire.wire.layouts import MESSAGE_ID, PRODUCER_ID
from protocols.openwire.wire.reader import decode
from protocols.openwire.wire.writer import encode_nested

# Steps of a turn.  A step is some 25 lines of Python.
WHOLE_STEPS: Final = 10
PLAIN_STEPS: Final = 4
PLAIN_ID: Final = bytes((1, MESSAGE_ID, 0, 1, PRODUCER_ID, 1))  # of a messageId without a textView
NO_CAUSE: Final = 5  # octets of messageCount and of an absent poisonCause


class AckNames:
    """The fields before the type, which begins at ``end``.  transaction_id: None outside of transactions."""

    __slots__ = ("end", "transaction_id", "consumer_id")

    def __init__(self, end: int, transaction_id: TransactionId | None, consumer_id: ConsumerId | None) -> None:
        self.end = end
        self.transaction_id = transaction_id
        self.consumer_id = consumer_id


class ClientAck:
    """first, last: brokerSequenceId of the messages, None without one.  count: how many messages the client means.

    cause: of a poison acknowledgement.
    """

    __slots__ = ("command_id", "response_required", "names", "ack_type", "first", "last", "count", "cause")

    def __init__(
        self,
        command_id: int,
        response_required: bool,
        names: AckNames,
        ack_type: int,
        first: int | None,
        last: int | None,
        count: int,
        cause: Throwable | None,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.names = names
        self.ack_type = ack_type
        self.first = first
        self.last = last
        self.count = count
        self.cause = cause


class AckReader:
    """Reads the acknowledgements of one connection.  steps: of a turn, for the last one."""

    __slots__ = ("steps", "_known")

    def __init__(self) -> None:
        self.steps = WHOLE_STEPS
        self._known: KnownFields[AckNames] = KnownFields()

    def read(self, command: bytes, version: int) -> ClientAck:
        """version: agreed with the client.  Raises: FrameError."""
        known = self._known.find(command) if version >= SAME_FORM_SINCE else None
        if known is not None:
            found = _plain(command, known)
            if found is not None:
                self.steps = PLAIN_STEPS
                return found
        self.steps = WHOLE_STEPS
        ack = _whole(command, version)
        fields = (ack.destination, ack.transaction_id, ack.consumer_id)
        key = b"".join([encode_nested(one, version) for one in fields])
        names = AckNames(FIELDS_START + len(key), ack.transaction_id, ack.consumer_id)
        if command[FIELDS_START : names.end] == key:  # the client writes them in no other way
            self._known.keep(key, names)
        first, last = ack.first_message_id, ack.last_message_id
        return ClientAck(
            ack.command_id,
            ack.response_required,
            names,
            ack.ack_type,
            None if first is None else first.broker_sequence,
            None if last is None else last.broker_sequence,
            ack.message_count,
            ack.poison_cause,
        )


def first_id(command: bytes, version: int) -> MessageId | None:
    """Return the messageId of the first message that an acknowledgement names."""
    return _whole(command, version).first_message_id


def last_id(command: bytes, version: int) -> MessageId | None:
    """Return the messageId of the last one."""
    return _whole(command, version).last_message_id


def _whole(command: bytes, version: int) -> MessageAck:
    ack = decode(command, version)
    assert isinstance(ack, MessageAck), "the type octet says so"
    return ack


def _plain(command: bytes, names: AckNames) -> ClientAck | None:
    """Read the fields from the type on; None if they are not plain."""
    end = names.end
    at = end + 1
    size = len(command)
    first_end = _id_end(command, at, size)
    last_end = _id_end(command, first_end, size)
    if first_end < 0 or last_end + NO_CAUSE != size or command[size - 1]:
        return None
    ack_type = command[end]
    return ClientAck(
        int.from_bytes(command[1:5], "big", signed=True),
        command[5] != 0,
        names,
        ack_type if ack_type < 128 else ack_type - 256,
        int.from_bytes(command[first_end - 8 : first_end], "big", signed=True) if first_end > at + 1 else None,
        int.from_bytes(command[last_end - 8 : last_end], "big", signed=True) if last_end > first_end + 1 else None,
        int.from_bytes(command[last_end : size - 1], "big", signed=True),
        None,
    )


def _id_end(command: bytes, at: int, size: int) -> int:
    """Return the end of an absent or plain messageId, -1 for any other one."""
    if not 0 <= at < size - NO_CAUSE:
        return -1
    if not command[at]:
        return at + 1
    text_at = at + len(PLAIN_ID)
    if command[at:text_at] != PLAIN_ID or text_at + 2 > size:
        return -1
    text_end = text_at + 2 + (command[text_at] << 8 | command[text_at + 1])
    if not command[text_at + 2 : text_end].isascii():
        return -1
    return text_end + 32  # behind value and session of the producer, sequence and brokerSequenceId
