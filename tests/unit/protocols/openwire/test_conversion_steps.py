"""What a conversion to STOMP costs a turn: also what was inflated or read of a content that comes as it was."""

from __future__ import annotations

import zlib
from random import Random

import pytest

from engine.values.message import OPENWIRE, PLAIN, Message
from protocols.map_message import VALUES_MAX, Typed
from protocols.openwire.mapping.contents import (
    DEFLATED_A_STEP,
    INFLATED_A_STEP,
    INFLATED_MAX,
    RATIO_MAX,
    text_content,
)
from protocols.openwire.mapping.stomp_content import OCTETS_A_STEP
from protocols.openwire.mapping.stomp_form import MESSAGE_STEPS, StompForm
from protocols.openwire.mapping.stored_form import stored
from protocols.openwire.wire.identities import QUEUE, Destination, MessageId, ProducerId
from protocols.openwire.wire.layouts import VERSION
from protocols.openwire.wire.messages import BytesMessage, MapMessage, TextMessage, WireMessage
from protocols.openwire.wire.property_map import write_map
from protocols.openwire.wire.writer import encode_structure

MIB = 1 << 20
OTHER_STEPS = 20  # for header lines
BOMB = zlib.compress(bytes(30 * MIB), 9)
NOISE = zlib.compress(text_content(Random(1).randbytes(MIB // 2).hex()))
ENTRIES = write_map({f"{number}": Typed("int", number) for number in range(1_000)})


def inflated(size_bytes: int) -> int:
    """Return the steps of that many octets."""
    return size_bytes // INFLATED_A_STEP + size_bytes // OCTETS_A_STEP


def steps_of(message: WireMessage) -> int:
    message.message_id = MessageId(None, ProducerId("c", 1, 1), 1, 0)
    message.destination = Destination(QUEUE, "q")
    found = stored(encode_structure(message), VERSION)
    return StompForm().stomp_form(Message(1, OPENWIRE, PLAIN, 4, 0, 0, 0, b"", found.headers, found.body))[1]


@pytest.mark.parametrize(
    ("message", "steps"),
    [
        (TextMessage(content=text_content("x" * MIB)), MIB // OCTETS_A_STEP),
        (TextMessage(content=zlib.compress(text_content("x" * MIB)), compressed=True), inflated(MIB)),
        (TextMessage(content=NOISE, compressed=True), len(NOISE) // DEFLATED_A_STEP + inflated(MIB)),
        (TextMessage(content=BOMB, compressed=True), inflated(RATIO_MAX * len(BOMB))),
        (BytesMessage(content=bytes(4) + BOMB, compressed=True), inflated(RATIO_MAX * len(BOMB))),
        (MapMessage(content=ENTRIES), 2 * 1_000),
        (MapMessage(content=ENTRIES + b"\0"), 1_000),
        (MapMessage(content=(MIB).to_bytes(4, "big") + b"\0" * 4 * MIB), VALUES_MAX + 4 * MIB // OCTETS_A_STEP),
    ],
)
def test_a_conversion_costs_what_was_read(message: WireMessage, steps: int) -> None:
    assert steps * 0.9 <= steps_of(message) - MESSAGE_STEPS <= steps * 1.1 + OTHER_STEPS


def test_no_content_costs_more_than_the_largest_that_is_inflated() -> None:
    bomb = zlib.compress(Random(1).randbytes(MIB) + bytes(INFLATED_MAX), 1)
    assert RATIO_MAX * len(bomb) > INFLATED_MAX
    assert (
        steps_of(TextMessage(content=bomb, compressed=True))
        < 1.1 * inflated(INFLATED_MAX) + len(bomb) // DEFLATED_A_STEP
    )
