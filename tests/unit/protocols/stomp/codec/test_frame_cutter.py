"""A turn's output, cut for a carrier that sends each frame by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frame_cutter import frames_of
from protocols.stomp.codec.frames import ERROR, MESSAGE, RECEIPT
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2

TEXTS = st.sampled_from(["a", "x:y", "line\nline", "content-length:3", "\\", ""])
HEADERS = st.lists(st.tuples(st.sampled_from(["id", "xcontent-length", "destination"]), TEXTS), max_size=3)
BODIES = st.sampled_from([b"", b"text", b"\0", b"a\0\nMESSAGE\n\n\0\n", b"\n\n\0\0\n", b"content-length:1\n\n"])


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    version = draw(st.sampled_from([VERSION_1_0, VERSION_1_1, VERSION_1_2]))
    command = draw(st.sampled_from([MESSAGE, RECEIPT, ERROR]))
    headers, body = draw(HEADERS), draw(BODIES)
    if version == VERSION_1_0:  # knows no escapes, so its adapter sends no line ends in headers
        headers = [(name, value.replace("\n", " ")) for name, value in headers]
    if draw(st.booleans()):
        headers.append(("content-length", str(len(body))))
    return encode(command, headers, body, version)


@given(st.lists(st.one_of(frames(), st.just(b"\n"))))
def test_each_frame_is_one_piece(pieces: list[bytes]) -> None:
    assert list(frames_of(b"".join(pieces))) == pieces
