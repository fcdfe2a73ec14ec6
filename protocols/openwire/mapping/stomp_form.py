"""OpenWire -> the form in which messages cross protocols."""

from __future__ import annotations

from typing import Final

from engine.values.message import OPENWIRE, Message
from protocols.converter import Converter, stomp_copy
from protocols.errors import FrameError
from protocols.map_message import Map, MapError
from protocols.openwire.mapping.contents import content_of
from protocols.openwire.mapping.stomp_content import OCTETS_A_STEP, counted_content, raw_content
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire import messages
from protocols.openwire.wire.property_map import read_map

MESSAGE_STEPS: Final = 20  # of a turn, for a message apart from its header lines and its body


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

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        assert message.encoding == OPENWIRE, f"encoding {message.encoding} is not OpenWire"
        content, more = counted_content(message.headers, message.body)
        form = stomp_copy(message, *content)
        items = form.body.count(b",") if form.body[:1] in (b"{", b"[") else 0
        steps = MESSAGE_STEPS + form.headers.count(b"\n") + items + len(form.body) // OCTETS_A_STEP
        return form, steps + more

    def raw_form(self, message: Message) -> Message:
        return stomp_copy(message, *raw_content(message.headers, message.body))
