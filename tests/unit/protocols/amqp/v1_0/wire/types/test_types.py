"""Bombs and other refusals of the type system; round trips are in tests/property, bytes in tests/spec."""

from __future__ import annotations

import uuid

import pytest

from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.types.value_decoder import (
    EMPTY_ITEMS_MAX,
    HASHED_KEYS_MAX,
    ITEMS_MAX,
    NESTING_MAX,
    decode,
)
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Array, Byte, Described, Symbol, UByte, UInt, ULong


def refused(octets: bytes) -> str:
    with pytest.raises(DecodeError) as caught:
        decode(octets)
    return str(caught.value)


def test_nesting_ends_at_its_limit() -> None:
    value: object = None
    for _ in range(NESTING_MAX):
        value = [value]
    assert decode(encode(value))[0] == value
    assert "nested deeper than 32" in refused(encode([value]))


def test_descriptors_count_as_nesting() -> None:
    assert "nested deeper than 32" in refused(b"\x00" * 1_000)


def test_an_array_of_nothing_is_refused_before_it_is_built() -> None:
    assert f"more than {ITEMS_MAX} items" in refused(b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40")


@pytest.mark.parametrize("code", [0x40, 0x41, 0x42, 0x43, 0x44, 0x45])
def test_items_of_arrays_that_take_no_octets_are_few(code: int) -> None:
    """A frame of 40 octets must not become 65,536 values."""
    half = b"\xf0\x00\x00\x00\x05" + (EMPTY_ITEMS_MAX // 2).to_bytes(4, "big") + bytes((code,))
    assert len(decode(b"\xc0\x15\x02" + half * 2)[0]) == 2
    assert f"more than {EMPTY_ITEMS_MAX} items of arrays" in refused(b"\xc0\x1f\x03" + half * 3)


def test_keys_whose_hashes_their_sender_chooses_are_few() -> None:
    """These are all equal to a hash table, so each new one would be compared with all before it."""
    alike = [uuid.UUID(int=number * (2**61 - 1)) for number in range(HASHED_KEYS_MAX + 1)]
    assert len({hash(key) for key in alike}) == 1
    assert decode(encode(dict.fromkeys(alike[1:])))[0] == dict.fromkeys(alike[1:])
    assert f"more than {HASHED_KEYS_MAX} keys" in refused(encode(dict.fromkeys(alike)))
    assert f"more than {HASHED_KEYS_MAX} keys" in refused(encode([dict.fromkeys(alike[1:]), {alike[0]: None}]))
    described = {Described(ULong(number), UInt(1)): None for number in range(HASHED_KEYS_MAX + 1)}
    assert f"more than {HASHED_KEYS_MAX} keys" in refused(encode(described))


def test_items_count_over_all_depths() -> None:
    inner = encode([None] * (ITEMS_MAX // 2))
    octets = inner * 3
    assert "more than" in refused(b"\xd0" + (len(octets) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x03" + octets)


def test_a_list_with_more_items_than_octets_is_refused() -> None:
    assert "a value is missing" in refused(b"\xd0\x00\x00\x00\x05\x00\x00\xff\xff\x40")


def test_octets_left_over_in_a_list_are_refused() -> None:
    assert "2 octets are left over in a compound value of 1 items" in refused(b"\xc0\x04\x01\x40\x40\x40")


@pytest.mark.parametrize("key", [[], {}, Array(0xB3, []), Described(ULong(1), [])])
def test_a_key_of_a_map_must_be_simple(key: object) -> None:
    octets = encode(key) + b"\x40"
    assert "allowed is a simple value" in refused(b"\xc1" + bytes((len(octets) + 1, 2)) + octets)


def test_a_repeated_key_counts_last() -> None:
    assert decode(b"\xc1\x0b\x04\xa1\x01a\x52\x01\xa1\x01a\x52\x02")[0] == {"a": 2}


@pytest.mark.parametrize("point", ["0000d800", "0000dfff", "00110000", "ffffffff"])
def test_a_char_is_a_unicode_character(point: str) -> None:
    assert "no Unicode character" in refused(b"\x73" + bytes.fromhex(point))


def test_an_array_needs_a_constructor() -> None:
    assert "format code 0x00 of the items" in refused(b"\xe0\x05\x00\x00\x53\x01\x00")
    assert "format code 0x3f of the items" in refused(b"\xe0\x02\x00\x3f")


def test_a_size_without_room_for_the_count_is_refused() -> None:
    assert "no room for its count" in refused(b"\xc0\x00")
    assert "no room for its count" in refused(b"\xd0\x00\x00\x00\x03\x00\x00\x00")


@pytest.mark.parametrize("value", [UInt(2**32), UInt(-1), UByte(256), Byte(128), ULong(2**64), 2**63])
def test_a_number_out_of_its_range_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="out of the range of"):
        encode(value)


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(ValueError, match="object is no AMQP value"):
        encode(object())


def test_arrays_are_narrow_where_all_items_are() -> None:
    assert encode(Array(0xB3, [Symbol("a"), Symbol("bc")])) == bytes.fromhex("e00702a30161026263")
    assert encode(Array(0xB3, [Symbol("a" * 256)]))[:1] == b"\xf0"
