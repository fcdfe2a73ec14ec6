"""Octets that are not STOMP: each is refused, with a text that helps, in whatever pieces it comes."""

from __future__ import annotations

import pytest

from protocols.errors import FrameError
from protocols.peer_times import NO_FRAME
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.frame_limits import FrameLimits
from tests.support.protocols.stomp_octets import decode, decoder_of

LIMITS = FrameLimits(header_count=3, header_line_bytes=64, command_bytes=16, body_bytes=100)
MALFORMED = "malformed-frame"
TOO_LARGE = "frame-too-large"


def example(name: str, octets: bytes, text: str, condition: str = MALFORMED, version: int = 12) -> object:
    return pytest.param(version, octets, condition, text, id=name)


EXAMPLES = [
    # Commands.
    example("command: unknown", b"PUBLISH\n\n\0", "unknown command 'PUBLISH'; allowed are CONNECT, STOMP, SEND,"),
    example("command: small letters", b"send\n\n\0", "unknown command 'send'; allowed are CONNECT,"),
    example("command: blank behind", b"SEND \n\n\0", "a command line of 5 octets; allowed are"),
    example("command: blank before", b" SEND\n\n\0", "a command cannot begin with octet 0x20; allowed are CONNECT,"),
    example("command: only the beginning of one", b"SEN\n\n\0", "unknown command 'SEN'; allowed"),
    example("command: not shown if it may be a body", b'{"a":1}\n\n\0', "a command line of 7 octets; allowed are"),
    example("command: a letter of UTF-8", "Ärger\n\n\0".encode(), "a command cannot begin with octet 0xc3"),
    example("command: without an end", b"A" * 17, "the command line is longer than 16 octets", TOO_LARGE),
    example("command: too long", b"A" * 17 + b"\n\n\0", "the command line is longer than 16 octets", TOO_LARGE),
    example(
        "command: TLS ClientHello",
        bytes.fromhex("16030100c8010000c40303"),
        "this looks like TLS; this port speaks STOMP in the clear",
    ),
    example("command: HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this looks like HTTP; this port speaks STOMP"),
    example("command: HTTP without more", b"GET / HTTP/1.1\r\n", "this looks like HTTP; this port speaks STOMP"),
    example("command: AMQP", b"AMQP\0\1\0\0", "this looks like AMQP; this port speaks STOMP"),
    example("command: NUL in it", b"DISCONNECT\0", "a NUL comes before the empty line that ends the headers"),
    # Headers.
    example("header: no colon", b"SEND\na:b\nsecret\n\n\0", "header line 2 has no colon; allowed is name:value"),
    example("header: no colon, 1.0", b"SEND\n a\n\n\0", "header line 1 has no colon; allowed is", version=10),
    example("header: empty name", b"SEND\na:b\n:c\n\n\0", "header line 2 has an empty name; allowed is name:value"),
    example("header: empty name, escaped", b"SEND\n:\\n\n\n\0", "header line 1 has an empty name; allowed is"),
    example("header: not UTF-8", b"SEND\na:b\nc:\xff\n\n\0", "header line 2 is not valid UTF-8"),
    example("header: receipt not UTF-8", b"SEND\nreceipt:\xff\n\n\0", "header line 1 is not valid UTF-8"),
    example("header: half a letter", b"SEND\na:\xc3\n\n\0", "header line 1 is not valid UTF-8"),
    example("header: NUL", b"SEND\na:b\0c\n\n\0", "a NUL comes before the empty line that ends the headers"),
    example(
        "header: NUL in a receipt", b"SEND\nreceipt:\0\n\n\0", "a NUL comes before the empty line that ends the headers"
    ),
    example("header: NUL in the id", b"ACK\nid:\0\n\n\0", "a NUL comes before the empty line that ends the headers"),
    example("header: no empty line", b"SEND\na:b\n\0", "a NUL comes before the empty line that ends the headers"),
    example("header: too many", b"SEND\na:1\nb:2\nc:3\nd:4\n\n\0", "more than 3 headers", TOO_LARGE),
    example("header: too many, without an end", b"SEND\n" + b"a:1\n" * 4, "more than 3 headers", TOO_LARGE),
    example("header: too long", b"SEND\na:b\nc:" + b"x" * 63 + b"\n\n\0", "header line 2 is longer than 64", TOO_LARGE),
    example("header: endless", b"SEND\nabc" + b"x" * 63, "header line 1 is longer than 64 octets", TOO_LARGE),
    example("header: long receipt", b"SEND\nreceipt:" + b"x" * 57 + b"\n\n\0", "header line 1 is longer", TOO_LARGE),
    example("header: long id", b"ACK\nid:" + b"1" * 62 + b"\n\n\0", "header line 1 is longer than 64", TOO_LARGE),
    example("header: long receipt, known head", b"SEND\na:b\nreceipt:" + b"x" * 57 + b"\n\n\0", "line 2 is", TOO_LARGE),
    example("header: long receipt of ACK", b"ACK\nid:1\nreceipt:" + b"x" * 57 + b"\n\n\0", "line 2 is", TOO_LARGE),
    # Escapes.
    example("escape: unknown, 1.2", b"SEND\na:\\t\n\n\0", r"header: \t; allowed in version 1.2 are \n \c \\ \r"),
    example("escape: unknown, 1.1", b"SEND\na:\\t\n\n\0", r"allowed in version 1.1 are \n \c \\", version=11),
    example("escape: of CR, 1.1", b"SEND\na:\\r\n\n\0", r"\r; allowed in version 1.1", version=11),
    example("escape: in a name", b"SEND\na\\x:b\n\n\0", r"\x; allowed in version 1.2"),
    example("escape: at the end", b"SEND\na:b\\\n\n\0", "unknown escape in a header"),
    example("escape: before the colon", b"SEND\na\\:b\n\n\0", "unknown escape in a header"),
    example("escape: in a receipt", b"SEND\nreceipt:\\t\n\n\0", r"unknown escape in a header: \t"),
    example("escape: in a second, unused header", b"SEND\na:b\na:\\t\n\n\0", r"unknown escape in a header: \t"),
    example("escape: in a receipt, known head", b"SEND\na:b\nreceipt:\\t\n\n\0", r"unknown escape in a header: \t"),
    example("escape: in a receipt of ACK", b"ACK\nid:1\nreceipt:\\t\n\n\0", r"unknown escape in a header: \t"),
    example("escape: in an id", b"ACK\nid:\\t\n\n\0", r"unknown escape in a header: \t"),
    # Bodies.
    example(
        "length: not a number", b"SEND\ncontent-length:x\n\n\0", "content-length is 'x', which is not a decimal number"
    ),
    example("length: negative", b"SEND\ncontent-length:-1\n\n\0", "which is not a decimal number"),
    example("length: with a sign", b"SEND\ncontent-length:+1\n\na\0", "which is not a decimal number"),
    example("length: with an exponent", b"SEND\ncontent-length:1e3\n\na\0", "which is not a decimal number"),
    example("length: with a point", b"SEND\ncontent-length:1.0\n\na\0", "which is not a decimal number"),
    example("length: empty", b"SEND\ncontent-length:\n\n\0", "which is not a decimal number"),
    example("length: hexadecimal", b"SEND\ncontent-length:0x1\n\na\0", "which is not a decimal number"),
    example("length: Arabic digits", "SEND\ncontent-length:٣\n\nabc\0".encode(), "is not a decimal number"),
    example("length: of ABORT", b"ABORT\ncontent-length:x\n\n\0", "which is not a decimal number"),
    example("length: over the limit", b"SEND\ncontent-length:101\n\n", "of SEND is 101, the limit is 100", TOO_LARGE),
    example("length: huge", b"SEND\ncontent-length:" + b"9" * 49 + b"\n\n", "the limit is 100", TOO_LARGE),
    example(
        "length: too small",
        b"SEND\ncontent-length:1\n\nab\0",
        "the octet after the 1 of content-length is 0x62, not the NUL that ends a frame",
    ),
    example(
        "length: too large", b"SEND\ncontent-length:5\n\nab\0SEND\n\n\0", "the octet after the 5 of content-length"
    ),
    example("body: over the limit", b"SEND\n\n" + b"x" * 101, "the body is longer than 100 octets", TOO_LARGE),
    example("body: over the limit, whole", b"SEND\n\n" + b"x" * 101 + b"\0", "the body is longer than", TOO_LARGE),
    example("body: of ABORT over the limit", b"ABORT\n\n" + b"x" * 101, "the body is longer than 100", TOO_LARGE),
]

WAYS = pytest.mark.parametrize("size", [0, 1, 3], ids=["whole", "octet-by-octet", "three-at-a-time"])


@WAYS
@pytest.mark.parametrize(("version", "octets", "condition", "text"), EXAMPLES)
def test_refused(version: int, octets: bytes, condition: str, text: str, size: int) -> None:
    decoder = decoder_of(version, LIMITS)
    frames, error = decode(decoder, octets, size)
    assert frames == []
    assert error is not None
    assert error[0] == condition
    assert text in error[1]


@WAYS
@pytest.mark.parametrize(("version", "octets", "condition", "text"), EXAMPLES)
def test_refused_behind_good_frames(version: int, octets: bytes, condition: str, text: str, size: int) -> None:
    """The good ones are handed out first; heads like them are known when the bad one comes."""
    good = b"SEND\na:b\nreceipt:1\n\n\0" * 3
    frames, error = decode(decoder_of(version, LIMITS), good + octets, size)
    assert len(frames) == 3
    assert error is not None
    assert error[0] == condition
    assert text in error[1]


@pytest.mark.parametrize(("version", "octets", "condition", "text"), EXAMPLES)
def test_dead_afterwards(version: int, octets: bytes, condition: str, text: str) -> None:
    decoder = decoder_of(version, LIMITS)
    decode(decoder, octets)
    decoder.receive_data(b"ABORT\n\n\0")
    with pytest.raises(FrameError) as caught:
        decoder.next_frame()
    assert caught.value.condition == condition
    assert text in str(caught.value)
    assert decoder.buffered_bytes() == 0
    assert decoder.partial_number() == NO_FRAME


AT_THE_LIMIT = [
    pytest.param(b"SEND\na:1\nb:2\nc:3\n\n\0", id="header count"),
    pytest.param(b"SEND\r\na:1\r\nb:2\r\nc:3\r\n\r\n\0", id="header count, CR LF"),
    pytest.param(b"SEND\nab:" + b"x" * 61 + b"\n\n\0", id="header line"),
    pytest.param(b"SEND\r\nab:" + b"x" * 61 + b"\r\n\r\n\0", id="header line, CR LF"),
    pytest.param(b"SEND\nreceipt:" + b"x" * 56 + b"\n\n\0", id="receipt"),
    pytest.param(b"ACK\nid:" + b"x" * 61 + b"\n\n\0", id="id"),
    pytest.param(b"SEND\n\n" + b"x" * 100 + b"\0", id="body"),
    pytest.param(b"SEND\ncontent-length:100\n\n" + b"x" * 100 + b"\0", id="body with content-length"),
]


@WAYS
@pytest.mark.parametrize("octets", AT_THE_LIMIT)
def test_exactly_at_the_limit(octets: bytes, size: int) -> None:
    frames, error = decode(decoder_of(12, LIMITS), octets * 3, size)
    assert error is None
    assert len(frames) == 3


def test_nothing_is_wrong_with_half_a_frame() -> None:
    decoder = Decoder(LIMITS)
    assert decode(decoder, b"CONNECT\naccept-ver") == ([], None)
    assert decoder.partial_number() != NO_FRAME
