"""What the decoder keeps, shares and forgets; what it reads is in tests/spec and tests/property."""

from __future__ import annotations

import tracemalloc

import pytest

from protocols.errors import FrameError, FrameTooLarge
from protocols.peer_times import NO_FRAME
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.escapes import block_for, escape, read_block
from protocols.stomp.codec.frame_limits import FrameLimits
from protocols.stomp.codec.frames import SEND, Frame
from protocols.stomp.codec.versions import VERSION_1_0, VERSION_1_1, VERSION_1_2
from tests.support.protocols.stomp_octets import decoder_of
from tests.support.turns.turn_lines import TurnLines


def next_of(decoder: Decoder) -> Frame:
    frame = decoder.next_frame()
    assert frame is not None
    return frame.kept()


def send(headers: bytes, body: bytes = b"") -> bytes:
    return b"SEND\ndestination:/queue/a\n" + headers + b"\n" + body + b"\0"


# Heads are shared.


def test_frames_that_differ_in_the_receipt_share_a_head() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(b"".join(send(b"receipt:%d\na:b\n" % number, b"x") for number in range(5)))
    frames = [next_of(decoder) for _ in range(5)]
    assert [frame.receipt for frame in frames] == [b"0", b"1", b"2", b"3", b"4"]
    assert all(frame.head is frames[0].head for frame in frames)


def test_frames_that_differ_in_the_content_length_share_a_head() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(b"".join(send(b"content-length:%d\n" % size, b"\0" * size) for size in range(5)))
    frames = [next_of(decoder) for _ in range(5)]
    assert [len(frame.body) for frame in frames] == [0, 1, 2, 3, 4]
    assert all(frame.head is frames[0].head for frame in frames)
    assert frames[0].head.content_length >= 0


def test_with_and_without_content_length_are_two_heads() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data((send(b"content-length:1\n", b"x") + send(b"", b"x")) * 2)
    lengths = [next_of(decoder).head.content_length for _ in range(4)]
    assert lengths == [1, -1, 1, -1]


def test_producers_of_several_destinations_share_heads_too() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(b"".join(b"SEND\ndestination:%d\n\n\0" % (number % 3) for number in range(9)))
    heads = [next_of(decoder).head for _ in range(9)]
    assert [head.headers["destination"] for head in heads] == ["0", "1", "2"] * 3
    assert len({id(head) for head in heads}) == 3


def test_peers_whose_lines_end_in_cr_lf_share_heads_too() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(b"".join(b"SEND\r\na:b\r\nreceipt:%d\r\n\r\n\0\r\n" % number for number in range(4)))
    frames = [next_of(decoder) for _ in range(4)]
    assert [frame.receipt for frame in frames] == [b"0", b"1", b"2", b"3"]
    assert frames[3].head is frames[1].head


def test_what_the_session_mapped_stays_with_the_head() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(send(b"receipt:1\n") + send(b"receipt:2\n"))
    mapped = object()
    next_of(decoder).head.mapped = mapped
    assert next_of(decoder).head.mapped is mapped


def test_another_version_reads_the_same_head_anew() -> None:
    decoder = decoder_of(VERSION_1_2)
    octets = send(b"a: b\\n \nreceipt:1\n")
    decoder.receive_data(octets * 3)
    assert [next_of(decoder).head.headers["a"] for _ in range(3)] == [" b\n "] * 3
    decoder.version = VERSION_1_0
    decoder.receive_data(octets)
    assert next_of(decoder).head.headers["a"] == "b\\n"


def test_the_version_counts_from_the_next_frame_of_the_same_read() -> None:
    """Clients send on without waiting for CONNECTED."""
    decoder = Decoder()
    decoder.receive_data(b"CONNECT\na: b\\c\n\n\0SEND\na: b\\c\n\n\0")
    assert next_of(decoder).head.headers == {"a": "b\\c"}
    decoder.version = VERSION_1_2
    assert next_of(decoder).head.headers == {"a": " b:"}


def test_heads_are_not_kept_without_end() -> None:
    decoder = decoder_of(VERSION_1_2)
    for number in range(300):
        decoder.receive_data(send(b"a:%d\n" % number + b"b:" + b"x" * 900 + b"\n"))
        next_of(decoder)
    assert 0 < len(decoder._heads) <= 256


def test_long_heads_are_not_kept() -> None:
    decoder = decoder_of(VERSION_1_2)
    decoder.receive_data(send(b"a:" + b"x" * 1024 + b"\n") * 2)
    next_of(decoder)
    next_of(decoder)
    assert not decoder._heads


# Limits.


def test_limits_before_login() -> None:
    before = FrameLimits().before_login()
    assert (before.header_count, before.body_bytes) == (100, 65536)
    small = FrameLimits(header_count=5, body_bytes=10).before_login()
    assert (small.header_count, small.body_bytes) == (5, 10)


@pytest.mark.parametrize("name", ["header_count", "header_line_bytes", "command_bytes"])
def test_limits_that_no_frame_could_keep(name: str) -> None:
    with pytest.raises(AssertionError, match=f"{name} is 1, at least"):
        FrameLimits(**{name: 1})


def test_limits_may_be_raised_at_login() -> None:
    decoder = Decoder(FrameLimits(body_bytes=10))
    decoder.limits = FrameLimits(body_bytes=20)
    decoder.receive_data(send(b"content-length:20\n", b"x" * 20))
    assert len(next_of(decoder).body) == 20


@pytest.mark.parametrize("headers", [b"", b"content-length:20\n"])
def test_limits_that_fall_hold_for_known_heads(headers: bytes) -> None:
    decoder = Decoder(FrameLimits(body_bytes=20))
    decoder.receive_data(send(headers, b"x" * 20) * 4)
    next_of(decoder)
    next_of(decoder)
    next_of(decoder)
    decoder.limits = FrameLimits(body_bytes=19)
    with pytest.raises(FrameTooLarge):
        decoder.next_frame()


def test_a_known_head_is_measured_again_by_new_limits() -> None:
    decoder = Decoder()
    decoder.receive_data(send(b"a:1\nb:2\n") * 3)
    for _ in range(3):
        next_of(decoder)
    decoder.limits = FrameLimits(header_count=2)
    decoder.receive_data(send(b"a:1\nb:2\n"))
    with pytest.raises(FrameTooLarge, match="more than 2 headers"):
        decoder.next_frame()


def test_a_body_too_long_for_a_known_head() -> None:
    decoder = Decoder(FrameLimits(body_bytes=20))
    decoder.receive_data(send(b"", b"x") * 3 + send(b"", b"x" * 21))
    for _ in range(3):
        next_of(decoder)
    with pytest.raises(FrameTooLarge, match="longer than 20"):
        decoder.next_frame()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_body_longer_than_its_content_length_behind_good_ones(count: int) -> None:
    decoder = Decoder()
    decoder.receive_data(send(b"content-length:1\n", b"x") * count + send(b"content-length:1\n", b"xy"))
    for _ in range(count):
        next_of(decoder)
    with pytest.raises(FrameError, match="after the 1 of content-length is 0x79"):
        decoder.next_frame()


def test_a_content_length_is_refused_before_the_body_comes() -> None:
    decoder = Decoder(FrameLimits(body_bytes=20))
    decoder.receive_data(b"SEND\ncontent-length:21\n\n")
    with pytest.raises(FrameTooLarge, match="is 21, the limit is 20"):
        decoder.next_frame()


# Frames in parts.

PARTIAL = [
    pytest.param(b"", False, id="nothing"),
    pytest.param(b"\r\n\n\0", False, id="heart-beats"),
    pytest.param(b"S", True, id="command"),
    pytest.param(b"SEND\na:b\n", True, id="headers"),
    pytest.param(b"SEND\na:b\n\n", True, id="body to come"),
    pytest.param(b"SEND\ncontent-length:3\n\nabc", True, id="NUL to come"),
    pytest.param(b"SEND\ncontent-length:3\n\nabc\0", False, id="whole"),
    pytest.param(b"SEND\n\n\0\nABORT\n\n\0A", True, id="the third"),
]


@pytest.mark.parametrize(("octets", "is_partial"), PARTIAL)
def test_a_frame_under_way_has_a_number(octets: bytes, is_partial: bool) -> None:
    decoder = Decoder()
    decoder.receive_data(octets)
    while decoder.next_frame() is not None:
        pass
    assert (decoder.partial_number() != NO_FRAME) == is_partial


def test_a_send_like_the_last_one_that_came_alone_leaves_nothing() -> None:
    decoder = Decoder()
    send = b"SEND\ndestination:/queue/q\n\nbody\0"
    found: list[bool] = []
    for octets in (send, send, send, send + b"\n", send + b"S"):
        decoder.receive_data(octets)
        frame = decoder.next_frame()
        assert frame is not None and frame.body == b"body"
        found.append(decoder.is_drained)
        assert decoder.buffered_bytes() == 0 or not found[-1]
        if not found[-1]:
            assert decoder.next_frame() is None
    assert found == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("octets", "is_drained"),
    [
        pytest.param(b"ACK\nid:7\n\n\0", True, id="alone"),
        pytest.param(b"ACK\nid:7\n\n\0\n", False, id="with an EOL behind it"),
        pytest.param(b"ACK\nid:7\n\n\0A", False, id="with the next"),
    ],
)
def test_an_ack_that_came_alone_leaves_nothing(octets: bytes, is_drained: bool) -> None:
    decoder = Decoder()
    decoder.receive_data(octets)
    frame = decoder.next_frame()
    assert (frame is not None, decoder.is_drained) == (True, is_drained)
    decoder.receive_data(b"CK\nid:8\n\n\0")
    assert not decoder.is_drained, "who looks has not seen what came since"


def test_buffered_bytes_counts_what_is_not_a_frame_yet() -> None:
    decoder = Decoder()
    decoder.receive_data(b"SEND\n")
    assert decoder.buffered_bytes() == 5
    assert decoder.next_frame() is None
    assert decoder.buffered_bytes() == 5
    decoder.receive_data(b"\nabc")
    decoder.receive_data(b"de")
    assert decoder.buffered_bytes() == 11
    assert decoder.next_frame() is None
    assert decoder.buffered_bytes() == 5  # the head is parsed
    decoder.receive_data(b"\0")
    assert next_of(decoder).body == b"abcde"
    assert decoder.buffered_bytes() == 0


def test_the_body_of_a_frame_that_has_none_is_not_kept() -> None:
    decoder = Decoder()
    tracemalloc.start()
    try:
        decoder.receive_data(b"ABORT\n\n")
        for _ in range(100):
            decoder.receive_data(b"x" * 65536)
            assert decoder.next_frame() is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("head", [b"SEND\n\n", b"SEND\ncontent-length:100000\n\n", b"ABORT\n\n"])
def test_a_body_in_tiny_reads_costs_no_more_than_itself(head: bytes) -> None:
    decoder = Decoder()
    decoder.receive_data(head)
    assert decoder.next_frame() is None
    tracemalloc.start()
    try:
        for number in range(30_000):
            decoder.receive_data(b"%02d" % (number % 100))
            assert decoder.next_frame() is None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 150_000


@pytest.mark.parametrize("held", [b"", b"SEND\na:b"], ids=["fast path", "after a partial head"])
def test_a_read_of_octets_between_frames_costs_no_line_for_each(held: bytes) -> None:
    decoder = Decoder()
    decoder.receive_data(held)
    assert decoder.next_frame() is None
    decoder.receive_data((b"\n\n\0" if held else b"") + b"\n\r\n\0" * 50_000 + b"SEND\n")
    with TurnLines() as lines:
        while decoder.next_frame() is not None:
            pass
    assert lines.longest < 1_000
    assert decoder.buffered_bytes() == len(b"SEND\n")


def test_a_large_body_is_put_together_once() -> None:
    decoder = Decoder()
    size = 20 * 1024 * 1024
    decoder.receive_data(b"SEND\ncontent-length:%d\n\n" % size)
    chunk = bytes(65536)
    tracemalloc.start()
    try:
        for _ in range(size // len(chunk)):
            assert decoder.next_frame() is None
            decoder.receive_data(chunk)
        assert decoder.next_frame() is None
        decoder.receive_data(b"\0")
        frame = next_of(decoder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frame.body == bytes(size)
    # The reads belong to the caller here; the body is the only copy, with room to grow by an eighth.
    assert peak < size * 9 // 8 + 1_000_000


def test_big_and_small_reads_of_one_body_keep_their_order() -> None:
    decoder = Decoder()
    parts = [b"a", b"b" * 5000, b"c", b"d" * 70000, b"e", b"f" * 4096, b"g" * 4095, b"h"]
    decoder.receive_data(b"SEND\n\n")
    for part in parts:
        decoder.receive_data(part)
        assert decoder.next_frame() is None
    decoder.receive_data(b"i\0")
    assert next_of(decoder).body == b"".join(parts) + b"i"


@pytest.mark.parametrize("size", [1, 7, 4095, 4096, 4097])
def test_a_long_head_in_pieces(size: int) -> None:
    lines = b"".join(b"name%d:%b\n" % (number, b"v" * 200) for number in range(100))
    octets = b"SEND\n" + lines + b"\nbody\0ABORT\n\n\0"
    decoder = Decoder()
    frames: list[Frame] = []
    for start in range(0, len(octets), size):
        decoder.receive_data(octets[start : start + size])
        while (frame := decoder.next_frame()) is not None:
            frames.append(frame)
    assert len(frames) == 2
    assert frames[0].command == SEND
    assert frames[0].head.block == lines
    assert frames[0].body == b"body"


def test_every_call_after_an_error_raises_it_again() -> None:
    decoder = Decoder()
    decoder.receive_data(b"NONSENSE\n\n\0")
    for _ in range(3):
        with pytest.raises(FrameError, match="unknown command 'NONSENSE'"):
            decoder.next_frame()
        decoder.receive_data(b"ABORT\n\n\0")
    assert decoder.buffered_bytes() == 0


# Blocks.


def test_a_plain_block_is_the_same_for_all() -> None:
    block = b"a:b\nc: d\n"
    assert all(block_for(block, version) is block for version in (VERSION_1_0, VERSION_1_1, VERSION_1_2))


def test_a_block_for_other_versions() -> None:
    block = b"a\\cb:1\\c2\\n3\\\\r\\r4\nplain:5\n"
    assert block_for(block, VERSION_1_2) is block
    assert block_for(block, VERSION_1_1) == b"a\\cb:1\\c2\\n3\\\\r\r4\nplain:5\n"
    assert block_for(block, VERSION_1_0) == b"a b:1:2 3\\r\r4\nplain:5\n"


def test_read_block() -> None:
    assert read_block(b"") == []
    assert read_block(b"a\\cb:1\\c2\nc:\n") == [("a:b", "1:2"), ("c", "")]


def test_escape_of_each_version() -> None:
    assert [escape("\\\n:\r\0", version) for version in (VERSION_1_0, VERSION_1_1, VERSION_1_2)] == [
        b"\\ :\r ",
        b"\\\\\\n\\c\r ",
        b"\\\\\\n\\c\\r ",
    ]


def test_a_version_that_does_not_exist() -> None:
    with pytest.raises(AssertionError, match="version is 13"):
        Decoder().version = 13


@pytest.mark.parametrize("rest", [b"", b"\n", b"SEN"])
def test_an_idle_connection_does_not_keep_its_last_read(rest: bytes) -> None:
    decoder = Decoder()
    tracemalloc.start()
    try:
        decoder.receive_data(send(b"", b"x" * 1_000_000) + rest)
        while decoder.next_frame() is not None:
            pass
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
@pytest.mark.parametrize(("version", "passcode"), [("", "a b"), ("accept-version:1.1\n", " a b\t ")])
def test_credentials_keep_their_blanks_where_the_version_trims_none(command: str, version: str, passcode: str) -> None:
    decoder = Decoder()
    decoder.receive_data(f"{command}\npasscode: a b\t \nlogin: a b\t \nclient-id: c \n{version}\n\0".encode())
    frame = decoder.next_frame()
    assert frame is not None
    headers = frame.head.headers
    assert (headers["login"], headers["passcode"], headers["client-id"]) == (passcode, passcode, "c")
