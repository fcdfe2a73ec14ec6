"""The id that a sender gave its message: a header, the same with which messages of other protocols come to STOMP."""

from __future__ import annotations

from engine.values.message import annotation
from engine.values.sender_ids import SenderIds
from protocols.message_lines import MESSAGE_ID_HEADER, read_lines


class StompSenderIds(SenderIds):
    def octets(self, sender_id: str) -> list[bytes]:
        return [annotation(MESSAGE_ID_HEADER, sender_id).removesuffix(b"\n")]

    def has(self, headers: bytes, sender_id: str) -> bool:
        return read_lines(headers).get(MESSAGE_ID_HEADER) == sender_id
