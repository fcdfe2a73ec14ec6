"""Which reader reads which encoding."""

from __future__ import annotations

from engine.selector.properties import Properties, PropertyReader, PropertyReaders
from engine.values.message import AMQP_1_0, PERSISTENT, STOMP, Message
from tests.support.engine.selector_properties import TypedProperties


class FixedReader(PropertyReader):
    def read(self, message: Message, delivery_count: int, is_redelivered: bool) -> Properties:
        return TypedProperties({"size": message.size, "count": delivery_count, "again": is_redelivered})


def message(encoding: int) -> Message:
    return Message(1, encoding, PERSISTENT, 7, 0, 0, 99, b"", b"colour:red\n", b"body")


def test_stomp_is_read_by_itself() -> None:
    properties = PropertyReaders("ID:s-", "ID:m-").properties(message(STOMP), 2, True)
    assert [properties.get(name) for name in ("colour", "JMSXDeliveryCount", "JMSRedelivered", "JMSMessageID")] == [
        "red",
        2,
        True,
        "ID:m-0",
    ]


def test_an_adapter_registers_its_own_reader() -> None:
    readers = PropertyReaders("ID:s-", "ID:m-")
    readers.register(AMQP_1_0, FixedReader())
    properties = readers.properties(message(AMQP_1_0), 3, False)
    assert [properties.get(name) for name in ("size", "count", "again")] == [15, 3, False]


def test_of_an_unknown_encoding_only_the_header_fields_are_known() -> None:
    properties = PropertyReaders("ID:s-", "ID:m-").properties(message(AMQP_1_0), 3, True)
    names = ("JMSDeliveryMode", "JMSPriority", "JMSTimestamp", "JMSExpiration", "JMSRedelivered", "JMSXDeliveryCount")
    assert [properties.get(name) for name in names] == ["PERSISTENT", 7, 0, 99, True, 3]
    assert properties.get("colour") is None
