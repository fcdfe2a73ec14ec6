"""The keys that a message can be found by in the store: its correlation-id, and the application-property ``keys``."""

from __future__ import annotations

from engine.values.message_keys import KeyReader
from protocols.amqp.v1_0.mapping.contents import read_headers
from protocols.amqp.v1_0.mapping.jms_ids import id_text
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages import sections as at

NAME = "keys"


class AmqpKeys(KeyReader):
    def keys(self, headers: bytes) -> tuple[str, str]:
        try:
            contents = read_headers(headers)
        except DecodeError:
            return "", ""  # malformed sections: it has no keys
        words = contents.application_properties.get(NAME)
        return id_text(contents.field(at.CORRELATION_ID)) or "", str(words) if isinstance(words, str) else ""
