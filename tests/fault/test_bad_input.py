"""Octets that no good client sends: an ERROR for that connection, while another one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.cli.shared.blocking_client import BlockingClient
from protocols.stomp.codec.frames import MESSAGE, RECEIPT, SEND, Frame
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import GatewayProcess, StartGateway

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"

# What is sent behind CONNECT, and a word that the ERROR must hold in its ``message`` header or body.
BAD_FRAMES = {
    "unknown command": (b"JUMP\n\n\0", "JUMP"),
    "lower case command": (b"send\ndestination:/queue/a\n\nx\0", "send"),
    "header without colon": (b"SEND\ndestination\n\nx\0", "colon"),
    "unknown escape": (b"SEND\ndestination:/queue/a\nx:\\t\n\nx\0", "escape"),
    "invalid utf-8": (b"SEND\ndestination:/queue/\xff\n\nx\0", "UTF-8"),
    "content-length is no number": (b"SEND\ndestination:/queue/a\ncontent-length:ten\n\nx\0", "content-length"),
    "content-length is negative": (b"SEND\ndestination:/queue/a\ncontent-length:-1\n\nx\0", "content-length"),
    "content-length does not end at a NUL": (b"SEND\ndestination:/queue/a\ncontent-length:2\n\nabc\0", ""),
    "second connect": (CONNECT, "CONNECT"),
    "server's command": (b"RECEIPT\nreceipt-id:1\n\n\0", "RECEIPT"),
    "no destination": (b"SEND\n\nx\0", "destination"),
    "unknown destination prefix": (b"SEND\ndestination:/nowhere/a\n\nx\0", "/nowhere/a"),
    "empty destination": (b"SEND\ndestination:/queue/\n\nx\0", "destination"),
    "subscription without id": (b"SUBSCRIBE\ndestination:/queue/a\n\n\0", "id"),
    "unknown ack mode": (b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:sometimes\n\n\0", "sometimes"),
    "unknown option": (b"SUBSCRIBE\nid:1\ndestination:/queue/a?consumer.prefetch=1\n\n\0", "consumer.prefetch"),
    "bad option value": (b"SUBSCRIBE\nid:1\ndestination:/queue/a?consumer.prefetchSize=many\n\n\0", "many"),
    "bad prefetch header": (b"SUBSCRIBE\nid:1\ndestination:/queue/a\nactivemq.prefetchSize:-7\n\n\0", "-7"),
    "pull in auto mode": (b"SUBSCRIBE\nid:1\ndestination:/queue/a\nactivemq.prefetchSize:0\n\n\0", "prefetch"),
    "unsubscribe of nothing": (b"UNSUBSCRIBE\nid:none\n\n\0", "none"),
    "acknowledgement of nothing": (b"ACK\nid:none\n\n\0", "none"),
    "nack of nothing": (b"NACK\nid:none\n\n\0", "none"),
    "commit of nothing": (b"COMMIT\ntransaction:none\n\n\0", "none"),
    "send into no transaction": (b"SEND\ndestination:/queue/a\ntransaction:none\n\nx\0", "none"),
    "transaction begun twice": (b"BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0", "t"),
    "bad priority": (b"SEND\ndestination:/queue/a\npriority:urgent\n\nx\0", "urgent"),
    "bad expiry": (b"SEND\ndestination:/queue/a\nexpires:tomorrow\n\nx\0", "tomorrow"),
    "header line over the limit": (b"SEND\ndestination:/queue/a\nx:" + b"x" * 2_000 + b"\n\nx\0", "1024"),
    "header line that never ends": (b"SEND\ndestination:/queue/a\nx:" + b"x" * 2_000, "1024"),
    "too many headers": (b"SEND\n" + b"".join(b"h%d:x\n" % n for n in range(30)) + b"\nx\0", "20"),
    "announced body over the limit": (b"SEND\ndestination:/queue/a\ncontent-length:70000\n\n", "65536"),
    "body over the limit": (b"SEND\ndestination:/queue/a\n\n" + b"x" * 70_000, "65536"),
}

# What is said instead of CONNECT.
BAD_BEGINNINGS = {
    "no connect": (b"SEND\ndestination:/queue/a\n\nx\0", "CONNECT"),
    "no common version": (b"CONNECT\naccept-version:3.0\nhost:h\n\n\0", "1.2"),
    "no heart-beat": (b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:soon\n\n\0", "heart-beat"),
    "negative heart-beat": (b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:-1,0\n\n\0", "heart-beat"),
    "http": (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP"),
}

# Where the peer stops: the rest of the frame does not come in time.
HALF_FRAMES = {
    "nothing at all": b"",
    "half a command": b"CONN",
    "half a head": b"CONNECT\naccept-ver",
    "half a head after login": CONNECT + b"SEND\ndestination:/que",
    "half a body": CONNECT + b"SEND\ndestination:/queue/a\n\nhalf",
    "half a sized body": CONNECT + b"SEND\ndestination:/queue/a\ncontent-length:10\n\nhalf",
}


@pytest.fixture(scope="module")
def limited(start_session_gateway: StartGateway) -> GatewayProcess:
    return start_session_gateway(configurations.tight_limits())


@pytest.fixture
def witness(limited: GatewayProcess, unique: Callable[[str], str]) -> Iterator[BlockingClient]:
    """Another connection; when the test is over it still sends and receives, on the same process."""
    queue = f"/queue/{unique('witness')}"
    pid = limited.pid
    client = raw_stomp.client(limited)
    raw_stomp.subscribe(client, queue, prefetch=10)
    yield client
    client.send(SEND, [("destination", queue), ("persistent", "true"), ("receipt", "sent")], b"still here")
    frames = [client.next_frame(), client.next_frame()]
    assert {frame.command for frame in frames} == {MESSAGE, RECEIPT}
    assert limited.is_running and limited.pid == pid
    assert limited.get("/healthz")[0] == 200
    client.close()


def check_error(error: Frame, word: str) -> None:
    headers = error.head.headers
    assert headers.get("message"), f"an ERROR without a text: {headers}"
    text = headers["message"] + "\n" + error.body.decode()
    assert word in text, f"{word!r} is not named in: {text}"


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_is_an_error_of_its_connection_only(
    name: str, limited: GatewayProcess, witness: BlockingClient
) -> None:
    octets, word = BAD_FRAMES[name]
    peer = raw_stomp.link(limited)
    peer.write(CONNECT + octets)
    check_error(raw_stomp.error_then_end(peer), word)
    peer.close()


@pytest.mark.parametrize("name", BAD_BEGINNINGS)
def test_bad_beginning_is_an_error(name: str, limited: GatewayProcess, witness: BlockingClient) -> None:
    octets, word = BAD_BEGINNINGS[name]
    peer = raw_stomp.link(limited)
    peer.write(octets)
    check_error(raw_stomp.error_then_end(peer), word)
    peer.close()


def test_slow_senders_run_into_the_time_limit(limited: GatewayProcess, witness: BlockingClient) -> None:
    peers = {name: raw_stomp.link(limited) for name in HALF_FRAMES}
    for name, peer in peers.items():
        peer.write(HALF_FRAMES[name])
    for name, peer in peers.items():
        error = raw_stomp.error_then_end(peer)
        assert error.head.headers["message"] == "timed out", name
        peer.close()


def test_error_names_the_receipt_of_the_frame(limited: GatewayProcess, witness: BlockingClient) -> None:
    peer = raw_stomp.link(limited)
    peer.write(CONNECT + b"SEND\ndestination:/nowhere/a\nreceipt:r-7\n\nx\0")
    error = raw_stomp.error_then_end(peer)
    assert error.head.headers["receipt-id"] == "r-7"
    peer.close()


def test_peer_that_vanishes_within_a_frame_harms_nobody(limited: GatewayProcess, witness: BlockingClient) -> None:
    for octets in HALF_FRAMES.values():
        peer = raw_stomp.link(limited)
        peer.write(octets)
        peer.close()


def test_what_was_confirmed_before_the_bad_frame_is_kept(
    limited: GatewayProcess, witness: BlockingClient, unique: Callable[[str], str]
) -> None:
    queue = unique("before")
    peer = raw_stomp.link(limited)
    send = f"SEND\ndestination:/queue/{queue}\npersistent:true\nreceipt:1\n\nkept\0".encode()
    peer.write(CONNECT + send + b"JUMP\n\n\0")
    frames = [peer.next_frame(), peer.next_frame()]
    assert frames[1].command == RECEIPT, "an ERROR that closes waits for earlier confirmations"
    raw_stomp.error_then_end(peer)
    peer.close()
    reader = raw_stomp.client(limited)
    raw_stomp.subscribe(reader, f"/queue/{queue}", prefetch=1)
    assert raw_stomp.message(reader).body == b"kept"
    reader.close()


def test_silent_peer_with_heart_beats_is_given_up(limited: GatewayProcess, witness: BlockingClient) -> None:
    peer = raw_stomp.link(limited)
    peer.write(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:100,0\n\n\0")
    error = raw_stomp.error_then_end(peer)
    assert error.head.headers["message"] == "timed out"
    peer.close()
