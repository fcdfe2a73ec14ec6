"""An OpenWire message as a JMS selector sees it.  Source: Jakarta Messaging 3.1, 3.8.1.1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from engine.selector.properties import Properties, PropertyReader, Value, header_field
from engine.selector.xpath.document import DOCUMENT_BYTES_MAX, Node, read_document
from engine.values.message import Message
from engine.values.message_keys import KeyReader
from protocols.errors import FrameError
from protocols.map_message import Map, Typed
from protocols.openwire.mapping.contents import SIZE, content_of, text_of
from protocols.openwire.mapping.openwire_form import read_properties
from protocols.openwire.mapping.stored_form import read_stored
from protocols.openwire.wire import messages
from protocols.openwire.wire.messages import WireMessage

KEYS = "keys"
TEXT_BYTES_MAX: Final = DOCUMENT_BYTES_MAX + SIZE  # of a content that may be a document


class OpenWirePropertyReader(PropertyReader):
    __slots__ = ()

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        return OpenWireProperties(message, delivery_count, is_redelivered)


class OpenWireKeys(KeyReader):
    """The keys that a message can be found by in the store: its correlation id, and the property ``keys``."""

    def keys(self, headers: bytes) -> tuple[str, str]:
        try:
            found = read_stored(headers)
            words = read_properties(found.marshalled_properties).get(KEYS)
        except FrameError:
            return "", ""
        is_text = words is not None and isinstance(words.value, str)
        return found.correlation_id or "", words.value if words is not None and is_text else ""


@dataclass(slots=True, eq=False)
class OpenWireProperties(Properties):
    """Decoded only if a selector needs a property that the engine itself does not know."""

    _message: Message
    _delivery_count: int
    _is_redelivered: bool
    _found: WireMessage | None = None
    _properties: Map | None = None
    _document: list[Node | None] = field(default_factory=list)

    converts_strings: ClassVar[bool] = False

    def document(self) -> Node | None:
        if not self._document:
            self._document.append(read_document(self._body()))
        return self._document[0]

    def get(self, name: str) -> Value:
        if name[:3] == "JMS":
            return self._jms_value(name)
        return self._property(name)

    def _jms_value(self, name: str) -> Value:
        match name:
            case "JMSMessageID":
                return str(self._read().message_id)
            case "JMSCorrelationID":
                return self._read().correlation_id
            case "JMSTimestamp":
                return self._read().timestamp
            case "JMSType":
                return self._read().type
            case "JMSReplyTo":
                reply_to = self._read().reply_to
                return None if reply_to is None else str(reply_to)
            case "JMSXGroupID":
                return self._read().group_id
            case "JMSXGroupSeq":
                found = self._read()
                return None if found.group_id is None else found.group_sequence
        known = header_field(self._message, name, self._delivery_count, self._is_redelivered)
        return self._property(name) if known is None else known

    def _property(self, name: str) -> Value:
        if self._properties is None:
            self._properties = read_properties(self._read().marshalled_properties)
        typed = self._properties.get(name)
        return None if typed is None else _seen(typed)

    def _body(self) -> bytes:
        """Return a text, or octets, b"" for any other body."""
        if len(self._message.body) > DOCUMENT_BYTES_MAX:
            return b""
        found = read_stored(self._message.headers, self._message.body)
        if found.CODE == messages.TEXT:
            return (text_of(content_of(found, TEXT_BYTES_MAX)) or "").encode("utf-8", "replace")
        return content_of(found, TEXT_BYTES_MAX) or b"" if found.CODE == messages.BYTES_MESSAGE else b""

    def _read(self) -> WireMessage:
        if self._found is None:
            self._found = read_stored(self._message.headers)
        return self._found


def _seen(typed: Typed) -> Value:
    value = typed.value
    return value if isinstance(value, bool | int | float | str) else None
