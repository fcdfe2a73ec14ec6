"""AMQP composites as values, for places that hold any value, such as a map."""

from __future__ import annotations

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import encode_composite
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.values import Described


def described_of(composite: Composite) -> Described:
    value, _ = decode(encode_composite(composite))
    assert isinstance(value, Described), "a composite is a described list"
    return value
