"""Keys of messages: which there are, and a quick look that never misses one."""

from __future__ import annotations

import pytest

from engine.values.message import AMQP_1_0, KEYED, STOMP
from engine.values.message_keys import KEY_BYTES_MAX, KEYS_MAX, Keys
from gateway.settings.message_keys import MESSAGE_KEYS
from protocols.amqp.v1_0.wire.messages.scanner import Scanner
from protocols.amqp.v1_0.wire.types.value_encoder import described_list, encode
from protocols.amqp.v1_0.wire.types.values import Described, ULong


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"", []),
        (b"a:b\n", []),
        (b"correlation-id:42\n", ["42"]),
        (b"a:b\ncorrelation-id:4\\c2 x\n", ["4:2 x"]),
        (b"keys:one two  three\n", ["one", "two", "three"]),
        (b"keys:one\ncorrelation-id:one\n", ["one"]),
        (b"keys:first\nkeys:second\n", ["first"]),
        (b"x-keys:one\nmy-correlation-id:two\n", []),
        (b"keys:" + b"k" * (KEY_BYTES_MAX + 1) + b" short\n", ["short"]),
        (b"keys:" + b" ".join(b"k%d" % n for n in range(100)) + b"\n", [f"k{n}" for n in range(KEYS_MAX)]),
        (b"keys:" + "gr\u00fc\u00df".encode(), ["gr\u00fc\u00df"]),
    ],
)
def test_of_stomp(headers: bytes, expected: list[str]) -> None:
    assert Keys().of(STOMP, headers) == expected
    assert Keys().of(AMQP_1_0, headers) == [], "without a reader"
    assert Keys().may_be_in(STOMP, headers, 0, len(headers)) or not expected


@pytest.mark.parametrize(
    ("correlation_id", "keys", "expected"),
    [("c 1", "a b", ["c 1", "a", "b"]), (ULong(7), None, ["ID:AMQP_ULONG:7"]), (None, "a", ["a"]), (None, None, [])],
)
def test_of_amqp(correlation_id: ULong | str | None, keys: str | None, expected: list[str]) -> None:
    headers = described_list(0x73, 6, encode(None) * 5 + encode(correlation_id))
    if keys is not None:
        headers += encode(Described(ULong(0x74), {"keys": keys}))
    assert MESSAGE_KEYS.of(AMQP_1_0, headers) == expected


def test_broken_amqp_has_no_keys() -> None:
    assert MESSAGE_KEYS.of(AMQP_1_0, b"\x00\x53") == []


def test_amqp_may_always_hold_keys() -> None:
    assert MESSAGE_KEYS.may_be_in(AMQP_1_0, b"....", 0, 4)
    assert not Keys().may_be_in(AMQP_1_0, b"....", 0, 4), "without a reader"


def test_only_the_headers_are_looked_at() -> None:
    octets = b"keys:a\nother:b\nkeys:c\n"
    assert not Keys().may_be_in(STOMP, octets, 7, 15)
    assert Keys().may_be_in(STOMP, octets, 0, 15)


@pytest.mark.parametrize(
    ("correlation_id", "names", "expected"),
    [(None, {}, False), ("c", {}, True), (None, {"keys": "a"}, True), (None, {"colour": "red"}, False)],
)
def test_amqp_messages_with_keys_are_flagged_for_the_index(
    correlation_id: str | None, names: dict[str, str], expected: bool
) -> None:
    properties = encode(None) + encode(b"user") + encode(None) * 3 + encode(correlation_id) + encode(None)
    payload = described_list(0x73, 7, properties)
    payload += encode(Described(ULong(0x74), dict(names))) if names else b""
    assert bool(Scanner().scan(payload + b"\x00\x53\x77\x40").flags & KEYED) == expected
