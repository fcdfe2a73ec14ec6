"""Coverage-guided fuzzing of the STOMP codec: ``python tests/fuzz/fuzz_stomp_codec.py [libFuzzer options] [corpus]``.

The first three octets choose version, limits and cut size; the rest is the stream.  A finding is any exception but
FrameError, any difference between the fast and the clear way or between cuts, and memory beyond the limits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

with atheris.instrument_imports(include=["protocols"]):
    from protocols.stomp.codec.escapes import block_for, read_block
    from protocols.stomp.codec.frame_limits import FrameLimits
    from tests.support.protocols.stomp_octets import decode, decoder_of

VERSIONS = (10, 11, 12)
LIMITS = (FrameLimits(), FrameLimits(header_count=4, header_line_bytes=64, command_bytes=16, body_bytes=40))


def one_input(octets: bytes) -> None:
    if len(octets) < 3:
        return
    version = VERSIONS[octets[0] % 3]
    limits = LIMITS[octets[1] % 2]
    size = octets[2]
    stream = octets[3:]
    whole = decode(decoder_of(version, limits), stream)
    assert whole == decode(decoder_of(version, limits), stream, is_slow=True), "fast and slow differ"
    in_pieces = decoder_of(version, limits)
    cut = decode(in_pieces, stream, size)
    assert cut.frames == whole.frames, "cuts matter to the frames"
    assert (cut.error is None) == (whole.error is None), "cuts matter to the error"
    assert in_pieces.buffered_bytes() <= len(stream), "octets out of nowhere"
    if cut.error is not None:
        assert in_pieces.buffered_bytes() == 0, "a dead decoder keeps octets"
    for frame in whole.frames:
        read_block(frame.block)
        block_for(frame.block, version)


def main() -> None:
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
