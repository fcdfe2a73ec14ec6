"""What clients know a message by: its producer and the producer's sequence, whatever the text of the messageId is."""

from __future__ import annotations

from typing import Final

from engine.values.message import NOT_LOGGED, OPENWIRE, Message
from protocols.openwire.mapping.stored_form import HEAD, SEQUENCE_BYTES
from protocols.openwire.wire.identities import MessageId, ProducerId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.writer import encode_nested

SEQUENCE_BITS: Final = 31  # old clients take larger sequences for duplicates


class Identity:
    """Of the message that a client names."""

    __slots__ = ("producer_id", "sequence", "_octets")

    def __init__(self, message_id: MessageId) -> None:
        self.producer_id = message_id.producer_id
        self.sequence = message_id.sequence
        number = message_id.sequence.to_bytes(SEQUENCE_BYTES, "big", signed=True)
        self._octets = encode_nested(message_id.producer_id, VERSION) + number

    def is_of(self, message: Message, store_id: str) -> bool:
        """Say whether the client names this message, whatever protocol its sender spoke."""
        if message.encoding != OPENWIRE:
            return (self.producer_id, self.sequence) == invented_identity(message, store_id)
        headers = message.headers
        (sequence_at, *_) = HEAD.unpack_from(headers)
        return headers.endswith(self._octets, HEAD.size, HEAD.size + sequence_at)


def invented_identity(message: Message, store_id: str) -> tuple[ProducerId, int]:
    """Return producer and sequence for a message of another protocol.

    They are the same at every delivery and unique for this store.  Sequences rise.
    """
    place = message.log_offset
    connection = f"ID:{store_id}"
    if place == NOT_LOGGED:
        place = message.serial
        connection = f"ID:{store_id}-m"
    return ProducerId(connection, 0, place >> SEQUENCE_BITS), 1 + (place & ((1 << SEQUENCE_BITS) - 1))
