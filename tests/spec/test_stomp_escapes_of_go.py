"""What Go's go-stomp sends under 1.0: names and values escaped in every frame but CONNECT, whatever the version.

The client itself is not among the tests: its module cannot be had from the Go module proxy.  The octets follow its
writer (frame/writer.go, frame/encode.go) and its reader, which decodes every header of every frame.
"""

from __future__ import annotations

import pytest

from protocols.stomp.mapping.dialects import DIALECTS
from protocols.stomp.session.settings import SessionSettings
from tests.support.protocols.stomp_gateway import Peer, Received, StompGateway

ESCAPES = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c"})


def say(peer: Peer, command: str, body: bytes = b"", **headers: str) -> None:
    lines = "".join(
        f"{name.replace('_', '-').translate(ESCAPES)}:{value.translate(ESCAPES)}\n" for name, value in headers.items()
    )
    peer.send_octets(f"{command}\n{lines}\n".encode() + body + b"\0")


def heard(frame: Received, name: str) -> str:
    """Return a header as the client reads it."""
    return frame[name].replace("\\c", ":")


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("ack", ["client", "client-individual"])
@pytest.mark.parametrize("id", ["1", "a:b"])
def test_a_session_in_1_0(dialect: str, ack: str, id: str) -> None:
    gateway = StompGateway(settings=SessionSettings(dialect=DIALECTS[dialect]))
    peer = gateway.connect("1.0")
    say(peer, "SUBSCRIBE", destination="/queue/q:1", id=id, ack=ack, receipt="s:1")
    say(
        peer, "SEND", b"1", destination="/queue/q:1", content_length="1", persistent="true", receipt="r:1", colour="a:b"
    )
    say(peer, "SEND", b"2", destination="/queue/q:1", content_length="1", persistent="true")
    subscribed, *others = peer.take()
    (sent,) = [frame for frame in others if frame.command == "RECEIPT"]
    first, second = [frame for frame in others if frame.command == "MESSAGE"]
    assert (heard(subscribed, "receipt-id"), heard(sent, "receipt-id")) == ("s:1", "r:1")
    assert (heard(first, "subscription"), heard(first, "colour"), first.body) == (id, "a:b", b"1")
    assert heard(first, "destination") == "/queue/q:1"
    say(peer, "ACK", message_id=heard(first, "message-id"), subscription=id, receipt="r2")
    assert peer.receipts() == ["r2"]
    say(peer, "BEGIN", transaction="t:1")
    say(peer, "ACK", message_id=heard(second, "message-id"), subscription=id, transaction="t:1", receipt="r3")
    say(peer, "COMMIT", transaction="t:1", receipt="r4")
    assert peer.receipts() == ["r3", "r4"]
    (queue,) = gateway.queues()
    assert (queue.depth, queue.name) == (0, "q:1" if dialect == "activemq" else "q\\c1")
    say(peer, "UNSUBSCRIBE", id=id, receipt=id)
    assert [heard(frame, "receipt-id") for frame in peer.take()] == [id]
