"""AMQP 1.0 -> STOMP: a message with the content of ``stomp_content``."""

from __future__ import annotations

from typing import Final

from engine.values.message import AMQP_1_0, TEXT, Message
from protocols.amqp.v1_0.mapping.contents import read_contents
from protocols.amqp.v1_0.mapping.jms_types import MAP_MESSAGE, OBJECT_MESSAGE
from protocols.amqp.v1_0.mapping.map_body import typed_map
from protocols.amqp.v1_0.mapping.stomp_content import raw_content, stomp_content
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.broker_headers import JMS_TYPE
from protocols.converter import Converter, stomp_copy
from protocols.map_message import Map, MapError

MESSAGE_STEPS: Final = 13  # of a turn, for a message apart from its header lines and the items of its body
_VALUE: Final = bytes((0, 0x53, at.VALUE))
_SEQUENCE: Final = bytes((0, 0x53, at.SEQUENCE))
_COMPOUND: Final = (b"\xc0", b"\xc1", b"\xd0", b"\xd1", b"\xe0", b"\xf0")  # lists, maps, arrays


class StompForm(Converter):
    def map_of(self, message: Message) -> Map | None:
        assert message.encoding == AMQP_1_0, f"encoding {message.encoding} is not AMQP 1.0"
        try:
            contents = read_contents(message.headers, message.body)
        except DecodeError:
            return None
        kind = contents.annotation(JMS_TYPE)
        if kind == OBJECT_MESSAGE:
            raise MapError("an ObjectMessage needs Java; allowed are MapMessages")
        value = contents.sections[0] if contents.body_kind == at.VALUE else None
        if not isinstance(value, dict) or kind not in (None, MAP_MESSAGE):
            return None
        return typed_map(value)

    def stomp_form(self, message: Message) -> Message:
        assert message.encoding == AMQP_1_0, f"encoding {message.encoding} is not AMQP 1.0"
        return stomp_copy(message, *stomp_content(message.headers, message.body))

    def steps(self, message: Message, form: Message) -> int:
        items = form.headers.count(b"\n")
        start = message.body[:4]
        if start[:3] == _SEQUENCE or (start[:3] == _VALUE and start[3:] in _COMPOUND):
            items += form.body.count(b",") if form.flags & TEXT else len(form.body) // 2
        return MESSAGE_STEPS + items

    def raw_form(self, message: Message) -> Message:
        return stomp_copy(message, *raw_content(message.headers, message.body))
