"""The JMSMessageID that a client of ActiveMQ gave its message: ``ID:<connection>:<session>:<producer>:<sequence>``."""

from __future__ import annotations

import re
from typing import Final

from engine.values.sender_ids import SenderIds
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire.identities import ProducerId
from protocols.openwire.wire.layouts import I64
from protocols.openwire.wire.modified_utf8 import encode_text
from protocols.openwire.wire.writer import encode_structure

_NUMBERED: Final = re.compile(r"(.+):(-?\d{1,18}):(-?\d{1,18}):(-?\d{1,18})")


class OpenWireSenderIds(SenderIds):
    def octets(self, sender_id: str) -> list[bytes]:
        found = [encode_text(sender_id.removeprefix("ID:"))]  # one that the client has from elsewhere
        parts = _NUMBERED.fullmatch(sender_id)
        if parts is not None:
            session, producer, sequence = map(int, parts.groups()[1:])
            found.append(encode_structure(ProducerId(parts[1], producer, session)) + I64.pack(sequence))
        return [octets for octets in found if octets]

    def has(self, headers: bytes, sender_id: str) -> bool:
        return str(read_stored(headers).message_id) == sender_id
