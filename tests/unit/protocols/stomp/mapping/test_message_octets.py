"""MESSAGE, from its message-id on, in each version."""

from __future__ import annotations

import pytest

from engine.values.message import DEAD_LETTER, INGRESS, PERSISTENT, PLAIN, PRIORITY_SHIFT, STOMP, TEXT, Message
from protocols.stomp.codec.escapes import escape
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from protocols.stomp.mapping.message_octets import message_parts, shared_octets


def made(flags: int = TEXT | PLAIN, headers: bytes = b"", body: bytes = b"hi", annotations: bytes = b"") -> Message:
    message = Message(1, STOMP, flags, 4, 0, 0, 0, annotations, headers, body)
    message.store_time_ms = 77
    return message


def octets(message: Message, version: int) -> bytes:
    prefixes = escape("ID:s-", version), escape("ID:s-1-n", version)
    in_parts = b"".join(message_parts(message, version, *prefixes))
    assert shared_octets(message, version, *prefixes) == in_parts
    return in_parts


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


def test_a_message_tells_when_it_was_stored_where_its_address_says_so() -> None:
    assert b"\ningress-timestamp:77\n" in octets(made(TEXT | PLAIN | INGRESS, b"timestamp:5\n"), VERSION_1_2)
    assert b"ingress-timestamp" not in octets(made(), VERSION_1_2)


def test_the_priority_is_the_one_that_was_sent() -> None:
    assert b"\npriority:9\n" in octets(made(TEXT | PLAIN | 10 << PRIORITY_SHIFT), VERSION_1_2)
