"""Octets of any kind on an AMQP connection: at worst an error of its peer, and no more memory than a frame is worth."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame
from tests.support.protocols.amqp_strategies import PERFORMATIVES
from tests.support.protocols.amqp_stream import FRAME_SIZE, bombs, composite, feed, frame

NULL = b"\x40"
HANDLE = b"\x43"  # 0
NUMBER = b"\x43"
TAG = b"\xa0\x01t"
TRANSFER = 0x14
MEMORY_FACTOR = 120  # octets of Python's memory for one of a frame: a list of nulls has 8, a map of strings some more
MEMORY_BASE = 1 << 20

# Where a value of the peer's choice may stand.
PLACES: dict[str, Callable[[bytes], bytes]] = {
    "a performative": lambda value: frame(value),
    "properties of open": lambda value: frame(composite(0x10, b"\xa1\x01c", *[NULL] * 8, value)),
    "properties of begin": lambda value: frame(composite(0x11, NULL, NUMBER, NUMBER, NUMBER, *[NULL] * 3, value), 1),
    "properties of attach": lambda value: frame(
        composite(0x12, b"\xa1\x01a", b"\x52\x05", b"\x42", *[NULL] * 10, value)
    ),
    "filter of a source": lambda value: frame(
        composite(
            0x12, b"\xa1\x01b", b"\x52\x06", b"\x41", NULL, NULL, composite(0x28, b"\xa1\x01q", *[NULL] * 6, value)
        )
    ),
    "a delivery state": lambda value: frame(composite(0x15, b"\x41", NUMBER, NULL, NULL, value)),
    "an amqp-value": lambda value: transfer(b"\x00\x53\x77" + value),
    "an amqp-sequence": lambda value: transfer(b"\x00\x53\x76" + value),
    "application-properties": lambda value: transfer(b"\x00\x53\x74" + value + b"\x00\x53\x77\x40"),
    "message-annotations": lambda value: transfer(b"\x00\x53\x72" + value + b"\x00\x53\x77\x40"),
    "properties of a message": lambda value: transfer(composite(0x73, value) + b"\x00\x53\x77\x40"),
}


def transfer(payload: bytes) -> bytes:
    return frame(composite(TRANSFER, HANDLE, NUMBER, TAG, NUMBER) + payload)


@pytest.mark.interpreted  # both builds make the same objects, and their counting is slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("frame_size", [FRAME_SIZE, 65_536])
@pytest.mark.parametrize("bomb", bombs(100))
def test_a_bomb_is_no_bigger_than_its_frame(bomb: str, frame_size: int, place: str) -> None:
    octets = PLACES[place](bombs(frame_size - 200)[bomb])
    assert len(octets) <= frame_size
    feed(b"")  # what is made once is not counted
    tracemalloc.start()
    try:
        feed(octets, frame_size=frame_size)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= MEMORY_BASE + MEMORY_FACTOR * frame_size, f"{peak} octets of memory for a frame of {len(octets)}"


def test_a_frame_that_says_too_much_is_refused_before_it_comes() -> None:
    feed(b"\xff\xff\xff\xff\x02\x00\x00\x00" + b"x" * 100_000, cut=1_000)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(st.lists(st.one_of(st.binary(max_size=60).map(frame), st.binary(max_size=30)), max_size=12), st.integers(0, 40))
def test_any_octets(parts: list[bytes], cut: int) -> None:
    feed(b"".join(parts), cut)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=200)
@given(st.lists(st.tuples(PERFORMATIVES, st.binary(max_size=20)), max_size=12), st.integers(0, 40), st.randoms())
def test_any_performatives_and_changed_ones(frames: list[tuple[Composite, bytes]], cut: int, random: Random) -> None:
    octets = bytearray(b"".join(encode_frame(0, performative, payload) for performative, payload in frames))
    for _ in range(random.choice((0, 0, 1, 3))):
        if octets:
            octets[random.randrange(len(octets))] = random.randrange(256)
    feed(bytes(octets), cut)
