"""Readers of message properties, one for each native encoding."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.selector.properties import Properties, StompProperties, Value, header_field
from engine.values.errors import DATA_FAULTS
from engine.values.message import STOMP, Message


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


class _StompReader(PropertyReader):
    __slots__ = ("_id_prefix", "_serial_prefix")

    def __init__(self, id_prefix: str, serial_prefix: str) -> None:
        self._id_prefix = id_prefix
        self._serial_prefix = serial_prefix

    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        return StompProperties(message, delivery_count, is_redelivered, self._id_prefix, self._serial_prefix)


class _HeaderFields(Properties):
    """Properties that the engine knows of any message, for an encoding without a reader."""

    __slots__ = ("_message", "_delivery_count", "_is_redelivered")

    converts_strings = False

    def __init__(self, message: Message, delivery_count: int, is_redelivered: bool) -> None:
        self._message = message
        self._delivery_count = delivery_count
        self._is_redelivered = is_redelivered

    def get(self, name: str) -> Value:
        return header_field(self._message, name, self._delivery_count, self._is_redelivered)
