"""Laws of the STOMP codec: what is written is read, cuts do not matter, the fast ways give what the clear one gives."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocols.errors import FrameError
from protocols.peer_times import NO_FRAME
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.escapes import block_for, escape, read_block, unescape
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import BODIED, COMMANDS, CONTROL_HEADERS, MESSAGE, SEND, VERSIONLESS, Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from tests.support.protocols.stomp_octets import Outcome, Seen, decode, decoder_of, seen

VERSIONS = st.sampled_from([VERSION_1_0, VERSION_1_1, VERSION_1_2])
LIMITS = FrameLimits(header_count=6, header_line_bytes=64, command_bytes=16, body_bytes=60)

TEXT = st.text(st.one_of(st.sampled_from("ab:\\\n\r ntrc"), st.characters(exclude_categories=["Cs"])), max_size=12).map(
    lambda text: text.replace("\0", "")
)


def fits(name: str, value: str, version: int) -> bool:
    """Whether a version can carry this header at all."""
    if name in ("", "receipt", "content-length"):
        return False
    if version == VERSION_1_2:
        return True
    if value.endswith("\r") or (not value and name.endswith("\r")):
        return False  # taken for a part of the line end
    if version == VERSION_1_1:
        return True
    return "\n" not in name + value and ":" not in name and value == value.strip(" \t")


@st.composite
def headers_of(draw: st.DrawFn, version: int) -> list[tuple[str, str]]:
    pairs = draw(st.lists(st.tuples(TEXT, TEXT), max_size=5, unique_by=lambda pair: pair[0]))
    return [(name, value) for name, value in pairs if fits(name, value, version)]


@st.composite
def written(draw: st.DrawFn) -> tuple[int, int, list[tuple[str, str]], bytes]:
    command = draw(st.sampled_from(sorted(COMMANDS.values())))
    version = draw(VERSIONS)
    headers = draw(headers_of(VERSION_1_0 if command in VERSIONLESS else version))
    return command, version, headers, draw(st.binary(max_size=40)) if command in BODIED else b""


@given(written())
def test_what_is_written_is_read(frame: tuple[int, int, list[tuple[str, str]], bytes]) -> None:
    command, version, headers, body = frame
    decoder = decoder_of(version)
    decoder.receive_data(encode(command, headers, body, version))
    got = decoder.next_frame()
    assert got is not None
    read = dict(got.head.headers) if got.id is None else {"id": got.id.decode()}
    assert (got.command, read, got.body) == (command, dict(headers), body)
    assert decoder.next_frame() is None
    assert decoder.partial_number() == NO_FRAME


@given(TEXT, st.sampled_from([VERSION_1_1, VERSION_1_2]))
def test_unescape_undoes_escape(text: str, version: int) -> None:
    assert unescape(escape(text, version).decode(), version) == text


@given(TEXT, VERSIONS)
def test_unescape_refuses_or_returns(text: str, version: int) -> None:
    try:
        plain = unescape(text, version)
    except FrameError as error:
        assert "unknown escape" in str(error)  # noqa: PT017 - it may also be no error
    else:
        assert plain.count("\\") <= text.count("\\")


@given(st.data(), VERSIONS)
def test_a_block_is_canonical_whatever_the_sender_speaks(data: st.DataObject, version: int) -> None:
    headers = data.draw(headers_of(version))
    decoder = decoder_of(version)
    decoder.receive_data(encode(SEND, headers, b"", version))
    frame = decoder.next_frame()
    assert frame is not None
    passed = [(name, value) for name, value in headers if name not in CONTROL_HEADERS]
    assert read_block(frame.head.block) == passed
    again = encode(SEND, passed, b"", VERSION_1_2)
    assert again == b"SEND\n" + frame.head.block + b"\n\0\n"


@given(st.data(), VERSIONS, VERSIONS)
def test_a_block_reaches_a_peer_of_another_version(data: st.DataObject, sender: int, receiver: int) -> None:
    headers = [
        pair for pair in data.draw(headers_of(sender)) if fits(*pair, receiver) and pair[0] not in CONTROL_HEADERS
    ]
    decoder = decoder_of(sender)
    decoder.receive_data(encode(SEND, headers, b"", sender))
    frame = decoder.next_frame()
    assert frame is not None
    peer = decoder_of(receiver)
    peer.receive_data(b"MESSAGE\n" + block_for(frame.head.block, receiver) + b"\n\0")
    received = peer.next_frame()
    assert received is not None
    assert received.command == MESSAGE
    assert received.head.headers == dict(headers)
    if frame.head.is_plain:
        assert block_for(frame.head.block, receiver) == frame.head.block


# Octets as clients send them, and nearly so: heads that repeat, with lines that the fast ways must not misread.
LINES = st.sampled_from(
    [
        b"destination:/queue/a",
        b"destination:/queue/b",
        b"persistent:true",
        b"a:b",
        b"a: b:c ",
        b"a:x\\cy",
        b"a:x\\ty",
        b"\xc3\xa4:\xc3\xa4",
        b"\xff:1",
        b":1",
        b"nothing",
        b"x\r:1",
        b"receipt:1",
        b"receipt:2",
        b"receipt:c-3",
        b"receipt: 4 ",
        b"receipt:",
        b"receipt:5\\c5",
        b"receipt:5\\t5",
        b"receipt:\xc3\xa4",
        b"receipt:\xff",
        b"receipt:" + b"6" * 56,
        b"receipt:" + b"6" * 57,
        b"content-length:0",
        b"content-length:1",
        b"content-length:4",
        b"content-length: 4",
        b"content-length:04",
        b"content-length:61",
        b"content-length:-1",
        b"id:1",
        b"id:c-2",
        b"id: 3",
        b"id:ID:4",
        b"id:",
        b"id:5\\c",
        b"id:\xff",
        b"id:" + b"7" * 61,
        b"id:" + b"7" * 62,
        b"transaction:t",
    ]
)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n"])
BODIES = st.sampled_from([b"", b"", b"x", b"abcd", b"a\0bc", b"\n\n", b"\r\n\r\n", b"x" * 60, b"x" * 61])
FILLERS = st.sampled_from([b"", b"", b"\n", b"\r\n", b"\0"])
NAMES_MOSTLY = st.sampled_from(
    [b"SEND"] * 6 + [b"ACK"] * 3 + [b"NACK", b"ABORT", b"CONNECT", b"MESSAGE", b"XX", b"S", b"A"]
)


@st.composite
def raw_frames(draw: st.DrawFn) -> bytes:
    name = draw(NAMES_MOSTLY)
    end = draw(ENDS)
    lines = draw(st.lists(LINES, max_size=4))
    head = end.join([name, *lines])
    frames: list[bytes] = []
    for body in draw(st.lists(BODIES, min_size=1, max_size=4)):
        mended = head
        if draw(st.booleans()):
            mended = head.replace(b"receipt:1", b"receipt:%d" % draw(st.integers(10, 20)))
        if draw(st.booleans()):
            mended = mended.replace(b"content-length:4", b"content-length:%d" % len(body))
        frames.append(mended + end + end + body + b"\0" + draw(FILLERS))
    return b"".join(frames)


STREAMS = st.lists(raw_frames(), min_size=1, max_size=6).map(b"".join)
SIZES = st.one_of(st.just(0), st.integers(1, 200))


@settings(max_examples=400)
@given(STREAMS, VERSIONS, SIZES)
@example(b"SEND\na:b\nreceipt:1\n\n\0" * 3 + b"SEND\na:b\nreceipt:1\\t\n\n\0", VERSION_1_2, 0)
@example(b"SEND\nreceipt:1\n\r\nx\n\n\0" * 3, VERSION_1_2, 0)
@example(b"SEND\na:b\n\r\nc:d\n\n\0" * 3, VERSION_1_2, 0)
@example(b"SEND\n\r\ncontent-length:1\n\nx\0" * 3, VERSION_1_2, 0)
@example(b"SEND\ncontent-length:1\n\nx\0SEND\n\nx\0" * 3, VERSION_1_2, 0)
@example(b"SEND\na:b\ncontent-length:1\n\nx\0SEND\ncontent-length:1\na:b\n\nx\0SEND\na:b\n\nx\0" * 2, VERSION_1_2, 0)
@example(b"SEND\nreceipt:1\nreceipt:2\n\nx\0SEND\nreceipt:2\n\nx\0" * 3, VERSION_1_2, 0)
def test_fast_is_slow(octets: bytes, version: int, size: int) -> None:
    fast = decode(decoder_of(version, LIMITS), octets, size)
    slow = decode(decoder_of(version, LIMITS), octets, size, is_slow=True)
    assert fast == slow


@settings(max_examples=400)
@given(STREAMS, VERSIONS, st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 20))
@example(b"NACK\nid" + b"x" * 80 + b":1\n", VERSION_1_2, [1], 0)  # found by the fuzzer: refused only in some cuts
def test_cut_points_do_not_matter(octets: bytes, version: int, cuts: list[int], missing: int) -> None:
    octets = octets[: len(octets) - missing]
    whole = decode(decoder_of(version, LIMITS), octets)
    decoder = decoder_of(version, LIMITS)
    frames: list[Seen] = []
    error: tuple[str, str] | None = None
    start = number = 0
    try:
        while start < len(octets):
            size = cuts[number % len(cuts)]
            decoder.receive_data(octets[start : start + size])
            start += size
            number += 1
            while (frame := decoder.next_frame()) is not None:
                frames.append(seen(frame))
    except FrameError as caught:
        error = (caught.condition, str(caught))
    assert frames == whole.frames
    # Of two faults in one frame the first to come may be the other one.
    assert (error is None) == (whole.error is None)


@given(STREAMS, VERSIONS, st.integers(1, 50))
def test_reads_may_wait(octets: bytes, version: int, size: int) -> None:
    """Octets of many reads, frames asked for only then."""
    whole = decode(decoder_of(version, LIMITS), octets)
    decoder = decoder_of(version, LIMITS)
    for start in range(0, len(octets), size):
        decoder.receive_data(octets[start : start + size])
    late = decode(decoder, b"")
    assert late.frames == whole.frames
    assert (late.error is None) == (whole.error is None)


@given(STREAMS, STREAMS, VERSIONS, VERSIONS)
def test_nothing_is_remembered_across_versions(first: bytes, second: bytes, before: int, after: int) -> None:
    decoder = decoder_of(before, LIMITS)
    if decode(decoder, first).error is not None or decoder.partial_number() != NO_FRAME:
        return
    decoder.version = after
    assert decode(decoder, second) == decode(decoder_of(after, LIMITS), second)


@given(STREAMS, VERSIONS)
@example(b"ACK\ncontent-length:0\nid:1\n\n\0", VERSION_1_0)
def test_frames_survive_a_second_journey(octets: bytes, version: int) -> None:
    decoder = decoder_of(version)
    decoder.receive_data(octets)
    try:
        while (frame := decoder.next_frame()) is not None:
            again = _again(frame, version)
            assert again is not None
            assert (again.command, again.head.headers, again.body) == (frame.command, frame.head.headers, frame.body)
            assert (again.receipt, again.id) == (frame.receipt, frame.id)
            assert again.head.block == frame.head.block
    except FrameError:
        pass


def _again(frame: Frame, version: int) -> Frame | None:
    if frame.command in VERSIONLESS:
        version = VERSION_1_0
    headers = list(frame.head.headers.items())
    if frame.id is not None:
        headers.append(("id", frame.id.decode()))
    if frame.receipt is not None:
        headers.append(("receipt", unescape(frame.receipt.decode(), version)))
    decoder = decoder_of(version)
    decoder.receive_data(encode(frame.command, headers, frame.body, version))
    return decoder.next_frame()


@given(st.binary(max_size=400), VERSIONS, SIZES)
def test_any_octets_give_frames_or_one_clear_error(octets: bytes, version: int, size: int) -> None:
    outcome: Outcome = decode(decoder_of(version, LIMITS), octets, size)
    if outcome.error is not None:
        assert outcome.error[1].isprintable()
        assert len(outcome.error[1]) < 250


@given(
    st.lists(st.binary(min_size=1, max_size=100), max_size=60), st.sampled_from([b"", b"SEND\n", b"SEND\n\n", b"A:"])
)
def test_garbage_is_never_kept_beyond_the_limits(reads: list[bytes], start: bytes) -> None:
    decoder = Decoder(LIMITS)
    most = 16 + 6 * 66 + 60 + 100 + 4
    try:
        for octets in [start, *reads]:
            decoder.receive_data(octets)
            while decoder.next_frame() is not None:
                pass
            assert decoder.buffered_bytes() <= most
    except FrameError:
        assert decoder.buffered_bytes() == 0
