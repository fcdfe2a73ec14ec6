"""What a conversion to STOMP costs a turn: the items that were read, whichever they became."""

from __future__ import annotations

import pytest

from engine.values.message import AMQP_1_0, PLAIN, Message
from protocols.amqp.v1_0.mapping.stomp_form import MESSAGE_STEPS, StompForm
from protocols.amqp.v1_0.wire.messages import sections as at
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Array, Described, ULong

ITEMS = 10_000
NULLS = [None] * ITEMS
LIST = encode(NULLS)
UNDEFINED = b"\x01"  # no format code


def section(code: int, value: bytes) -> bytes:
    return bytes((0, 0x53, code)) + value


def described(code: int, value: object) -> bytes:
    return encode(Described(ULong(code), value))


def broken_at(item: int) -> bytes:
    start = len(LIST) - ITEMS + item
    return section(at.VALUE, LIST[:start] + UNDEFINED + LIST[start + 1 :])


@pytest.mark.parametrize(
    ("body", "items"),
    [
        (section(at.DATA, encode(b"x" * ITEMS)), 0),
        (section(at.VALUE, encode("a," * ITEMS)), 0),
        (section(at.VALUE, LIST), ITEMS),
        (section(at.VALUE, encode(["a,b,c,d"] * 100)), 100),
        (section(at.VALUE, encode(["a"] * 300)), 300),
        (section(at.VALUE, encode([["a", "b"]] * 300)), 900),
        (section(at.VALUE, b"\x00\x80" + b"\0" * 7 + b"\x01" + LIST), ITEMS),
        (section(at.SEQUENCE, encode(["a"])) + section(at.SEQUENCE, LIST), ITEMS + 1),
        (section(at.DATA, LIST), ITEMS),
        (described(at.VALUE, NULLS), ITEMS),
        (section(at.VALUE, encode(Array(0x54, [1] * 300))), 300),
        (section(at.VALUE, LIST) + UNDEFINED, ITEMS),
        (broken_at(0), 10),
        (broken_at(5_000), 5_010),
    ],
)
def test_a_conversion_costs_the_items_that_were_read(body: bytes, items: int) -> None:
    _, steps = StompForm().stomp_form(Message(1, AMQP_1_0, PLAIN, 4, 0, 0, 0, b"", b"", body))
    assert MESSAGE_STEPS + items - 10 <= steps <= MESSAGE_STEPS + items + 10
