"""An AMQP message as a JMS selector sees it.  Source: AMQP JMS mapping, 3.3; Jakarta Messaging 3.1, 3.8.1.1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from engine.selector.properties import TRACE_PARENT, TRACE_STATE, Properties, PropertyReader, header_field, text_of
from engine.selector.properties import Value as Seen
from engine.selector.xpath.document import DOCUMENT_BYTES_MAX, Node, read_document
from engine.values.destination import QUEUE, uri
from engine.values.errors import DATA_FAULTS
from engine.values.message import Message
from protocols.amqp.v1_0.mapping.addresses import JMS_DESTINATION_KINDS
from protocols.amqp.v1_0.mapping.contents import Contents, read_contents, read_headers
from protocols.amqp.v1_0.mapping.jms_ids import id_text
from protocols.amqp.v1_0.mapping.jms_types import group_sequence_of
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.values import Value
from protocols.broker_headers import JMS_REPLY_TO

QPID_CONTEXT: Final = "x-opt-qpid-tracestate"
FRAME_OF_SECTIONS: Final = 1024  # octets of descriptors and sizes around a body, at most, that is examined
_TEXT_FIELDS: Final = {"JMSType": at.SUBJECT, "JMSXGroupID": at.GROUP_ID}


class AmqpPropertyReader(PropertyReader):
    __slots__ = ()

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        return AmqpProperties(message, delivery_count, is_redelivered)


@dataclass(slots=True, eq=False)
class AmqpProperties(Properties):
    """Decoded only if a selector needs a property that the engine itself does not know."""

    _message: Message
    _delivery_count: int
    _is_redelivered: bool
    _contents: Contents | None = None
    _document: list[Node | None] = field(default_factory=list)

    converts_strings: ClassVar[bool] = False

    def document(self) -> Node | None:
        if not self._document:
            self._document.append(read_document(self._body()))
        return self._document[0]

    def get(self, name: str) -> Seen:
        if name[:3] == "JMS":
            return self._jms_value(name)
        return _seen(self._read().application_properties.get(name))

    def trace_context(self) -> tuple[str, str]:
        """Look into annotations first, where what is on the way between sender and gateway writes.

        Source: W3C, "Trace Context: AMQP protocol" (draft), 2.1; qpid-proton's own tracing has a map in an annotation.
        """
        try:
            annotations = self._read().annotations
        except DATA_FAULTS:
            return "", ""
        for carrier in (annotations, annotations.get(QPID_CONTEXT)):
            if isinstance(carrier, dict) and (parent := text_of(carrier.get(TRACE_PARENT))):
                return parent, text_of(carrier.get(TRACE_STATE))
        return Properties.trace_context(self)

    def _jms_value(self, name: str) -> Seen:
        message = self._message
        match name:
            case "JMSMessageID":
                return id_text(self._read().field(at.MESSAGE_ID), is_message_id=True)
            case "JMSCorrelationID":
                return id_text(self._read().field(at.CORRELATION_ID))
            case "JMSTimestamp":
                created = self._read().field(at.CREATION_TIME)
                return int(created) if isinstance(created, int) else message.store_time_ms
            case "JMSReplyTo":
                return _qualified(self._read().field(at.REPLY_TO), self._read().annotation(JMS_REPLY_TO))
            case "JMSXGroupSeq":
                return group_sequence_of(self._read().field(at.GROUP_SEQUENCE))
            case "JMSXUserID":
                user = self._read().field(at.USER_ID)
                return user.decode("utf-8", "replace") if isinstance(user, bytes) else None
        known = header_field(message, name, self._delivery_count, self._is_redelivered)
        if known is not None:
            return known
        place = _TEXT_FIELDS.get(name)
        if place is None:
            return _seen(self._read().application_properties.get(name))
        value = self._read().field(place)
        return str(value) if isinstance(value, str) else None

    def _body(self) -> bytes:
        """Return a body of text or octets, b"" for any other."""
        if len(self._message.body) > DOCUMENT_BYTES_MAX + FRAME_OF_SECTIONS:
            return b""
        try:
            contents = read_contents(self._message.headers, self._message.body)
        except DecodeError:
            return b""
        if contents.body_kind == at.DATA and all(isinstance(one, bytes) for one in contents.sections):
            return b"".join(contents.sections)
        value = contents.sections[0] if contents.body_kind == at.VALUE else None
        if isinstance(value, str):
            return value.encode()
        return value if isinstance(value, bytes) else b""

    def _read(self) -> Contents:
        contents = self._contents
        if contents is None:
            try:
                contents = read_headers(self._message.headers)
            except DecodeError:
                contents = Contents()  # malformed sections: it has no properties
            self._contents = contents
        return contents


def _qualified(address: Value, kind: Value) -> str | None:
    """Return an address as ActiveMQ writes a destination, for example ``queue://answers``."""
    if not isinstance(address, str):
        return None
    if "://" in address or address.startswith("/"):
        return str(address)
    return uri(JMS_DESTINATION_KINDS.get(kind, QUEUE) if isinstance(kind, int) else QUEUE, address)


def _seen(value: Value) -> Seen:
    """Return a property in the exact type for selectors; None for a type that selectors do not have."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    return None
