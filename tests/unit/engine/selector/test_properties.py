"""The view of a STOMP message: JMS header fields, first of repeated headers, escapes, one look for each name."""

from __future__ import annotations

import pytest

from engine.selector.properties import Value
from engine.values.message import PERSISTENT
from tests.support.engine.selector_properties import stomp_message, stomp_properties

HEADERS = (
    b"ab:2\na:1\na:3\nesc:x\\cy\\\\n\\n\\r\ntype:order\ncorrelation-id:c-1\nreply-to:/queue/r\n"
    b"JMSXGroupID:g\nJMSXGroupSeq:12\nutf:gr\xc3\xbc\xc3\x9fe\nempty:\nlast:x=\\c"
    b"a\\cb\n"
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", "1"),
        ("ab", "2"),
        ("b", None),
        ("A", None),
        ("esc", "x:y\\n\n\r"),
        ("utf", "grüße"),
        ("empty", ""),
        ("last", "x=:a:b"),
        ("JMSDeliveryMode", "NON_PERSISTENT"),
        ("JMSPriority", 7),
        ("JMSCorrelationID", "c-1"),
        ("JMSType", "order"),
        ("JMSReplyTo", "/queue/r"),
        ("JMSExpiration", 0),
        ("JMSRedelivered", False),
        ("JMSXDeliveryCount", 1),
        ("JMSXGroupID", "g"),
        ("JMSXGroupSeq", 12),
        ("JMSXUserID", None),
    ],
)
def test_finds(name: str, value: Value) -> None:
    properties = stomp_properties(stomp_message(HEADERS, priority=7))
    assert properties.get(name) == value
    assert type(properties.get(name)) is type(value)


def test_a_message_without_headers_has_none() -> None:
    assert stomp_properties(stomp_message(b"")).get("a") is None


def test_annotations_stand_before_what_the_sender_wrote() -> None:
    properties = stomp_properties(stomp_message(b"a:2\nb:3\n", annotations=b"a:1\n"))
    assert (properties.get("a"), properties.get("b")) == ("1", "3")


def test_a_persistent_message_says_so() -> None:
    properties = stomp_properties(stomp_message(b"", flags=PERSISTENT))
    assert properties.get("JMSDeliveryMode") == "PERSISTENT"


def test_a_redelivery_counts() -> None:
    properties = stomp_properties(stomp_message(b""), delivery_count=3)
    assert (properties.get("JMSRedelivered"), properties.get("JMSXDeliveryCount")) == (True, 3)


def test_the_message_id_is_the_place_in_the_log_or_a_serial() -> None:
    message = stomp_message(b"")
    message.serial = 5
    assert stomp_properties(message).get("JMSMessageID") == "ID:memory-5"
    message.log_offset = 0
    assert stomp_properties(message).get("JMSMessageID") == "ID:store-0"


@pytest.mark.parametrize(("headers", "value"), [(b"", 99), (b"timestamp:7\n", 7), (b"timestamp:soon\n", "soon")])
def test_the_timestamp_is_the_senders_or_ours(headers: bytes, value: Value) -> None:
    message = stomp_message(headers)
    message.store_time_ms = 99
    assert stomp_properties(message).get("JMSTimestamp") == value


def test_what_was_found_is_remembered() -> None:
    message = stomp_message(b"a:1\n")
    properties = stomp_properties(message)
    assert (properties.get("a"), properties.get("b")) == ("1", None)
    message.headers = b"a:2\nb:2\n"
    assert (properties.get("a"), properties.get("b")) == ("1", None)
