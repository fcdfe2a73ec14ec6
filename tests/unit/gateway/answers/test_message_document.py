"""A message as JSON: its fields, the types of its properties, and the forms of its body."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from engine.values.message import AMQP_1_0, PERSISTENT, STOMP, TEXT, Message, annotation
from gateway.answers.message_document import BODY_FORMS, WHOLE_BYTES_MAX, document, type_header
from protocols.message_lines import TYPES_HEADER


def message(headers: bytes = b"", body: bytes = b"", flags: int = 0, encoding: int = STOMP) -> Message:
    return Message(1, encoding, flags, 4, 0, 0, 0, annotation("dlqCause", "x:y"), headers, body)


def shown(one: Message, form: str = "auto") -> dict[str, Any]:
    found = document(one, "ID:s-1", "queue://orders", form)
    json.dumps(found, allow_nan=False)
    return found


def test_fields_and_annotations() -> None:
    headers = (
        b"correlation-id:a\\cb\ntype:T\nreply-to:/queue/r\nJMSXGroupID:g\ncontent-type:text/x\ncolor:red\ncolor:blue\n"
    )
    found = shown(message(headers, b"x", PERSISTENT | TEXT))
    assert (found["correlation_id"], found["type"], found["reply_to"]) == ("a:b", "T", "/queue/r")
    assert (found["group"], found["content_type"], found["persistent"]) == ("g", "text/x", True)
    assert found["properties"] == {"color": "red"}, "the first of repeated headers counts"
    assert found["annotations"] == {"dlqCause": "x:y"}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("long", "5", 5),
        ("boolean", "true", True),
        ("double", "1.5", 1.5),
        ("double", "nan", "nan"),
        ("double", "inf", "inf"),
        ("timestamp", "1700000000000", 1700000000000),
        ("uuid", "12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-567812345678"),
        ("binary", "AAE=", "AAE="),
        ("int", "five", "five"),
        ("none", "5", "5"),
    ],
)
def test_types_of_properties(kind: str, text: str, value: Any) -> None:
    block = annotation("p", text) + annotation(TYPES_HEADER, f"p={kind}")
    found = shown(message(block))["properties"]
    assert found == {"p": value}
    assert type(found["p"]) is type(value)


def test_types_that_are_sent() -> None:
    assert type_header({"s": "x"}) == ""
    assert type_header({"s": "x", "n": 1, "b": False, "f": 1.5, "a,b": 1}) == "n=long,b=boolean,f=double"


@pytest.mark.parametrize(
    ("body", "flags", "form", "member", "value"),
    [
        (b"a\nb", TEXT, "auto", "body", "a\nb"),
        (b"plain", 0, "auto", "body", "plain"),
        (b"a\nb", 0, "auto", "body_base64", "YQpi"),
        (b"\xff", TEXT, "auto", "body_base64", "/w=="),
        (b'{"a": 1}', 0, "json", "body_json", {"a": 1}),
        (b"NaN", TEXT, "json", "body_base64", "TmFO"),
        (b"[" * 100_000, TEXT, "json", "body_base64", base64.b64encode(b"[" * 100_000).decode()),
        (b"1" * 5_000, TEXT, "json", "body_base64", base64.b64encode(b"1" * 5_000).decode()),
        (b"text", TEXT, "base64", "body_base64", "dGV4dA=="),
        (b"", TEXT, "auto", "body", ""),
    ],
)
def test_bodies(body: bytes, flags: int, form: str, member: str, value: Any) -> None:
    found = shown(message(b"", body, flags), form)
    assert found[member] == value
    assert found["body_bytes"] == len(body)


@pytest.mark.parametrize("form", BODY_FORMS)
@pytest.mark.parametrize("octets", [b"", b"\x00Su", b"\xff" * 50, b"\x00Ss\xc0\x01\x00"])
def test_a_message_of_amqp_that_cannot_be_read_is_shown_as_it_came(form: str, octets: bytes) -> None:
    found = shown(message(octets, octets, 0, AMQP_1_0), form)
    assert found["id"] == "ID:s-1"


@pytest.mark.parametrize("encoding", [STOMP, AMQP_1_0])
@pytest.mark.parametrize("form", BODY_FORMS)
def test_a_large_message_is_shown_without_its_content(form: str, encoding: int) -> None:
    whole = shown(message(b"p:x\n", b"\x00Su\xa0\x01x"), form)
    one = message(b"p:x\n", b"\x01" * WHOLE_BYTES_MAX, TEXT, encoding)
    large = shown(one, form)
    assert (whole["whole"], large["whole"]) == (True, False)
    assert (large["body_bytes"], large["properties"], large["annotations"]) == (WHOLE_BYTES_MAX, {}, {})
    assert large.keys().isdisjoint({"body", "body_json", "body_base64"})
