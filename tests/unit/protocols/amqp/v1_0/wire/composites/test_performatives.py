"""Composites: what is refused, what is tolerated."""

from __future__ import annotations

import pytest

from protocols.amqp.v1_0.wire.composites.composite import Error
from protocols.amqp.v1_0.wire.composites.composite_codec import (
    FRAME_CODES,
    composite_of,
    encode_composite,
    read_composite,
)
from protocols.amqp.v1_0.wire.composites.performatives import Attach, Disposition, Open, Transfer
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.errors import DecodeError
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Array, Described, Symbol, UInt, ULong
from tests.support.protocols.amqp_composites import described_of


def read(described: Described) -> object:
    return composite_of(described, FRAME_CODES)


def test_a_descriptor_may_be_a_symbol() -> None:
    assert read(Described(Symbol("amqp:open:list"), ["me"])) == Open("me")


def test_fields_of_a_later_version_are_skipped() -> None:
    assert read(Described(ULong(0x10), ["me", *[None] * 9, "new"])) == Open("me")


@pytest.mark.parametrize("names", [Symbol("queue"), Array(0xB3, [Symbol("queue")])])
def test_a_multiple_field_may_be_bare(names: object) -> None:
    attach = Described(ULong(0x12), ["n", UInt(0), True, None, None, Described(ULong(0x28), [None] * 10 + [names])])
    read_attach = read(attach)
    assert isinstance(read_attach, Attach)
    assert read_attach.source == Source(capabilities=["queue"])


@pytest.mark.parametrize(
    ("described", "text"),
    [
        (Described(ULong(0x10), []), "amqp:open:list lacks container-id"),
        (Described(ULong(0x10), [None]), "amqp:open:list lacks container-id"),
        (Described(ULong(0x10), [Symbol("me")]), "container-id of amqp:open:list is a Symbol; allowed is a string"),
        (Described(ULong(0x10), ["me", None, ULong(1)]), "max-frame-size of amqp:open:list is a ULong; allowed is a"),
        (Described(ULong(0x10), {}), "amqp:open:list holds a dict, not a list"),
        (Described(ULong(0x28), []), "descriptor 0x28; allowed are amqp:open:list"),
        (Described("amqp:open:list", []), "descriptor 'amqp:open:list'"),
        (Described(Symbol("none"), []), "descriptor 'none'"),
        (Described(ULong(0x18), [[]]), "error of amqp:close:list is a list; allowed is an error"),
        (Described(ULong(0x18), [Described(ULong(0x24), [])]), "descriptor 0x24; allowed are amqp:error:list"),
        (
            Described(ULong(0x12), ["n", UInt(0), True, None, None, Described(ULong(0x29), [])]),
            "descriptor 0x29; allowed are amqp:source:list",
        ),
        (Described(ULong(0x10), ["me", *[None] * 6, "cap"]), "offered-capabilities of amqp:open:list is a str"),
    ],
)
def test_what_is_refused(described: Described, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        read(described)


def test_a_performative_is_described() -> None:
    with pytest.raises(DecodeError, match="a list is not a performative"):
        read_composite(encode([]), 0, FRAME_CODES)


def test_null_fields_at_the_end_are_left_out() -> None:
    assert encode_composite(Transfer(0, 1, b"t", 0, False)) == bytes.fromhex("005314c00905435201a001744342")
    assert encode_composite(Attach("n", 0, False, target=Target("a"))).endswith(
        bytes.fromhex("4040 005329c00401a10161")
    )


def test_nested_composites_come_back() -> None:
    rejected = Disposition(True, 0, settled=True, state=None)
    assert read(described_of(rejected)) == rejected
    assert described_of(Error("amqp:not-found", "gone")) == Described(ULong(0x1D), [Symbol("amqp:not-found"), "gone"])
