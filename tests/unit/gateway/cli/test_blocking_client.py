from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from gateway.cli.shared.blocking_client import BlockingClient, ConnectionLost, Refused
from protocols.stomp.codec.decoder import Decoder
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import CONNECT, CONNECTED, ERROR, MESSAGE, RECEIPT, SEND, SUBSCRIBE, Frame
from protocols.stomp.codec.versions import VERSION_1_2

LIMIT_S = 60.0


class Peer(threading.Thread):
    """Accepts one connection and answers each frame with what ``answer`` makes of it; None ends the connection."""

    def __init__(self, answer: Callable[[Frame], bytes | None]) -> None:
        super().__init__(daemon=True)
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.frames: list[Frame] = []
        self.start()

    def run(self) -> None:
        connection, _ = self._listener.accept()
        decoder = Decoder()
        decoder.version = VERSION_1_2
        with self._listener, connection:
            while octets := connection.recv(65536):
                decoder.receive_data(octets)
                while (frame := decoder.next_frame()) is not None:
                    self.frames.append(frame.kept())
                    answer = self._answer(frame)
                    if answer is None:
                        return
                    connection.sendall(answer)


def agreeable(frame: Frame) -> bytes:
    if frame.command == CONNECT:
        return encode(CONNECTED, [("version", "1.2")], b"", VERSION_1_2)
    if frame.receipt is None:
        return b""
    return encode(RECEIPT, [("receipt-id", frame.receipt.decode())], b"", VERSION_1_2)


@pytest.fixture
def start_peer() -> Iterator[Callable[[Callable[[Frame], bytes | None]], Peer]]:
    peers: list[Peer] = []

    def start(answer: Callable[[Frame], bytes | None]) -> Peer:
        peers.append(Peer(answer))
        return peers[-1]

    yield start
    for peer in peers:
        peer.join(LIMIT_S)
        assert not peer.is_alive(), "the client left its connection open"


StartPeer = Callable[[Callable[[Frame], bytes | None]], Peer]


def test_publish_yields_every_index_as_it_is_confirmed(start_peer: StartPeer) -> None:
    peer = start_peer(agreeable)
    client = BlockingClient("127.0.0.1", peer.port, "alice", "secret", LIMIT_S)
    messages = [("/queue/a", b"%d" % number) for number in range(25)]
    assert list(client.publish(messages, window=10)) == list(range(25))
    client.close()
    sends = [frame for frame in peer.frames if frame.command == SEND]
    assert [frame.body for frame in sends] == [body for _, body in messages]
    assert peer.frames[0].head.headers["login"] == "alice"


def test_publish_keeps_at_most_the_window_unconfirmed(start_peer: StartPeer) -> None:
    peer = start_peer(agreeable)
    client = BlockingClient("127.0.0.1", peer.port, limit_s=LIMIT_S)
    taken = 0

    def messages() -> Iterator[tuple[str, bytes]]:
        nonlocal taken
        for taken in range(1, 31):
            yield "/queue/a", b"%d" % taken

    for index in client.publish(messages(), window=10):
        assert taken - index <= 11
    client.close()


def test_error_instead_of_connected_is_a_refusal(start_peer: StartPeer) -> None:
    peer = start_peer(lambda _: encode(ERROR, [("message", "login refused")], b"no such user", VERSION_1_2))
    with pytest.raises(Refused, match="login refused: no such user"):
        BlockingClient("127.0.0.1", peer.port, limit_s=LIMIT_S)


def test_end_of_the_connection_is_told(start_peer: StartPeer) -> None:
    peer = start_peer(lambda frame: agreeable(frame) if frame.command == CONNECT else None)
    client = BlockingClient("127.0.0.1", peer.port, limit_s=LIMIT_S)
    client.send(SUBSCRIBE, [("id", "1"), ("destination", "/queue/a"), ("receipt", "r")])
    with pytest.raises(ConnectionLost):
        client.next_frame()
    client.close()


def test_silence_is_a_time_out(start_peer: StartPeer) -> None:
    peer = start_peer(lambda _: b"")
    with pytest.raises(TimeoutError):
        BlockingClient("127.0.0.1", peer.port, limit_s=0.05)


def test_a_long_property_of_an_amqp_message_is_read(
    start_peer: Callable[[Callable[[Frame], bytes | None]], Peer],
) -> None:
    long = "x" * 20_000

    def answer(frame: Frame) -> bytes:
        if frame.command == SEND:
            return encode(MESSAGE, [("destination", "/queue/a"), ("property", long)], b"", VERSION_1_2)
        return agreeable(frame)

    client = BlockingClient("127.0.0.1", start_peer(answer).port, limit_s=LIMIT_S)
    client.send(SEND, [("destination", "/queue/a")])
    assert client.next_frame().head.headers["property"] == long
    client.close()
