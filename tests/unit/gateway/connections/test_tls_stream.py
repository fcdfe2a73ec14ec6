"""TLS between a client's half in memory and a transport of the test: no sockets, no threads."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from gateway.connections.input_turns import PIECES_A_TURN
from gateway.connections.tls_records import CHUNK_EMPTY_RECORDS, CHUNK_RECORDS, EMPTY_RECORDS
from gateway.connections.tls_stream import (
    PIECE_RECORDS,
    READ_BYTES,
    RECORDS_AT_ONCE,
    TlsInput,
    TlsStream,
)
from tests.support.connection_world import Transport
from tests.support.process.certificates import Certificates

TURNS_MAX = 10_000
ENOUGH = 4 * PIECES_A_TURN * PIECE_RECORDS  # records: more than a turn


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Taking(asyncio.Protocol):
    """Keeps what it is given.

    pauses_after: octets after which it is read no more.  keeps_open: after the input's end.
    """

    def __init__(self) -> None:
        self.taken = b""
        self.events: list[str] = []
        self.keeps_open = True
        self.pauses_after = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsStream)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert data, "nothing has come"
        self.taken += data
        if self.pauses_after and len(self.taken) >= self.pauses_after:
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.events.append("full")

    def resume_writing(self) -> None:
        self.events.append("empty")

    def connection_lost(self, error: Exception | None) -> None:
        self.events.append("lost")


class Peer:
    """One connection: the gateway's stream, and the client's half of TLS."""

    def __init__(self, certificates: Certificates, shared: TlsInput) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.gateway)
        self.protocol = Taking()
        self.stream = TlsStream(context, self.protocol, shared)
        self.transport = Transport(True, None)
        self._shared = shared
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = certificates.client_context().wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )
        self.stream.connection_made(self.transport)

    def greet(self) -> None:
        """Send the next octets of the handshake."""
        try:
            self.client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        self.deliver(self._outgoing.read())

    def deliver(self, octets: bytes) -> None:
        """Have the stream read these octets, a buffer at a time."""
        arrive(self.stream, octets)

    def send(self, *contents: bytes) -> None:
        """Send each as a record, all in one read."""
        for content in contents:
            self.client.write(content)
        self.deliver(self._outgoing.read())

    def taken_from_client(self) -> bytes:
        return self._outgoing.read()

    def say_goodbye(self) -> None:
        with pytest.raises(ssl.SSLWantReadError):
            self.client.unwrap()
        self.deliver(self._outgoing.read())

    def receive(self) -> None:
        self._incoming.write(b"".join(self.transport.written))
        self.transport.written.clear()

    def read(self) -> bytes:
        """Return what the client has got; b"" for the end."""
        self.receive()
        return self.client.read(100_000)


def arrive(stream: TlsStream, octets: bytes) -> None:
    """Have a stream read these octets, a buffer at a time."""
    while octets:
        buffer = stream.get_buffer(-1)
        size = min(len(octets), len(buffer))
        buffer[:size] = octets[:size]
        octets = octets[size:]
        stream.buffer_updated(size)


async def turn() -> None:
    await asyncio.sleep(0)


async def connected(certificates: Certificates, shared: TlsInput) -> Peer:
    """Return a connection whose handshake is done, at the beginning of a turn."""
    peer = Peer(certificates, shared)
    for _ in range(2):
        peer.greet()
        peer.receive()
        await turn()
    peer.greet()
    await peer.stream.handshake(60)
    peer.receive()
    peer.transport.calls.clear()
    await turn()
    return peer


async def all_taken(*peers: Peer, size: int) -> None:
    for _ in range(TURNS_MAX):
        if all(len(peer.protocol.taken) == size for peer in peers):
            return
        await turn()
    raise AssertionError([len(peer.protocol.taken) for peer in peers])


async def test_octets_go_both_ways(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.send(b"a", b"b" * 10)
    assert peer.protocol.taken == b"a" + b"b" * 10
    peer.stream.write(b"answer")
    peer.stream.writelines([b", ", b"and more"])
    assert (peer.read(), peer.read()) == (b"answer", b", and more")


async def test_a_large_answer_goes_whole(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.stream.write(bytes(1_000_000))
    peer.receive()
    assert sum(len(peer.client.read(20_000)) for _ in range(62)) == 1_000_000


async def test_all_connections_share_what_a_turn_decrypts(certificates: Certificates) -> None:
    shared = TlsInput()
    peers = [await connected(certificates, shared) for _ in range(10)]
    await turn()
    before = 0
    for peer in peers:
        peer.send(*[b"\n"] * ENOUGH)
    most = PIECES_A_TURN * PIECE_RECORDS + len(peers) * RECORDS_AT_ONCE
    while before < len(peers) * ENOUGH:
        now = sum(len(peer.protocol.taken) for peer in peers)
        assert now - before <= most
        before, most = now, PIECES_A_TURN * PIECE_RECORDS
        await turn()
    assert {peer.transport.calls[-1] for peer in peers} == {"resume"}
    assert all(peer.transport.calls[0] == "pause" for peer in peers)


async def test_they_decrypt_in_turn_and_few_records_go_at_once(certificates: Certificates) -> None:
    shared = TlsInput()
    first, second, third = [await connected(certificates, shared) for _ in range(3)]
    await turn()
    first.send(*[b"\n"] * 20 * PIECES_A_TURN * PIECE_RECORDS)
    second.send(*[b"\n"] * ENOUGH)
    third.send(*[b"\n"] * RECORDS_AT_ONCE)
    assert len(third.protocol.taken) == RECORDS_AT_ONCE
    await all_taken(second, size=ENOUGH)
    assert len(first.protocol.taken) <= 2 * ENOUGH


async def test_many_small_reads_of_a_turn_are_no_more_than_one(certificates: Certificates) -> None:
    shared = TlsInput()
    greedy, slow = [await connected(certificates, shared) for _ in range(2)]
    await turn()
    greedy.send(*[b"\n"] * ENOUGH)
    for _ in range(32):
        slow.send(*[b"\n"] * RECORDS_AT_ONCE)
    assert len(slow.protocol.taken) == RECORDS_AT_ONCE
    await all_taken(slow, size=32 * RECORDS_AT_ONCE)
    await all_taken(greedy, size=ENOUGH)


async def test_records_that_wait_keep_their_order_and_come_before_the_end(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    contents = [bytes((n % 251,)) for n in range(ENOUGH)]
    peer.send(*contents)
    peer.say_goodbye()
    assert "eof" not in peer.protocol.events
    await all_taken(peer, size=ENOUGH)
    assert peer.protocol.taken == b"".join(contents)
    await turn()
    assert peer.protocol.events == ["made", "eof"]


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes(size)


class KeyUpdates:
    """TLS to which all octets are records without content."""

    def __init__(self, incoming: ssl.MemoryBIO) -> None:
        self.incoming = incoming
        self.seen: list[int] = []  # octets, call by call

    def do_handshake(self) -> None:
        self.incoming.read()

    def read(self, size: int) -> bytes:
        self.seen.append(len(self.incoming.read()))
        raise ssl.SSLWantReadError


class OfKeyUpdates(ssl.SSLContext):
    def wrap_bio(self, incoming: ssl.MemoryBIO, *others: Any, **named: Any) -> Any:
        self.tls = KeyUpdates(incoming)
        return self.tls


async def test_records_without_content_have_their_turns() -> None:
    shared = TlsInput()
    many = 8
    tls: list[KeyUpdates] = []
    streams: list[TlsStream] = []
    for _ in range(many):
        context = OfKeyUpdates(ssl.PROTOCOL_TLS_SERVER)
        streams.append(TlsStream(context, Taking(), shared))
        streams[-1].connection_made(Transport(True, None))
        tls.append(context.tls)
    for stream in streams:
        arrive(stream, record(40))  # the handshake
    await turn()
    octets = (record(22) * READ_BYTES)[:READ_BYTES]  # each read ends within a record
    sizes = [READ_BYTES] * many
    for stream in streams:
        arrive(stream, octets)
    most = 0
    before = sum(sum(one.seen) for one in tls)
    size = len(record(22))
    of_pieces = PIECES_A_TURN * (PIECE_RECORDS // EMPTY_RECORDS + CHUNK_EMPTY_RECORDS) * size
    assert before <= many * CHUNK_RECORDS * size + of_pieces
    for _ in range(TURNS_MAX):
        await turn()
        now = sum(sum(one.seen) for one in tls)
        most, before = max(most, now - before), now
        if now == sum(sizes):
            break
    assert [sum(one.seen) for one in tls] == sizes
    assert 0 < most <= of_pieces
    assert [max(one.seen) for one in tls] == [CHUNK_RECORDS * size] * many
    assert [max(one.seen[1:]) for one in tls] == [CHUNK_EMPTY_RECORDS * size] * many


@pytest.mark.parametrize("cut", [1, 4, 5, 6, 1_000])
async def test_a_large_record_in_pieces_is_not_taken_for_records_without_content(
    certificates: Certificates, cut: int
) -> None:
    peer = await connected(certificates, TlsInput())
    await turn()
    content = b"x" * (16 * 1024)
    peer.client.write(content)
    octets = peer.taken_from_client()
    for part in (octets[:cut], *(octets[start : start + 1_000] for start in range(cut, len(octets), 1_000))):
        peer.deliver(part)
        await turn()
    assert peer.protocol.taken == content
    peer.send(*[b"\n"] * RECORDS_AT_ONCE)
    assert len(peer.protocol.taken) == len(content) + RECORDS_AT_ONCE, "all of them at once, as before"


async def test_a_paused_protocol_gets_nothing_more(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    await turn()
    peer.protocol.pauses_after = 1
    peer.send(*[b"\n"] * ENOUGH)
    for _ in range(10):
        await turn()
    assert len(peer.protocol.taken) == RECORDS_AT_ONCE
    assert not peer.stream.is_reading()
    assert peer.transport.calls == ["pause"]
    peer.protocol.pauses_after = 0
    peer.stream.resume_reading()
    peer.stream.resume_reading()
    assert len(peer.protocol.taken) == RECORDS_AT_ONCE  # not within the protocol's own call
    await all_taken(peer, size=ENOUGH)
    await turn()
    assert peer.transport.calls == ["pause", "resume"]


@pytest.mark.parametrize("how", ["close_notify", "FIN"])
async def test_a_peer_that_sends_no_more_still_gets_its_answers(certificates: Certificates, how: str) -> None:
    peer = await connected(certificates, TlsInput())
    peer.send(b"the last")
    if how == "FIN":
        assert peer.stream.eof_received()
    else:
        peer.say_goodbye()
        assert peer.stream.eof_received()
    assert (peer.protocol.taken, peer.protocol.events) == (b"the last", ["made", "eof"])
    peer.stream.write(b"owed")
    assert peer.read() == b"owed"
    peer.stream.close()
    assert peer.transport.calls == ["close"]
    if how == "FIN":
        assert peer.read() == b""


async def test_a_protocol_that_does_not_want_it_is_closed_with_the_input(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.protocol.keeps_open = False
    peer.say_goodbye()
    assert peer.transport.calls == ["close"]
    assert not peer.stream.eof_received()


async def test_our_end_says_so_and_drops_what_still_comes(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.stream.pause_reading()
    peer.stream.write(b"good-bye")
    peer.stream.write_eof()
    peer.stream.resume_reading()
    peer.stream.write(b"too late")
    assert (peer.read(), peer.read()) == (b"good-bye", b"")
    peer.deliver(bytes(1000))
    assert peer.transport.calls == ["pause", "eof", "resume"]
    assert peer.stream.eof_received()
    assert peer.protocol.events == ["made", "eof"]


async def test_broken_records_end_the_connection(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.send(b"whole")
    peer.deliver(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert peer.protocol.taken == b"whole"
    assert peer.transport.calls == ["abort"]


async def test_handshakes_have_their_turns(certificates: Certificates) -> None:
    """The first octets of thousands may have come before: the rest of all may come at once."""
    shared = TlsInput()
    peers = [Peer(certificates, shared) for _ in range(3 * PIECES_A_TURN)]
    for peer in peers:
        peer.greet()
    for turns in (1, 2, 3):
        assert sum(bool(peer.transport.written) for peer in peers) == turns * PIECES_A_TURN
        assert peers[-1].transport.calls == (["pause"] if turns < 3 else ["pause", "resume"])
        await turn()
    for peer in peers:
        peer.receive()
        peer.greet()
        await peer.stream.handshake(60)


async def test_a_handshake_that_fails(certificates: Certificates) -> None:
    peer = Peer(certificates, TlsInput())
    peer.deliver(b"\x16\x03\x01\x00\x05hello")
    with pytest.raises(ConnectionAbortedError, match="SSL"):
        await peer.stream.handshake(60)
    peer.stream.abort()
    peer.stream.connection_lost(None)
    assert peer.protocol.events == []


@pytest.mark.parametrize("is_eof", [True, False])
async def test_a_peer_that_goes_before_its_handshake_is_done(certificates: Certificates, is_eof: bool) -> None:
    peer = Peer(certificates, TlsInput())
    if is_eof:
        assert not peer.stream.eof_received()
    peer.stream.connection_lost(None)
    with pytest.raises(ConnectionAbortedError, match="ended the connection"):
        await peer.stream.handshake(60)
    assert peer.protocol.events == []


async def test_a_handshake_has_a_time(certificates: Certificates) -> None:
    peer = Peer(certificates, TlsInput())
    with pytest.raises(ConnectionAbortedError, match="longer than 0 s"):
        await peer.stream.handshake(0)


async def test_the_protocol_hears_of_a_full_socket_and_of_its_loss(certificates: Certificates) -> None:
    peer = await connected(certificates, TlsInput())
    peer.stream.pause_writing()
    peer.stream.resume_writing()
    peer.stream.connection_lost(None)
    assert peer.protocol.events == ["made", "full", "empty", "lost"]
    peer.stream.write(b"nobody gets it")
    peer.stream.close()
    peer.stream.abort()
    assert peer.stream.is_closing()
    assert peer.stream.get_write_buffer_size() == 0
    assert peer.transport.calls == []


async def test_what_the_protocol_may_ask(certificates: Certificates) -> None:
    stream = (await connected(certificates, TlsInput())).stream
    known: dict[str, Any] = {name: stream.get_extra_info(name) for name in ("peername", "peercert", "none of these")}
    assert known == {"peername": ("192.0.2.7", 5555), "peercert": None, "none of these": None}
    assert isinstance(stream.get_extra_info("sslcontext"), ssl.SSLContext)
    assert isinstance(stream.get_extra_info("ssl_object"), ssl.SSLObject)
    assert stream.get_extra_info("cipher")
