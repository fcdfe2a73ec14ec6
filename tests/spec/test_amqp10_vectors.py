"""Byte vectors of AMQP 1.0: what each one is, and that we write the same octets where there is one smallest form."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.amqp.v1_0.wire.composites.composite import Composite
from protocols.amqp.v1_0.wire.composites.composite_codec import COMPOSITES
from protocols.amqp.v1_0.wire.errors import AmqpError, symbol_for
from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
from protocols.amqp.v1_0.wire.frames.frame_encoder import encode_frame, encode_sasl_frame
from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
from protocols.amqp.v1_0.wire.types.value_decoder import decode
from protocols.amqp.v1_0.wire.types.value_encoder import encode
from protocols.amqp.v1_0.wire.types.values import Array, Described, Symbol
from tests.support.protocols.amqp_octets import shape, value_of
from tests.support.protocols.amqp_vectors import VECTORS, Vector

# Captured frames whose writer did not use the smallest form: a wide map, one symbol instead of an array of one.
WIDER = ("cap13-attach", "cap15-attach", "msg-proton-binary")


def of(*groups: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "vector", [pytest.param(one, id=one["id"]) for one in VECTORS if one["group"] in groups]
    )


@of("primitive", "primitive-alternative")
def test_value(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    value, end = decode(octets)
    assert end == len(octets)
    assert shape(value) == shape(value_of(vector["decoded"]))
    if vector["preferred_encoding"]:
        assert encode(value) == octets
    else:
        assert shape(decode(encode(value))[0]) == shape(value)


@of("message")
def test_sections(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    sections, at = [], 0
    while at < len(octets):
        section, at = decode(octets, at)
        sections.append(section)
    assert shape(sections) == shape([value_of(one) for one in vector["sections"]])
    if vector["preferred_encoding"] and vector["id"] not in WIDER:
        assert b"".join(map(encode, sections)) == octets


@of("frame", "captured", "trace")
def test_frame(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    if octets[:4] == b"AMQP":
        decoder = Decoder(2**20)
        decoder.receive_data(octets)
        header = decoder.next_frame()
        assert header is not None
        assert protocol_header(octets[4]) == octets
        return
    decoder, frame = first_frame(octets)
    if "performative" not in vector:
        assert frame.NAME == "heartbeat"
        return
    names = {composite.NAME: composite for composite in COMPOSITES}
    composite = names[f"amqp:{vector['performative']}:list"]
    assert type(frame) is composite
    assert decoder.channel == vector["frame"]["channel"]
    fields = vector.get("fields", {})
    for name, _, _ in composite.FIELDS:
        said = fields.get(name)
        seen = getattr(frame, name.replace("-", "_"))
        assert plain(seen) == (None if said is None else plain(value_of(said))), name
    if vector["preferred_encoding"] and vector["id"] not in WIDER:
        written = encode_sasl_frame(frame) if octets[5] else encode_frame(decoder.channel, frame, decoder.payload)
        assert written == octets


@of("invalid")
def test_refused(vector: Vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    with pytest.raises(AmqpError) as caught:
        decode(octets) if vector["input"] == "value" else first_frame(octets, 512)
    assert symbol_for(caught.value) in vector["expect"].split(" or ")


def first_frame(octets: bytes, max_frame_size: int = 2**20) -> tuple[Decoder, Composite]:
    decoder = Decoder(max_frame_size)
    decoder.receive_data(protocol_header(SASL_LAYER if octets[5] == 1 else AMQP_LAYER) + octets)
    decoder.next_frame()
    frame = decoder.next_frame()
    assert frame is not None
    return decoder, frame


def plain(value: Any) -> Any:
    """Return a field in plain values: composites as descriptor and fields, a list of one symbol as that symbol."""
    if isinstance(value, Composite):
        fields = [plain(getattr(value, name.replace("-", "_"))) for name, _, _ in value.FIELDS]
        while fields and fields[-1] is None:
            fields.pop()
        return (value.CODE, fields)
    if isinstance(value, Described):
        return (value.descriptor, plain(value.value))
    if isinstance(value, Array):
        value = value.items
    if isinstance(value, list):
        if len(value) == 1 and isinstance(value[0], Symbol):
            return value[0]
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value
