"""AMQP 1.0 -> STOMP: a message with the content of ``stomp_content``."""

from __future__ import annotations

from typing import Final

from engine.values.message import AMQP_1_0, Message
from protocols.amqp.v1_0.mapping.contents import read_contents
from protocols.amqp.v1_0.mapping.jms_types import MAP_MESSAGE, OBJECT_MESSAGE
from protocols.amqp.v1_0.mapping.map_body import typed_map
from protocols.amqp.v1_0.mapping.stomp_content import counted_content, raw_content
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.broker_headers import JMS_TYPE
from protocols.converter import Converter, stomp_copy
from protocols.map_message import Map, MapError

MESSAGE_STEPS: Final = 13  # of a turn, for a message apart from its header lines and the items of its body


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

    def stomp_form(self, message: Message) -> tuple[Message, int]:
        assert message.encoding == AMQP_1_0, f"encoding {message.encoding} is not AMQP 1.0"
        content, items = counted_content(message.headers, message.body)
        form = stomp_copy(message, *content)
        return form, MESSAGE_STEPS + form.headers.count(b"\n") + items

    def raw_form(self, message: Message) -> Message:
        return stomp_copy(message, *raw_content(message.headers, message.body))
