"""What the STOMP specifications, and the habits of real peers, say that octets mean.

The first word of each test id is the section: of the specification of that version (``1.2-``), or a habit.
"""

from __future__ import annotations

import pytest

from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import COMMANDS, CONNECT, CONNECTED, MESSAGE, RECEIPT, SEND
from tests.support.protocols.stomp_octets import Seen, decode, decoder_of

Q = {"destination": "/queue/a"}


def example(name: str, version: int, octets: bytes, *frames: Seen) -> object:
    return pytest.param(version, octets, list(frames), id=name)


EXAMPLES = [
    # Frames and their bodies.
    example(
        "1.2-frames: the example of the specification",
        12,
        b"SEND\ndestination:/queue/a\ncontent-type:text/plain\n\nhello queue a\0",
        Seen("SEND", {**Q, "content-type": "text/plain"}, b"hello queue a", block=b"content-type:text/plain\n"),
    ),
    example("1.2-frames: CR LF line ends", 12, b"SEND\r\ndestination:/queue/a\r\n\r\n\r\n\0", Seen("SEND", Q, b"\r\n")),
    example("1.0-frames: CR LF is taken, too", 10, b"SEND\r\ndestination:/queue/a\r\n\r\nx\0", Seen("SEND", Q, b"x")),
    example("1.2-frames: CR LF in the head, LF LF in the body", 12, b"ABORT\r\n\r\n\n\n\0", Seen("ABORT", {})),
    example(
        "1.2-frames: LF in the head, CR LF as empty line",
        12,
        b"SEND\na:b\n\r\n\n\0",
        Seen("SEND", {"a": "b"}, b"\n", block=b"a:b\n"),
    ),
    example(
        "1.2-frames: only one CR belongs to the line end",
        12,
        b"SEND\na:b\r\r\n\nx\0",
        Seen("SEND", {"a": "b\r"}, b"x", block=b"a:b\\r\n"),
    ),
    example("1.2-frames: no headers", 12, b"DISCONNECT\n\n\0", Seen("DISCONNECT", {})),
    example(
        "1.2-frames: LF, CR LF and NUL between frames",
        12,
        b"\n\r\n\0\0BEGIN\ntransaction:1\n\n\0\n\n\r\nCOMMIT\ntransaction:1\n\n\0\n",
        Seen("BEGIN", {"transaction": "1"}),
        Seen("COMMIT", {"transaction": "1"}),
    ),
    example("habit: a CR alone between frames, stomp-php", 12, b"\rABORT\n\n\0\r", Seen("ABORT", {})),
    example("1.2-body: ends at the first NUL", 12, b"SEND\n\na\0\n", Seen("SEND", {}, b"a")),
    example("1.2-body: may be empty", 12, b"SEND\n\n\0", Seen("SEND", {})),
    example(
        "1.2-content-length: NUL in the body",
        12,
        b"SEND\ndestination:/queue/a\ncontent-length:2\n\nh\0\0\n",
        Seen("SEND", Q, b"h\0", has_length=True),
    ),
    example("1.2-content-length: zero", 12, b"SEND\ncontent-length:0\n\n\0", Seen("SEND", {}, has_length=True)),
    example(
        "1.2-content-length: the first of two",
        12,
        b"SEND\ncontent-length:3\ncontent-length:1\n\na\0c\0",
        Seen("SEND", {}, b"a\0c", has_length=True),
    ),
    example(
        "habit: blanks around content-length",
        12,
        b"SEND\ncontent-length: 3 \n\na\0c\0",
        Seen("SEND", {}, b"a\0c", has_length=True),
    ),
    example(
        "habit: zeros before content-length",
        12,
        b"SEND\ncontent-length:" + b"0" * 40 + b"3\n\na\0c\0",
        Seen("SEND", {}, b"a\0c", has_length=True),
    ),
    example(
        "1.1-content-length: of MESSAGE and ERROR",
        11,
        b"MESSAGE\ncontent-length:1\n\n\0\0ERROR\ncontent-length:1\n\n\0\0",
        Seen("MESSAGE", {}, b"\0", has_length=True),
        Seen("ERROR", {}, b"\0", has_length=True),
    ),
    example(
        "habit: content-length 0 and a type on every frame, Ruby",
        12,
        b"SUBSCRIBE\ncontent-length:0\ncontent-type:text/plain; charset=UTF-8\nid:1\n\n\0",
        Seen("SUBSCRIBE", {"content-type": "text/plain; charset=UTF-8", "id": "1"}, has_length=True),
    ),
    example(
        "1.2-body: of a frame that has none is ignored",
        12,
        b"BEGIN\ntransaction:1\n\nabc\0",
        Seen("BEGIN", {"transaction": "1"}),
    ),
    example(
        "1.2-body: the length of such a body does not count",
        12,
        b"ABORT\ncontent-length:9\n\nabc\0",
        Seen("ABORT", {}, has_length=True),
    ),
    # Headers.
    example("1.2-headers: empty value", 12, b"SEND\na:\n\n\0", Seen("SEND", {"a": ""}, block=b"a:\n")),
    example(
        "1.2-headers: names tell capitals",
        12,
        b"SEND\nA:1\na:2\n\n\0",
        Seen("SEND", {"A": "1", "a": "2"}, block=b"A:1\na:2\n"),
    ),
    example("1.1-headers: blanks stay", 11, b"SEND\na: 1 \n\n\0", Seen("SEND", {"a": " 1 "}, block=b"a: 1 \n")),
    example("1.2-headers: blanks stay", 12, b"SEND\na :\t1 \n\n\0", Seen("SEND", {"a ": "\t1 "}, block=b"a :\t1 \n")),
    example(
        "1.0-headers: blanks around values go",
        10,
        b"SEND\na: 1 \nb:\t2\n\n\0",
        Seen("SEND", {"a": "1", "b": "2"}, block=b"a:1\nb:2\n"),
    ),
    example("1.0-headers: blanks inside stay", 10, b"SEND\na:1 2\n\n\0", Seen("SEND", {"a": "1 2"}, block=b"a:1 2\n")),
    example(
        "1.2-repeated: the first wins",
        12,
        b"SEND\na:1\nb:2\na:3\n\n\0",
        Seen("SEND", {"a": "1", "b": "2"}, block=b"a:1\nb:2\n"),
    ),
    example(
        "1.2-repeated: also when escaped",
        12,
        b"SEND\na\\cb:1\na\\cb:2\n\n\0",
        Seen("SEND", {"a:b": "1"}, block=b"a\\cb:1\n"),
    ),
    example("1.2-repeated: the first receipt", 12, b"SEND\nreceipt:1\nreceipt:2\n\n\0", Seen("SEND", {}, receipt=b"1")),
    example(
        "1.2-encoding: UTF-8",
        12,
        "SEND\ngröße:4€\n\n\0".encode(),
        Seen("SEND", {"größe": "4€"}, block="größe:4€\n".encode()),
    ),
    example(
        "1.2-escapes: in values",
        12,
        b"SEND\na:x\\ny\\cz\\\\n\\r\n\n\0",
        Seen("SEND", {"a": "x\ny:z\\n\r"}, block=b"a:x\\ny\\cz\\\\n\\r\n"),
    ),
    example(
        "1.2-escapes: in names", 12, b"SEND\na\\cb:x\\ny\n\n\0", Seen("SEND", {"a:b": "x\ny"}, block=b"a\\cb:x\\ny\n")
    ),
    example(
        "1.2-escapes: from left to right",
        12,
        b"SEND\na:\\\\\\\\n\n\n\0",
        Seen("SEND", {"a": "\\\\n"}, block=b"a:\\\\\\\\n\n"),
    ),
    example(
        "1.1-escapes: three of them",
        11,
        b"SEND\na:\\n\\c\\\\\n\n\0",
        Seen("SEND", {"a": "\n:\\"}, block=b"a:\\n\\c\\\\\n"),
    ),
    example(
        "1.1-escapes: a CR inside stands for itself",
        11,
        b"SEND\na:1\r2\n\n\0",
        Seen("SEND", {"a": "1\r2"}, block=b"a:1\\r2\n"),
    ),
    example(
        "1.0-escapes: none", 10, b"SEND\na:x\\ny\\t\n\n\0", Seen("SEND", {"a": "x\\ny\\t"}, block=b"a:x\\\\ny\\\\t\n")
    ),
    example(
        "habit: colons without escape",
        12,
        b"SEND\na:1:2\nb:3\n\n\0",
        Seen("SEND", {"a": "1:2", "b": "3"}, block=b"a:1\\c2\nb:3\n"),
    ),
    example("habit: the same in 1.0", 10, b"SEND\na: 1:2\n\n\0", Seen("SEND", {"a": "1:2"}, block=b"a:1\\c2\n")),
    # What passes through.
    example(
        "block: control headers are not passed through",
        12,
        b"SEND\ndestination:/queue/a\ncontent-length:0\nreceipt:1\ntransaction:t\nmessage-id:m\nredelivered:true\n"
        b"subscription:s\nack:a\nJMSXUserID:u\nJMSXDeliveryCount:9\npersistent:true\npriority:9\nexpires:1\ntimestamp:2\n"
        b"original-destination:o\namq-msg-type:text\ntype:T\ncorrelation-id:c\nreply-to:/queue/r\n\n\0",
        Seen(
            "SEND",
            {
                **Q,
                "transaction": "t",
                "message-id": "m",
                "redelivered": "true",
                "subscription": "s",
                "ack": "a",
                "JMSXUserID": "u",
                "JMSXDeliveryCount": "9",
                "persistent": "true",
                "priority": "9",
                "expires": "1",
                "timestamp": "2",
                "original-destination": "o",
                "amq-msg-type": "text",
                "type": "T",
                "correlation-id": "c",
                "reply-to": "/queue/r",
            },
            receipt=b"1",
            block=b"type:T\ncorrelation-id:c\nreply-to:/queue/r\n",
            has_length=True,
        ),
    ),
    example("block: only of SEND", 12, b"MESSAGE\na:b\n\n\0", Seen("MESSAGE", {"a": "b"})),
    # Receipts.
    example(
        "1.2-receipt: octets as they stand",
        12,
        b"SEND\nreceipt:a\\cb:\\\\c \n\n\0",
        Seen("SEND", {}, receipt=b"a\\cb:\\\\c "),
    ),
    example("1.2-receipt: empty", 12, b"SEND\nreceipt:\n\n\0", Seen("SEND", {}, receipt=b"")),
    example(
        "1.2-receipt: of a CR LF peer",
        12,
        b"ACK\r\nid:1\r\nreceipt:7\r\n\r\n\0",
        Seen("ACK", {}, receipt=b"7", id=b"1"),
    ),
    example(
        "1.0-receipt: without the blanks around it", 10, b"SEND\nreceipt: 7 \n\n\0", Seen("SEND", {}, receipt=b"7")
    ),
    example("habit: receipt on CONNECT", 10, b"CONNECT\nreceipt:7\n\n\0", Seen("CONNECT", {}, receipt=b"7")),
    example("habit: not ASCII", 12, "SEND\nreceipt:ß\n\n\0".encode(), Seen("SEND", {}, receipt="ß".encode())),
    # ACK and NACK.
    example("1.2-ack: by id", 12, b"ACK\nid:7\n\n\0", Seen("ACK", {}, id=b"7")),
    example("1.2-nack: by id", 12, b"NACK\nid:c-7\n\n\0", Seen("NACK", {}, id=b"c-7")),
    example("1.2-ack: with a receipt", 12, b"ACK\nid:7\nreceipt:8\n\n\0", Seen("ACK", {}, id=b"7", receipt=b"8")),
    example(
        "1.2-ack: with a receipt before the id",
        12,
        b"NACK\nreceipt:8\nid:7\n\n\0",
        Seen("NACK", {}, id=b"7", receipt=b"8"),
    ),
    example(
        "1.2-ack: in a transaction", 12, b"ACK\nid:7\ntransaction:t\n\n\0", Seen("ACK", {"id": "7", "transaction": "t"})
    ),
    example("1.2-ack: escaped id", 12, b"ACK\nid:ID\\c7\n\n\0", Seen("ACK", {}, id=b"ID:7")),
    example("1.2-ack: not ASCII", 12, "ACK\nid:ß\n\n\0".encode(), Seen("ACK", {}, id="ß".encode())),
    example("habit: id with a colon", 12, b"ACK\nid:ID:7\n\n\0", Seen("ACK", {}, id=b"ID:7")),
    example("1.2-ack: with a body, ignored", 12, b"ACK\nid:7\n\nabc\0", Seen("ACK", {}, id=b"7")),
    example("1.2-ack: without an id", 12, b"ACK\n\n\0ACK\nid:\n\n\0", Seen("ACK", {}), Seen("ACK", {}, id=b"")),
    example(
        "1.1-ack: message-id and subscription",
        11,
        b"ACK\nmessage-id:7\nsubscription:0\n\n\0",
        Seen("ACK", {"message-id": "7", "subscription": "0"}),
    ),
    example("1.0-ack: padded id", 10, b"ACK\nid: 7\n\n\0", Seen("ACK", {}, id=b"7")),
    # Connecting.
    example(
        "1.2-connect: never unescaped",
        12,
        b"CONNECT\npasscode:a\\nb:c\n\n\0STOMP\nlogin:\\t\n\n\0CONNECTED\nsession:\\c\n\n\0",
        Seen("CONNECT", {"passcode": "a\\nb:c"}),
        Seen("STOMP", {"login": "\\t"}),
        Seen("CONNECTED", {"session": "\\c"}),
    ),
    example(
        "1.0-connect: padded",
        10,
        b"CONNECT\nlogin: guest\npasscode: guest\n\n\0\n",
        Seen("CONNECT", {"login": "guest", "passcode": "guest"}),
    ),
    example(
        "wire-17: CONNECT 1.2",
        10,
        bytes.fromhex("434f4e4e4543540a6163636570742d76657273696f6e3a312e320a686f73743a6c6f63616c686f73740a0a00"),
        Seen("CONNECT", {"accept-version": "1.2", "host": "localhost"}),
    ),
    example(
        "wire-17: SEND with a NUL in the body",
        12,
        bytes.fromhex(
            "53454e440a64657374696e6174696f6e3a2f71756575652f610a636f6e74656e742d6c656e6774683a320a0a6800000a"
        ),
        Seen("SEND", Q, b"h\0", has_length=True),
    ),
    example("wire-17: heart-beat", 12, bytes.fromhex("0a")),
    example(
        "wire-17: RECEIPT",
        12,
        bytes.fromhex("524543454950540a726563656970742d69643a37370a0a00"),
        Seen("RECEIPT", {"receipt-id": "77"}),
    ),
    example(
        "1.2-commands: every one",
        12,
        b"".join(name + b"\n\n\0" for name in COMMANDS),
        *(Seen(name.decode(), {}) for name in COMMANDS),
    ),
]


@pytest.mark.parametrize(("version", "octets", "frames"), EXAMPLES)
def test_frame_whole(version: int, octets: bytes, frames: list[Seen]) -> None:
    assert decode(decoder_of(version), octets) == (frames, None)


@pytest.mark.parametrize(("version", "octets", "frames"), EXAMPLES)
def test_frame_octet_by_octet(version: int, octets: bytes, frames: list[Seen]) -> None:
    assert decode(decoder_of(version), octets, 1) == (frames, None)


@pytest.mark.parametrize(("version", "octets", "frames"), EXAMPLES)
def test_frame_with_the_next_one_glued_on(version: int, octets: bytes, frames: list[Seen]) -> None:
    following = b"SEND\nnext:1\n\nnext\0"
    expected = [*frames, Seen("SEND", {"next": "1"}, b"next", block=b"next:1\n")]
    assert decode(decoder_of(version), octets + following) == (expected, None)


@pytest.mark.parametrize(("version", "octets", "frames"), EXAMPLES)
def test_frame_three_times_in_one_read(version: int, octets: bytes, frames: list[Seen]) -> None:
    """The second and third may come by the fast ways."""
    assert decode(decoder_of(version), octets * 3) == (frames * 3, None)


@pytest.mark.parametrize(("version", "octets", "frames"), EXAMPLES)
def test_frame_by_the_rules_alone(version: int, octets: bytes, frames: list[Seen]) -> None:
    assert decode(decoder_of(version), octets * 2, is_slow=True) == (frames * 2, None)


WRITTEN = [
    pytest.param(SEND, 12, [("a:b", "x\ny\\z\r")], b"", b"SEND\na\\cb:x\\ny\\\\z\\r\n\n\0\n", id="1.2-escapes"),
    pytest.param(SEND, 11, [("a:b", "x\ny\\z\rw")], b"", b"SEND\na\\cb:x\\ny\\\\z\rw\n\n\0\n", id="1.1-escapes: no CR"),
    pytest.param(SEND, 10, [("a:b", "x\ny\\z:w")], b"", b"SEND\na b:x y\\z:w\n\n\0\n", id="1.0-escapes: none"),
    pytest.param(SEND, 12, [("a", "x\0y")], b"", b"SEND\na:x y\n\n\0\n", id="no NUL in a header"),
    pytest.param(CONNECT, 12, [("passcode", "a:b\\")], b"", b"CONNECT\npasscode:a:b\\\n\n\0\n", id="1.2-connect"),
    pytest.param(CONNECTED, 12, [("session", "a:b")], b"", b"CONNECTED\nsession:a:b\n\n\0\n", id="1.2-connected"),
    pytest.param(RECEIPT, 12, [("receipt-id", "77")], b"", b"RECEIPT\nreceipt-id:77\n\n\0\n", id="1.2-receipt"),
    pytest.param(MESSAGE, 12, [], b"text", b"MESSAGE\n\ntext\0\n", id="text without content-length"),
    pytest.param(MESSAGE, 12, [], b"a\0b", b"MESSAGE\ncontent-length:3\n\na\0b\0\n", id="NUL needs content-length"),
    pytest.param(
        MESSAGE,
        12,
        [("content-length", "3"), ("a", "b")],
        b"a\0b",
        b"MESSAGE\ncontent-length:3\na:b\n\na\0b\0\n",
        id="the caller's content-length",
    ),
]


@pytest.mark.parametrize(("command", "version", "headers", "body", "octets"), WRITTEN)
def test_written(command: int, version: int, headers: list[tuple[str, str]], body: bytes, octets: bytes) -> None:
    assert encode(command, headers, body, version) == octets
