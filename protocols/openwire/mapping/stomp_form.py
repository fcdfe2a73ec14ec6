"""OpenWire -> the form in which messages cross protocols."""

from __future__ import annotations

from typing import Final

from engine.values.message import OPENWIRE, PLAIN, STOMP, TEXT, Message
from protocols.converter import Converter
from protocols.map_message import Map, MapError
from protocols.openwire.errors import FrameError
from protocols.openwire.mapping.contents import content_of
from protocols.openwire.mapping.stomp_content import raw_content, stomp_content
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire import messages
from protocols.openwire.wire.property_map import read_map

MESSAGE_STEPS: Final = 20  # of a turn, for a message apart from its header lines and its body
OCTETS_A_STEP: Final = 8_192  # of a body, which may have to be inflated


class StompForm(Converter):
    def map_of(self, message: Message) -> Map | None:
        assert message.encoding == OPENWIRE, f"encoding {message.encoding} is not OpenWire"
        try:
            found = read_stored(message.headers, message.body)
            if found.CODE == messages.OBJECT:
                raise MapError("an ObjectMessage needs Java; allowed are MapMessages")
            return read_map(content_of(found) or b"\0\0\0\0") if found.CODE == messages.MAP else None
        except FrameError:
            return None

    def stomp_form(self, message: Message) -> Message:
        assert message.encoding == OPENWIRE, f"encoding {message.encoding} is not OpenWire"
        return _copy(message, *stomp_content(message.headers, message.body))

    def steps(self, message: Message, form: Message) -> int:
        items = form.body.count(b",") if form.body[:1] in (b"{", b"[") else 0
        return MESSAGE_STEPS + form.headers.count(b"\n") + items + len(form.body) // OCTETS_A_STEP

    def raw_form(self, message: Message) -> Message:
        return _copy(message, *raw_content(message.headers, message.body))


def _copy(message: Message, headers: bytes, body: bytes, text_flag: int) -> Message:
    is_plain = b"\\" not in headers and not message.annotations
    copy = Message(
        message.destination_id,
        STOMP,
        (message.flags & ~(PLAIN | TEXT)) | text_flag | (PLAIN if is_plain else 0),
        message.priority,
        message.tag_hash,
        message.group_hash,
        message.expires_ms,
        message.annotations,
        headers,
        body,
    )
    copy.store_time_ms = message.store_time_ms
    copy.log_offset = message.log_offset
    copy.queue_offset = message.queue_offset
    copy.serial = message.serial
    return copy
