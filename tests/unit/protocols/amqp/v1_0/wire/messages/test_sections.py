"""Sections of AMQP messages: what is found in them, and that nothing of one message is taken for another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.amqp.v1_0.mapping.outgoing_message import with_application_properties
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.messages.scanner import Scanner
from protocols.amqp.v1_0.wire.messages.sections import BODY_SECTIONS_MOST
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Symbol, UByte, UInt
from tests.support.attributes import attributes

DURABLE = bytes.fromhex("005370c0020141")
URGENT = described_list(0x70, 3, encode(None) + encode(UByte(9)) + encode(UInt(50)))
ANNOTATED = b"\x00\x53\x72" + encode({Symbol("x-opt-delivery-delay"): UInt(7)})
NAMED = described_list(0x73, 4, encode(None) * 2 + encode("to") + encode("subject"))
PROPERTIES = b"\x00\x53\x74" + encode({"keys": "k"})
FRONTS = [b"", DURABLE, URGENT, DURABLE + ANNOTATED, NAMED, DURABLE + NAMED, PROPERTIES]
BODIES = [b"\x00\x53\x75\xa0\x02hi", b"\x00\x53\x76\x45", b"\x00\x53\x77\x40"]


@given(st.lists(st.tuples(st.sampled_from(FRONTS), st.sampled_from(BODIES)), max_size=12))
def test_what_was_read_before_changes_nothing(messages: list[tuple[bytes, bytes]]) -> None:
    scanner = Scanner()
    for front, body in messages:
        expected = attributes(Scanner().scan(front + body))
        assert attributes(scanner.scan(front + body)) == expected
        assert (expected["headers"], expected["body"]) == (front, body)


def test_a_message_of_nothing_but_a_body() -> None:
    scanned = Scanner().scan(BODIES[0])
    assert (scanned.flags, scanned.priority, scanned.ttl_ms, scanned.expires_ms) == (0, 4, -1, 0)
    assert (scanned.to, scanned.tag_hash, scanned.group_hash) == ("", 0, 0)
    assert not scanned.may_be_scheduled


def test_sections_with_wide_descriptors_are_not_many() -> None:
    wide = b"\x00\x52\x77\x40"
    assert Scanner().scan(wide * BODY_SECTIONS_MOST).body == wide * BODY_SECTIONS_MOST
    with pytest.raises(DecodeError, match=f"more than {BODY_SECTIONS_MOST} sections"):
        Scanner().scan(wide * (BODY_SECTIONS_MOST + 1))


def test_application_properties_are_added_behind_what_is_there() -> None:
    for sections, expected in (
        (b"", {"a": "1"}),
        (NAMED, {"a": "1"}),
        (PROPERTIES, {"keys": "k", "a": "1"}),
        (NAMED + PROPERTIES, {"keys": "k", "a": "1"}),
        (NAMED + b"\x00\x80" + (0x74).to_bytes(8, "big") + encode({"a": "0"}), {"a": "1"}),
    ):
        octets = with_application_properties(sections, {"a": "1"})
        front = NAMED if sections.startswith(NAMED) else b""
        assert octets.startswith(front + b"\x00\x53\x74")
        assert decode(octets, len(front) + 3) == (expected, len(octets))
