"""Frame <-> Message, header <-> JMS property (wire/stomp.md 11)."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from engine.destination import QUEUE, TOPIC
from engine.errors import InvalidDestination, InvalidOption
from engine.message import DEAD_LETTER, PERSISTENT, PLAIN, STOMP, TEXT, Message
from protocols.stomp.decoder import Decoder
from protocols.stomp.destinations import split_destination
from protocols.stomp.errors import InvalidHeader
from protocols.stomp.frames import Frame, Head
from protocols.stomp.header_values import boolean, number
from protocols.stomp.message_octets import message_octets
from protocols.stomp.send_target import SendTarget, send_target
from protocols.stomp.subscribe_options import subscription_options
from protocols.stomp.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from tests.support.engine_world import EngineWorld


def head(headers: str) -> Head:
    """Return the head of a SEND with these lines."""
    decoder = Decoder()
    decoder.version = VERSION_1_2
    decoder.receive_data(f"SEND\n{headers.rstrip()}\n\n\0".encode())
    frame = decoder.next_frame()
    assert isinstance(frame, Frame)
    return frame.head


def sent(headers: str, *, default_persistent: bool = False) -> SendTarget:
    """Return what a SEND with these lines asks for."""
    return send_target(head(headers), EngineWorld().broker, default_persistent)


# -- SEND


def test_the_defaults_of_a_send() -> None:
    target = sent("destination:/queue/a\n")
    assert target.destination.uri() == "queue://a"
    assert (target.flags, target.priority, target.expires_ms) == (PLAIN | TEXT, 4, 0)
    assert (target.tag_hash, target.group_hash, target.transaction, target.block) == (0, 0, None, b"")
    assert not target.is_persistent


def test_everything_that_a_send_may_say() -> None:
    target = sent(
        "destination:/topic/a\npersistent:true\npriority:9\nexpires:1700000000001\ntype:order\nJMSXGroupID:g\n"
        "transaction:t\ncorrelation-id:c\nreply-to:/queue/r\ncolour:red\n"
    )
    assert target.destination.uri() == "topic://a"
    assert target.is_persistent
    assert (target.flags, target.priority, target.expires_ms) == (PLAIN | TEXT | PERSISTENT, 9, 1_700_000_000_001)
    assert (target.tag_hash, target.group_hash) == (crc32c(b"order"), crc32c(b"g"))
    assert target.transaction == "t"
    assert target.block == b"type:order\nJMSXGroupID:g\ncorrelation-id:c\nreply-to:/queue/r\ncolour:red\n"


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1", "yes"])
def test_persistent_as_clients_write_it(text: str) -> None:
    assert sent(f"destination:q\npersistent:{text}\n").is_persistent


@pytest.mark.parametrize("text", ["false", "False", "0", "no", ""])
def test_not_persistent_stands_above_the_listener_s_default(text: str) -> None:
    assert not sent(f"destination:q\npersistent:{text}\n", default_persistent=True).is_persistent


def test_the_listener_may_make_persistent_the_default() -> None:
    assert sent("destination:q\n", default_persistent=True).is_persistent


@pytest.mark.parametrize(
    ("headers", "is_text"),
    [
        ("", True),
        ("content-length:0\n", False),
        ("amq-msg-type:text\ncontent-length:0\n", True),
        ("amq-msg-type: Bytes \n", False),
    ],
)
def test_text_or_bytes(headers: str, is_text: bool) -> None:
    assert bool(sent("destination:q\n" + headers).flags & TEXT) == is_text


@pytest.mark.parametrize(
    ("headers", "seen"),
    [
        ("priority:10\n", "priority is '10'; allowed is a whole number from 0 to 9"),
        ("priority:-1\n", "priority is '-1'"),
        ("priority:high\n", "priority is 'high'"),
        ("expires:soon\n", "expires is 'soon'"),
        ("expires:99999999999999999999\n", "expires is '99999999999999999999'"),
        ("persistent:maybe\n", "persistent is 'maybe'; allowed are true and false"),
        ("amq-msg-type:map\n", "amq-msg-type is 'map'; allowed are text and bytes"),
    ],
)
def test_values_that_make_no_sense(headers: str, seen: str) -> None:
    with pytest.raises(InvalidOption, match=seen):
        sent("destination:q\n" + headers)


def test_a_send_without_destination() -> None:
    with pytest.raises(InvalidHeader, match="SEND needs a header destination"):
        sent("colour:red\n")


def test_a_client_s_timestamp_is_kept() -> None:
    target = sent("destination:q\ntimestamp:1234\n")
    assert target.block == b"timestamp:1234\n"
    assert target.flags & PLAIN


def test_a_timestamp_with_an_escape_makes_the_head_one_with_escapes() -> None:
    target = sent("destination:q\ntimestamp:12\\c34\n")
    assert target.block == b"timestamp:12\\c34\n"
    assert not target.flags & PLAIN


def test_what_only_a_broker_can_know_is_not_taken_from_a_client() -> None:
    forged = "message-id:mine\nredelivered:true\nsubscription:x\nack:9\nJMSXUserID:root\nJMSXDeliveryCount:7\n"
    assert sent("destination:q\n" + forged + "original-destination:/queue/x\n").block == b""


# -- destinations


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("/queue/a.b", QUEUE, "a.b"),
        ("/queue/a/b", QUEUE, "a/b"),
        ("/topic/a", TOPIC, "a"),
        ("queue://a", QUEUE, "a"),
        ("topic://a", TOPIC, "a"),
        ("plain", QUEUE, "plain"),
    ],
)
def test_destinations(text: str, kind: int, name: str) -> None:
    assert split_destination(text) == (kind, name, {})


def test_options_of_a_destination() -> None:
    assert split_destination("/queue/a?consumer.prefetchSize=10") == (QUEUE, "a", {"consumer.prefetchSize": "10"})


@pytest.mark.parametrize(
    "text", ["/temp-queue/a", "/exchange/x", "/", "/queues/a", "/queue/", "/topic/", "", "/queue/a.>"]
)
def test_destinations_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidDestination):
        send_target(head(f"destination:{text}"), EngineWorld().broker, default_persistent=False)


@pytest.mark.parametrize("query", ["consumer.prefetch=1", "nonsense", "consumer.prefetchSize=1&x=y"])
def test_unknown_options_are_refused_by_name(query: str) -> None:
    with pytest.raises(InvalidOption, match=r"unknown destination option .*; allowed is consumer.prefetchSize"):
        split_destination(f"/queue/a?{query}")


# -- SUBSCRIBE


@pytest.mark.parametrize(
    ("headers", "options", "prefetch"),
    [
        ({}, {}, None),
        ({"activemq.prefetchSize": " 5 "}, {}, 5),
        ({}, {"consumer.prefetchSize": "7"}, 7),
        ({"activemq.prefetchSize": "5"}, {"consumer.prefetchSize": "7"}, 5),
        ({"activemq.prefetchSize": "0"}, {}, 0),
    ],
)
def test_where_the_prefetch_comes_from(headers: dict[str, str], options: dict[str, str], prefetch: int | None) -> None:
    assert subscription_options(headers, options, QUEUE, is_strict=True) == (prefetch, [])


@pytest.mark.parametrize(
    ("headers", "options"),
    [({"activemq.prefetchSize": "-1"}, {}), ({"activemq.prefetchSize": ""}, {}), ({}, {"consumer.prefetchSize": "x"})],
)
def test_a_prefetch_that_makes_no_sense(headers: dict[str, str], options: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="allowed is a whole number from 0"):
        subscription_options(headers, options, QUEUE, is_strict=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"selector": "a = 1"},
        {"activemq.subscriptionName": "d"},
        {"durable-subscription-name": "d"},
        {"durable-subscriber-name": "d"},
        {"browser": "true"},
        {"activemq.exclusive": "True"},
        {"activemq.noLocal": "1"},
        {"activemq.retroactive": "true"},
    ],
)
def test_what_is_not_done_yet_is_refused_rather_than_ignored(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="is not supported by this version"):
        subscription_options(headers, {}, QUEUE, is_strict=False)


@pytest.mark.parametrize("name", ["browser", "activemq.exclusive", "activemq.noLocal", "activemq.retroactive"])
def test_the_same_switched_off_is_nothing(name: str) -> None:
    assert subscription_options({name: "false"}, {}, QUEUE, is_strict=True) == (None, [])


def test_hints_without_effect_are_taken() -> None:
    headers = {"activemq.dispatchAsync": "false", "activemq.subcriptionName": "x", "activemq.priority": "3"}
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (None, [])


def test_misspelt_headers_are_warned_about_or_refused() -> None:
    headers = {"activemq.prefetchsize": "1"}
    prefetch, warnings = subscription_options(headers, {}, QUEUE, is_strict=False)
    assert prefetch is None
    assert warnings == ["SUBSCRIBE has an unknown header 'activemq.prefetchsize'; known is activemq.prefetchSize"]
    with pytest.raises(InvalidOption, match=r"unknown header 'activemq\.prefetchsize'"):
        subscription_options(headers, {}, QUEUE, is_strict=True)


# -- MESSAGE


def made(flags: int = TEXT | PLAIN, headers: bytes = b"", body: bytes = b"hi", annotations: bytes = b"") -> Message:
    message = Message(1, STOMP, flags, 4, 0, 0, 0, annotations, headers, body)
    message.store_time_ms = 77
    return message


def octets(message: Message, version: int) -> bytes:
    return message_octets(message, version, "ID:s-", "ID:s-1-n", is_shared=True)


def test_a_logged_message_in_each_version() -> None:
    def logged() -> Message:
        message = made(TEXT | PLAIN | PERSISTENT, b"colour:red\n")
        message.log_offset = 4096
        return message

    rest = b"\npriority:4\nexpires:0\npersistent:true\ntimestamp:77\ncolour:red\n\nhi\0\n"
    assert octets(logged(), VERSION_1_0) == b"message-id:ID:s-4096" + rest
    assert octets(logged(), VERSION_1_1) == b"message-id:ID\\cs-4096" + rest
    assert octets(logged(), VERSION_1_2) == b"message-id:ID\\cs-4096" + rest


def test_a_message_that_is_not_logged_is_named_by_its_serial() -> None:
    message = made()
    message.serial = 5
    assert octets(message, VERSION_1_2).startswith(b"message-id:ID\\cs-1-n5\n")


def test_escapes_of_each_version() -> None:
    headers = b"a\\cb:x\\ny\\rz\\\\\n"
    annotations = b"cause:x\\cy\n"
    message = made(TEXT, headers, annotations=annotations)
    assert b"\ncause:x\\cy\na\\cb:x\\ny\\rz\\\\\n\n" in octets(message, VERSION_1_2)
    assert b"\ncause:x\\cy\na\\cb:x\\ny\rz\\\\\n\n" in octets(message, VERSION_1_1)
    assert b"\ncause:x:y\na b:x y\rz\\\n\n" in octets(message, VERSION_1_0)


def test_bytes_have_a_content_length_and_texts_none() -> None:
    assert b"content-length" not in octets(made(TEXT), VERSION_1_2)
    assert b"\ncontent-length:2\n" in octets(made(0), VERSION_1_2)
    assert b"\ncontent-length:0\n" in octets(made(0, body=b""), VERSION_1_2)


def test_a_text_with_a_nul_inside_has_one_all_the_same() -> None:
    assert b"\ncontent-length:3\n" in octets(made(TEXT, body=b"a\0b"), VERSION_1_2)


@pytest.mark.parametrize("headers", [b"timestamp:5\n", b"a:b\ntimestamp:5\n"])
def test_there_is_one_timestamp(headers: bytes) -> None:
    assert octets(made(headers=headers), VERSION_1_2).count(b"timestamp:") == 1


def test_a_header_that_only_ends_like_timestamp_is_another_one() -> None:
    assert b"\ntimestamp:77\n" in octets(made(headers=b"my-timestamp:5\n"), VERSION_1_2)


@pytest.mark.parametrize(
    ("flags", "version", "is_kept"),
    [
        (PLAIN, VERSION_1_2, True),
        (PLAIN, VERSION_1_1, True),
        (PLAIN, VERSION_1_0, False),
        (0, VERSION_1_2, True),
        (0, VERSION_1_1, False),
        (DEAD_LETTER, VERSION_1_0, False),
    ],
)
def test_an_encoded_form_is_kept_where_all_receivers_of_1_2_can_share_it(
    flags: int, version: int, is_kept: bool
) -> None:
    message = made(flags)
    result = octets(message, version)
    assert message.wire == (result if is_kept else None)


# -- values


def test_switches_and_numbers() -> None:
    assert boolean("x", " Yes ") and not boolean("x", "NO")
    with pytest.raises(InvalidOption):
        boolean("x", "on")
    assert number("x", " 007 ", 0, 9) == 7
    with pytest.raises(InvalidOption):
        number("x", "٣", 0, 9)


# -- what others say, and what must not get into a log


def test_a_send_that_is_wrong_makes_no_destination() -> None:
    for line in ("priority:x", "expires:x", "persistent:maybe", "amq-msg-type:map"):
        broker = EngineWorld().broker
        with pytest.raises(InvalidOption):
            send_target(head("destination:/queue/new\n" + line), broker, default_persistent=False)
        assert broker.destinations.queues == {}, line


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("consumer.prefetchSize=abc", "allowed is a whole number"),
        ("consumer.prefetchSize=-1", "allowed is a whole number"),
        ("consumer.prefetchSize=1&consumer.prefetchSize=2", "is there twice"),
    ],
)
def test_options_are_checked_wherever_a_destination_stands(query: str, reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        send_target(head(f"destination:/queue/a?{query}"), EngineWorld().broker, default_persistent=False)


@pytest.mark.parametrize(
    ("headers", "prefetch"),
    [
        ({"prefetch-count": "9"}, 9),
        ({"prefetch-count": "9", "activemq.prefetchSize": "3"}, 3),
        ({"prefetch-count": "0"}, 2**31 - 1),
    ],
)
def test_rabbitmq_s_prefetch(headers: dict[str, str], prefetch: int) -> None:
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (prefetch, [])


@pytest.mark.parametrize("headers", [{"durable": "true"}, {"auto-delete": "false"}])
def test_rabbitmq_s_durable_subscription_is_refused_on_topics_only(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match="is not supported by this version"):
        subscription_options(headers, {}, TOPIC, is_strict=False)
    assert subscription_options(headers, {}, QUEUE, is_strict=True) == (None, [])


@pytest.mark.parametrize("name", ["consumer.prefetchSize", "consumer-window-size"])
def test_a_prefetch_that_would_have_no_effect_is_warned_about(name: str) -> None:
    _, warnings = subscription_options({name: "1"}, {}, QUEUE, is_strict=False)
    assert warnings == [f"SUBSCRIBE has an unknown header {name!r}; known is activemq.prefetchSize"]


def test_a_warning_is_one_short_line_and_there_are_few_of_them() -> None:
    headers = {f"activemq.x\n2026-01-01 forged{number}{'y' * 500}": "1" for number in range(100)}
    _, warnings = subscription_options(headers, {}, QUEUE, is_strict=False)
    assert len(warnings) == 4
    assert warnings[-1] == "SUBSCRIBE has 97 more unknown headers"
    assert all("\n" not in text and len(text) < 200 for text in warnings)
