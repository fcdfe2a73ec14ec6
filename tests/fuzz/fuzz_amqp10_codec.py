"""Coverage-guided fuzzing of the AMQP 1.0 codec.

Run ``python tests/fuzz/fuzz_amqp10_codec.py [libFuzzer options] [corpus]``.

The first two octets choose layer and cut size; the rest is the stream behind a protocol header.  A finding is any
exception but AmqpError, any difference between the fast and the clear way or between cuts, and memory beyond limits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

with atheris.instrument_imports(include=["protocols"]):
    from protocols.amqp.v1_0.wire.errors import DecodeError
    from protocols.amqp.v1_0.wire.frames.frame_decoder import Decoder
    from protocols.amqp.v1_0.wire.frames.layout import AMQP_LAYER, SASL_LAYER, protocol_header
    from protocols.amqp.v1_0.wire.types.value_decoder import decode
    from protocols.amqp.v1_0.wire.types.value_encoder import encode
    from tests.support.protocols.amqp_octets import decode_stream, shape

MAX_FRAME_SIZE = 512


def one_input(octets: bytes) -> None:
    if len(octets) < 2:
        return
    layer = SASL_LAYER if octets[0] & 1 else AMQP_LAYER
    stream = protocol_header(layer) + octets[2:]
    whole = decode_stream(Decoder(MAX_FRAME_SIZE), stream)
    assert whole == decode_stream(Decoder(MAX_FRAME_SIZE), stream, is_slow=True), "fast and clear differ"
    in_pieces = Decoder(MAX_FRAME_SIZE)
    cut = decode_stream(in_pieces, stream, octets[1] + 1)
    assert cut == whole, "cuts matter"
    assert in_pieces.buffered_bytes() <= len(stream), "octets out of nowhere"
    try:
        value, _ = decode(octets, 2)
    except DecodeError:
        return
    assert shape(decode(encode(value))[0]) == shape(value), "what is written is not what was read"


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
