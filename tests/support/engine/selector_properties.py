"""Messages for selectors, as a table of values: typed as JMS and AMQP do, or all strings as in STOMP."""

from __future__ import annotations

from collections.abc import Mapping

from engine.selector.properties import Properties, StompProperties, Value
from engine.values.message import STOMP, Message


class TypedProperties(Properties):
    """Properties with the types of JMS and AMQP; counts the reads."""

    __slots__ = ("values", "asked_count")

    converts_strings = False

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values
        self.asked_count = 0

    def get(self, name: str) -> Value:
        self.asked_count += 1
        return self.values.get(name)


class ConvertedProperties(TypedProperties):
    """The same properties, as strings that are converted."""

    __slots__ = ()

    converts_strings = True


def stomp_message(headers: bytes, annotations: bytes = b"", flags: int = 0, priority: int = 4) -> Message:
    return Message(1, STOMP, flags, priority, 0, 0, 0, annotations, headers, b"")


def stomp_properties(message: Message, delivery_count: int = 1) -> StompProperties:
    return StompProperties(message, delivery_count, delivery_count > 1, "ID:store-", "ID:memory-")
