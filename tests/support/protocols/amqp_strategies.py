"""Strategies for AMQP values and frames."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from protocols.amqp.v1_0.wire.composites.composite import Composite, Error
from protocols.amqp.v1_0.wire.composites.delivery_states import (
    Accepted,
    Declared,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from protocols.amqp.v1_0.wire.composites.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from protocols.amqp.v1_0.wire.composites.termini import Source, Target
from protocols.amqp.v1_0.wire.composites.transaction_types import Coordinator
from protocols.amqp.v1_0.wire.types.values import (
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ASCII = st.text(st.characters(max_codepoint=127), max_size=20)


def bits(kind: type[int], width: int, *, signed: bool = False) -> st.SearchStrategy[int]:
    low = -(2 ** (width - 1)) if signed else 0
    return st.integers(low, low + 2**width - 1).map(kind)


UINTS = st.one_of(st.just(0), st.integers(0, 255), st.integers(0, 2**32 - 1))
WHOLE = st.one_of(
    bits(UByte, 8),
    bits(UShort, 16),
    bits(UInt, 32),
    bits(ULong, 64),
    bits(Byte, 8, signed=True),
    bits(Short, 16, signed=True),
    bits(Int, 32, signed=True),
    bits(int, 64, signed=True),
    bits(Timestamp, 64, signed=True),
)
SIMPLE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    WHOLE,
    st.floats(allow_nan=False, width=32).map(Float),
    st.floats(allow_nan=False),
    st.characters(exclude_categories=["Cs"]).map(Char),
    TEXT,
    st.text(min_size=250, max_size=260),
    ASCII.map(Symbol),
    st.binary(max_size=20),
    st.binary(min_size=250, max_size=260),
    st.uuids(),
    st.sampled_from([4, 8, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)).map(Decimal),
)
KEYS = st.one_of(TEXT, ASCII.map(Symbol), WHOLE)
ARRAYS = st.one_of(
    st.lists(ASCII.map(Symbol), max_size=5).map(lambda items: Array(0xB3, items)),
    st.lists(st.one_of(TEXT, st.text(min_size=300, max_size=300)), max_size=4).map(lambda items: Array(0xB1, items)),
    st.lists(st.binary(max_size=9), max_size=5).map(lambda items: Array(0xB0, items)),
    st.lists(bits(UInt, 32), max_size=70).map(lambda items: Array(0x70, items)),
    st.lists(bits(ULong, 64), max_size=5).map(lambda items: Array(0x80, items)),
    st.lists(bits(Int, 32, signed=True), max_size=5).map(lambda items: Array(0x71, items)),
    st.lists(bits(int, 64, signed=True), max_size=5).map(lambda items: Array(0x81, items)),
    st.lists(bits(Short, 16, signed=True), max_size=5).map(lambda items: Array(0x61, items)),
    st.lists(st.booleans(), max_size=5).map(lambda items: Array(0x56, items)),
    st.lists(st.none(), max_size=5).map(lambda items: Array(0x40, items)),
    st.lists(st.uuids(), max_size=3).map(lambda items: Array(0x98, items, True, ULong(7))),
)


def _nest(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3),
        st.builds(Described, st.one_of(bits(ULong, 64), ASCII.map(Symbol)), inner),
        st.lists(st.lists(inner, max_size=2), max_size=3).map(lambda items: Array(0xD0, items)),
        st.lists(st.dictionaries(TEXT, inner, max_size=2), max_size=2).map(lambda items: Array(0xD1, items)),
        st.lists(ARRAYS, max_size=3).map(lambda items: Array(0xF0, items)),
    )


VALUES = st.recursive(st.one_of(SIMPLE, ARRAYS), _nest, max_leaves=12)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


NAMES = maybe(st.lists(ASCII.map(Symbol), max_size=3))
FIELDS = maybe(st.dictionaries(ASCII.map(Symbol), SIMPLE, max_size=3))
BOOLEANS = maybe(st.booleans())
UINT = maybe(UINTS)
ERRORS = maybe(st.builds(Error, ASCII, maybe(TEXT), FIELDS))
OUTCOMES = st.one_of(
    st.builds(Accepted),
    st.builds(Rejected, ERRORS),
    st.builds(Released),
    st.builds(Modified, BOOLEANS, BOOLEANS, FIELDS),
    st.builds(Declared, st.binary(max_size=32)),
)
STATES = maybe(
    st.one_of(
        st.just(Accepted()),
        OUTCOMES,
        st.builds(Received, UINTS, st.integers(0, 2**64 - 1)),
        st.builds(TransactionalState, st.binary(max_size=32), maybe(OUTCOMES)),
    )
)
TERMINUS = (maybe(TEXT), UINT, maybe(ASCII), UINT, BOOLEANS, FIELDS)
SOURCES = maybe(st.builds(Source, *TERMINUS, maybe(ASCII), FIELDS, STATES, NAMES, NAMES))
TARGETS = maybe(st.one_of(st.builds(Target, *TERMINUS, NAMES), st.builds(Coordinator, NAMES)))
UBYTES = maybe(st.integers(0, 255))
TRANSFERS = st.builds(
    Transfer,
    UINTS,
    UINT,
    maybe(st.binary(max_size=32)),
    st.one_of(st.none(), st.just(0), UINTS),
    BOOLEANS,
    BOOLEANS,
    st.one_of(st.none(), UBYTES),
    st.one_of(st.none(), STATES),
    BOOLEANS,
    BOOLEANS,
    BOOLEANS,
)
SMALL_TRANSFERS = st.builds(Transfer, UINTS, UINT, maybe(st.binary(max_size=32)), st.just(0), BOOLEANS, BOOLEANS)
DISPOSITIONS = st.builds(Disposition, st.booleans(), UINTS, UINT, BOOLEANS, STATES, BOOLEANS)
FLOWS = st.builds(Flow, UINT, UINTS, UINTS, UINTS, UINT, UINT, UINT, UINT, BOOLEANS, BOOLEANS, FIELDS)
PERFORMATIVES: st.SearchStrategy[Composite] = st.one_of(
    TRANSFERS,
    SMALL_TRANSFERS,
    DISPOSITIONS,
    FLOWS,
    st.builds(Open, TEXT, maybe(TEXT), UINT, maybe(st.integers(0, 65535)), UINT, NAMES, NAMES, NAMES, NAMES, FIELDS),
    st.builds(Begin, maybe(st.integers(0, 65535)), UINTS, UINTS, UINTS, UINT, NAMES, NAMES, FIELDS),
    st.builds(
        Attach,
        TEXT,
        UINTS,
        st.booleans(),
        UBYTES,
        UBYTES,
        SOURCES,
        TARGETS,
        FIELDS,
        BOOLEANS,
        UINT,
        maybe(st.integers(0, 2**64 - 1)),
        NAMES,
        NAMES,
        FIELDS,
    ),
    st.builds(Detach, UINTS, BOOLEANS, ERRORS),
    st.builds(End, ERRORS),
    st.builds(Close, ERRORS),
)
