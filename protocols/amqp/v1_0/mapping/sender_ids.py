"""The message-id of an AMQP sender, found by its value as a text or by the form in which JMS clients show it."""

from __future__ import annotations

import uuid

from engine.values.sender_ids import SenderIds
from protocols.amqp.v1_0.mapping.contents import read_headers
from protocols.amqp.v1_0.mapping.jms_ids import id_text, id_value
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.values import ULong


class AmqpSenderIds(SenderIds):
    def octets(self, sender_id: str) -> list[bytes]:
        value = id_value(sender_id)
        found = [sender_id.encode("utf-8", "replace")]
        if isinstance(value, ULong):
            small = [b"\x53" + bytes((value,))] if value < 256 else []
            found += [b"\x80" + value.to_bytes(8, "big"), *small, *([] if value else [b"\x44"])]
        elif isinstance(value, uuid.UUID):
            found.append(value.bytes)
        elif isinstance(value, bytes):
            found.append(value)
        elif isinstance(value, str):
            found.append(value.encode("utf-8", "replace"))
        return [octets for octets in dict.fromkeys(found) if octets]

    def has(self, headers: bytes, sender_id: str) -> bool:
        value = read_headers(headers).field(at.MESSAGE_ID)
        return value == sender_id or sender_id in (id_text(value), id_text(value, True))
