"""Law: the fast way through the sections of a message agrees with the clear one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols.amqp.v1_0.mapping.stomp_content import ContentReader, stomp_content
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Byte, Described, Int, Symbol, Timestamp, UByte, UInt, ULong

TEXT = st.text(max_size=6)
FIELDS = st.one_of(st.none(), TEXT, st.binary(max_size=4), st.just(ULong(7)), st.just(Timestamp(5)), st.just(UInt(3)))
NAMES = st.sampled_from(["colour", "type", "n", "a:b", "", "JMSXGroupID"])
VALUES = st.one_of(st.none(), TEXT, st.integers(-9, 9).map(Int), st.booleans())
ANNOTATIONS = st.dictionaries(
    st.sampled_from([Symbol("x-opt-jms-reply-to"), Symbol("x-opt-jms-msg-type"), Symbol("x-opt-own")]),
    st.integers(0, 5).map(Byte),
    max_size=3,
)
BODIES = st.one_of(TEXT, st.text(min_size=300, max_size=301), st.binary(max_size=5), st.none(), st.just([Int(1)]))


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, bytes]:
    headers = b""
    for code, values in (
        (0x70, st.lists(st.one_of(st.booleans(), st.just(UByte(4))), max_size=2)),
        (0x72, ANNOTATIONS),
        (0x73, st.lists(FIELDS, max_size=13)),
        (0x74, st.dictionaries(NAMES, VALUES, max_size=3)),
    ):
        if draw(st.booleans()):
            headers += section(code, draw(values))
    body = b"".join(section(draw(st.sampled_from([0x75, 0x77])), draw(BODIES)) for _ in range(draw(st.integers(0, 2))))
    if draw(st.integers(0, 9)) == 0:
        body = body[:-1]
    if draw(st.integers(0, 9)) == 0:
        headers = headers[:-1]
    return headers, body


@given(st.lists(messages(), min_size=1, max_size=6))
def test_the_fast_way_agrees_with_the_clear_one(sent: list[tuple[bytes, bytes]]) -> None:
    reader = ContentReader()
    for headers, body in sent * 2:
        assert reader.read(headers, body) == stomp_content(headers, body)
