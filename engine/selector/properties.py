"""A message as selectors see it: values by name, read only if a selector uses them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Final

from engine.selector.arithmetic import number_of
from engine.selector.xpath.document import Node, read_document
from engine.values.errors import DATA_FAULTS
from engine.values.message import NOT_LOGGED, PERSISTENT, STOMP, Message

Value = bool | int | float | str | None

_ESCAPED: Final = re.compile(r"\\([nrc\\])")
_UNESCAPED: Final = {"n": "\n", "r": "\r", "c": ":", "\\": "\\"}

TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"


class Properties(ABC):
    """Header fields and properties of one message, by the names of Jakarta Messaging 3.1, sections 3.4 and 3.5.

    converts_strings: whether a string is converted for a comparison with a number or a boolean, because the protocol
    has only strings.  Typed properties are never converted (section 3.8.1.1): ``size = 3`` is false for the string "3".
    """

    __slots__ = ()

    converts_strings: ClassVar[bool]

    @abstractmethod
    def get(self, name: str) -> Value:
        """Return the value, exactly of one of these types: int is any exact number, float any approximate one.

        None: the message has no such property.
        """

    def known(self, name: str) -> Value:
        """Return the same, and None for an unreadable message, too."""
        try:
            return self.get(name)
        except DATA_FAULTS:
            return None

    def trace_context(self) -> tuple[str, str]:
        """Return ``traceparent`` and ``tracestate`` (W3C trace context) as the sender gave them, "" for none."""
        return text_of(self.known(TRACE_PARENT)), text_of(self.known(TRACE_STATE))

    def document(self) -> Node | None:
        """Return the body for XPath, None if it is not XML; read only if a selector uses it."""
        return None


def text_of(value: object) -> str:
    """Return a text, "" for any other value."""
    return value if isinstance(value, str) else ""


def header_field(message: Message, name: str, delivery_count: int, is_redelivered: bool) -> Value:
    """Return a header field that the engine knows of any message, whatever its encoding; None for any other name."""
    match name:
        case "JMSDeliveryMode":
            return "PERSISTENT" if message.flags & PERSISTENT else "NON_PERSISTENT"
        case "JMSPriority":
            return message.jms_priority()
        case "JMSTimestamp":
            return message.store_time_ms
        case "JMSExpiration":
            return message.expires_ms
        case "JMSRedelivered":
            return is_redelivered
        case "JMSXDeliveryCount":
            return delivery_count
        case "JMSXLogOffset":  # the number in the id; no property of a client hides it
            return message.log_offset
        case "JMSXSerial":
            return message.serial if message.log_offset < 0 else NOT_LOGGED
    return None


@dataclass(slots=True, eq=False)
class StompProperties(Properties):
    """A STOMP message, in one delivery.  Its header lines are searched, never parsed; results are kept.

    id_prefix, serial_prefix: in a message id, what precedes ``log_offset`` or, without one, ``serial``.
    """

    _message: Message
    _delivery_count: int
    _is_redelivered: bool
    _id_prefix: str
    _serial_prefix: str
    _lines: str = ""
    _found: dict[str, Value] = field(default_factory=dict)
    _document: list[Node | None] = field(default_factory=list)

    converts_strings = True

    def document(self) -> Node | None:
        if not self._document:
            self._document.append(read_document(self._message.body))
        return self._document[0]

    def get(self, name: str) -> Value:
        found = self._found
        if name in found:
            return found[name]
        value = self._jms_value(name) if name[:3] == "JMS" else self._header(name)
        found[name] = value
        return value

    def _header(self, name: str) -> str | None:
        """Return the first header of that name, as STOMP 1.2 requires; annotations precede the sender's headers."""
        lines = self._lines
        if not lines:
            message = self._message
            block = message.annotations + message.headers if message.annotations else message.headers
            lines = self._lines = "\n" + block.decode()
        # Neither a name nor a value holds a raw line feed, and a name in a selector needs no escapes.
        key = f"\n{name}:"
        at = lines.find(key)
        if at < 0:
            return None
        start = at + len(key)
        text = lines[start : lines.find("\n", start)]
        return text if "\\" not in text else _ESCAPED.sub(lambda match: _UNESCAPED[match[1]], text)

    def _jms_value(self, name: str) -> Value:
        message = self._message
        match name:
            case "JMSMessageID":
                if message.log_offset >= 0:
                    return f"{self._id_prefix}{message.log_offset}"
                return f"{self._serial_prefix}{message.serial}"
            case "JMSTimestamp":
                value = self._number("timestamp")
                return message.store_time_ms if value is None else value
            case "JMSCorrelationID":
                return self._header("correlation-id")
            case "JMSReplyTo":
                return self._header("reply-to")
            case "JMSType":
                return self._header("type")
            case "JMSXGroupSeq":
                return self._number(name)
        known = header_field(message, name, self._delivery_count, self._is_redelivered)
        return self._header(name) if known is None else known

    def _number(self, name: str) -> Value:
        text = self._header(name)
        if text is None:
            return None
        value = number_of(text)
        return text if value is None else value


class PropertyReader(ABC):
    """Reads one encoding; adapters register readers of their own encodings."""

    @abstractmethod
    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        """Return the properties of ``message``, read only as they are needed."""


class PropertyReaders:
    """The readers of all encodings.  by_encoding: engine.values.message.STOMP and its like -> reader."""

    __slots__ = ("by_encoding", "id_prefix", "serial_prefix")

    def __init__(self, id_prefix: str, serial_prefix: str) -> None:
        self.id_prefix = id_prefix
        self.serial_prefix = serial_prefix
        self.by_encoding: dict[int, PropertyReader] = {STOMP: _StompReader(id_prefix, serial_prefix)}

    def register(self, encoding: int, reader: PropertyReader) -> None:
        """Let ``reader`` read messages of ``encoding``."""
        self.by_encoding[encoding] = reader

    def properties(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        """Return the properties of a message that is handed over for the ``delivery_count``-th time.

        is_redelivered: it has been with a consumer before, counted or not.
        """
        reader = self.by_encoding.get(message.encoding)
        if reader is None:
            return _HeaderFields(message, delivery_count, is_redelivered)
        try:
            return reader.read(message, delivery_count, is_redelivered)
        except DATA_FAULTS:
            return _HeaderFields(message, delivery_count, is_redelivered)


@dataclass(slots=True, eq=False)
class _StompReader(PropertyReader):
    _id_prefix: str
    _serial_prefix: str

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        return StompProperties(message, delivery_count, is_redelivered, self._id_prefix, self._serial_prefix)


@dataclass(slots=True, eq=False)
class _HeaderFields(Properties):
    """Properties that the engine knows of any message, for an encoding without a reader."""

    _message: Message
    _delivery_count: int
    _is_redelivered: bool

    converts_strings = False

    def get(self, name: str) -> Value:
        return header_field(self._message, name, self._delivery_count, self._is_redelivered)
