"""The first octet tells TLS from what is plain; who says nothing waits, but not for ever, and not everybody."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import ssl
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from engine.backlog.context import TurnAgenda
from engine.limits.connection_memory import HANDSHAKE_BYTES, Holdings
from gateway.connections.accept_failures import AcceptFailures
from gateway.connections.acceptor import HANDSHAKES_AT_ONCE, Acceptor
from gateway.connections.admission import REFUSED_MAX, Admission, Place
from gateway.connections.tls_stream import TlsInput, TlsStream
from gateway.process.counters import GatewayCounters
from gateway.process.log_lines import LINES_MAX
from tests.support.process.certificates import Certificates
from tests.support.uncollected import uncollected

LIMIT_S = 60.0


class Greeter(asyncio.Protocol):
    """Says whether TLS came, and repeats the first octets; or why there is no place."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.place.refusal:
            self.transport.write(self.place.refusal.encode())
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        kind = b"TLS " if self.transport.get_extra_info("ssl_object") is not None else b"plain "
        self.transport.write(kind + data)

    def connection_lost(self, error: Exception | None) -> None:
        del self.transport
        self.place.leave()


class Refusing(socket.socket):
    """A listening socket whose machine has no descriptors left, as often as it is told."""

    refusals = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return super().accept()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Served:
    """A server on a free port."""

    def __init__(
        self,
        certificate: Path,
        first_octet_s: float = LIMIT_S,
        most: int = 10,
        address_most: int = 10,
        is_tls_only: bool = False,
        handshakes_most: int = 10,
        calm_s: float = LIMIT_S,
    ) -> None:
        self.listening = Refusing(socket.AF_INET, socket.SOCK_STREAM)
        self.listening.setblocking(False)
        self.listening.bind(("127.0.0.1", 0))
        self.port: int = self.listening.getsockname()[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.counters = GatewayCounters()
        self.admission = Admission(most, address_most, self.counters)
        self.holdings = Holdings(4 * handshakes_most * HANDSHAKE_BYTES, TurnAgenda())
        self.server = Acceptor(
            self.listening,
            self.admission,
            Greeter,
            lambda: context,
            is_tls_only,
            first_octet_s,
            self.holdings,
            TlsInput(),
            _failures=AcceptFailures(calm_s),
        )

    async def connect(self, context: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("localhost" if context else "127.0.0.1", self.port, ssl=context)

    async def said(self, context: ssl.SSLContext | None = None) -> bytes:
        reader, writer = await self.connect(context)
        writer.write(b"hello")
        async with asyncio.timeout(LIMIT_S):
            answer = await reader.read(100)
            writer.close()
            await writer.wait_closed()
        return answer

    async def emptied(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.admission.open_count:
                await asyncio.sleep(0.001)

    async def shaking(self, count: int) -> None:
        """Wait until so many handshakes are under way."""
        async with asyncio.timeout(LIMIT_S):
            while self.holdings.handshakes_bytes != count * HANDSHAKE_BYTES:
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        """Close once every connection has ended: one whose loop has ended before it is a warning in a later test."""
        await self.emptied()
        self.server.close()


async def test_both_kinds_come_whole(certificates: Certificates) -> None:
    served = Served(certificates.gateway)
    served.server.start()
    assert await served.said() == b"plain hello"
    assert await served.said(certificates.client_context()) == b"TLS hello"
    await served.close()


async def test_who_says_nothing_is_given_up(certificates: Certificates) -> None:
    served = Served(certificates.gateway, first_octet_s=0.05)
    served.server.start()
    reader, writer = await served.connect()
    async with asyncio.timeout(LIMIT_S):
        assert await reader.read(1) == b""
    writer.close()
    await served.close()


@pytest.mark.parametrize(("most", "address_most"), [(1, 10), (10, 1)])
async def test_who_says_nothing_counts(certificates: Certificates, most: int, address_most: int) -> None:
    served = Served(certificates.gateway, most=most, address_most=address_most)
    served.server.start()
    _, silent = await served.connect()
    assert b"open, which is the limit" in await served.said()
    assert served.counters.refused == 1
    silent.close()
    await served.emptied()
    assert await served.said() == b"plain hello"
    await served.close()


async def test_a_handshake_under_way_counts(certificates: Certificates) -> None:
    served = Served(certificates.gateway, most=1, is_tls_only=True)
    served.server.start()
    _, slow = await served.connect()
    slow.write(b"\x16\x03\x01")
    async with asyncio.timeout(LIMIT_S):
        while not served.admission.open_count:
            await asyncio.sleep(0.001)
    reader, writer = await served.connect()
    async with asyncio.timeout(LIMIT_S):
        assert await reader.read(1) == b""
    for one in (slow, writer):
        one.close()
    await served.emptied()
    assert await served.said(certificates.client_context()) == b"TLS hello"
    await served.close()


async def test_who_says_nothing_and_has_no_place_is_cut_off_once_there_are_many(certificates: Certificates) -> None:
    served = Served(certificates.gateway, most=1)
    served.server.start()
    writers = [(await served.connect())[1] for _ in range(1 + REFUSED_MAX)]
    async with asyncio.timeout(LIMIT_S):
        while served.counters.refused < REFUSED_MAX:
            await asyncio.sleep(0.001)
        reader, writer = await served.connect()
        assert await reader.read(1) == b""
    for one in [*writers, writer]:
        one.close()
    await served.close()


async def test_closing_lets_go_of_who_waits(certificates: Certificates) -> None:
    served = Served(certificates.gateway)
    served.server.start()
    assert await served.said() == b"plain hello"
    reader, writer = await served.connect()
    await asyncio.sleep(0)
    served.server.close()
    served.server.close()
    async with asyncio.timeout(LIMIT_S):
        try:
            assert await reader.read(1) == b""
        except ConnectionResetError:
            pass  # it had not been accepted yet
    writer.close()


async def test_closing_ends_a_handshake_that_is_about_to_begin(certificates: Certificates) -> None:
    served = Served(certificates.gateway, is_tls_only=True)
    served.server.start()
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.settimeout(LIMIT_S)
        served.server._accept()
        assert served.admission.open_count == 1
        await asyncio.sleep(0)
        served.server.close()
        await served.emptied()
        assert await asyncio.to_thread(client.recv, 1) == b""
    assert served.holdings.handshakes_bytes == 0


async def test_a_machine_that_refuses_is_asked_again(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.listener")
    served = Served(certificates.gateway, calm_s=0.01)
    served.listening.refusals = 2
    served.server.start()
    assert await served.said() == b"plain hello"
    where = f"127.0.0.1:{served.port}"
    said = [f"cannot accept at {where}, trying again every 1 s: too many open files"]
    said.append(f"connections are accepted at {where} again; accepting failed 2 times")
    async with asyncio.timeout(LIMIT_S):
        while len(_accepting(caplog)) < 2:
            await asyncio.sleep(0.001)
    assert _accepting(caplog) == said
    await served.close()


async def test_a_machine_at_its_limit_is_one_line(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    """Each client that leaves lets one more in."""
    caplog.set_level("INFO", "penstock.listener")
    served = Served(certificates.gateway)
    served.server.start()
    for _ in range(2):
        served.listening.refusals = 1
        assert await served.said() == b"plain hello"
    assert len(_accepting(caplog)) == 1
    await served.close()


def _accepting(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "accept" in (text := record.getMessage())]


async def test_what_only_begins_like_a_handshake_ends(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(certificates.gateway)
    served.server.start()
    reader, writer = await served.connect()
    writer.write(b"\x16\x03\x01\x00\x05hello and more of it")
    async with asyncio.timeout(LIMIT_S):
        while await reader.read(100):  # an alert may come
            pass
    writer.close()
    await served.close()
    assert any("no TLS handshake" in record.getMessage() for record in caplog.records)


async def test_handshakes_that_fail_are_not_more_lines_than_an_address_may_cause(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    served = Served(certificates.gateway)
    served.server.start()
    for _ in range(LINES_MAX + 5):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"\x16garbage garbage garbage")
        async with asyncio.timeout(LIMIT_S):
            await reader.read()
        writer.close()
    await served.emptied()
    assert sum("no TLS handshake" in record.getMessage() for record in caplog.records) == LINES_MAX
    assert served.counters.left_out_lines == 5
    await served.close()


async def test_few_handshakes_begin_in_a_turn(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 3 * HANDSHAKES_AT_ONCE
    served = Served(certificates.gateway, most=count, address_most=count, is_tls_only=True)
    loop = asyncio.get_running_loop()
    begun: list[int] = []
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if len(begun) < count:
            loop.call_soon(turn)

    start = loop.connect_accepted_socket

    async def noted(*given: Any, **asked: Any) -> object:
        begun.append(turns)
        return await start(*given, **asked)

    monkeypatch.setattr(loop, "connect_accepted_socket", noted)
    served.listening.listen(count)
    clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(count)]
    served.server.start()
    turn()
    async with asyncio.timeout(LIMIT_S):
        while len(begun) < count:
            await asyncio.sleep(0)
    assert max(Counter(begun).values()) <= HANDSHAKES_AT_ONCE
    for client in clients:
        client.close()
    await served.close()


async def test_what_waits_for_its_handshake_ends_with_the_server(certificates: Certificates) -> None:
    count = 3 * HANDSHAKES_AT_ONCE
    served = Served(certificates.gateway, most=count, address_most=count, is_tls_only=True)
    served.listening.listen(count)
    clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(count)]
    served.server.start()
    while served.admission.open_count < count:
        await asyncio.sleep(0)
    served.server.close()
    await served.emptied()
    for client in clients:
        client.close()


async def test_a_handshake_counts_until_it_ends(certificates: Certificates) -> None:
    served = Served(certificates.gateway)
    served.server.start()
    _, half = await served.connect()
    half.write(b"\x16\x03\x01")
    await served.shaking(1)
    half.close()
    await served.shaking(0)
    reader, writer = await served.connect(certificates.client_context())
    writer.write(b"hello")
    async with asyncio.timeout(LIMIT_S):
        assert await reader.read(100) == b"TLS hello"
    assert served.holdings.used_bytes == 0
    writer.close()
    await served.close()


async def test_the_oldest_handshake_makes_room(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    served = Served(certificates.gateway, handshakes_most=2)
    served.server.start()
    halves = []
    for count in (1, 2):
        halves.append(await served.connect())
        halves[-1][1].write(b"\x16\x03\x01")
        await served.shaking(count)
    assert await served.said(certificates.client_context()) == b"TLS hello"
    async with asyncio.timeout(LIMIT_S):
        assert await halves[0][0].read(1) == b""
    await served.shaking(1)
    assert served.counters.refused == 1
    assert any("its TLS handshake was the oldest" in record.getMessage() for record in caplog.records)
    for _, writer in halves:
        writer.close()
    await served.shaking(0)
    await served.close()
    assert served.holdings.used_bytes == 0


@pytest.mark.parametrize("end", ["begun", "no TLS", "too long", "cut off", "done"])
async def test_a_handshake_leaves_nothing_to_the_garbage_collector(certificates: Certificates, end: str) -> None:
    """The collector hardly ever looks at what has lived for a while, and a handshake takes 20 KB."""
    served = Served(
        certificates.gateway,
        first_octet_s=0.2 if end == "too long" else LIMIT_S,
        handshakes_most=1 if end == "cut off" else 10,
    )
    served.server.start()
    with uncollected():
        if end == "done":
            assert await served.said(certificates.client_context()) == b"TLS hello"
        else:
            _, writer = await served.connect()
            writer.write(b"\x16\x03\x01\x00\x05hello and more of it" if end == "no TLS" else b"\x16\x03\x01")
            if end == "begun":
                await served.shaking(1)
                assert _streams() == 1
            elif end == "cut off":
                await served.shaking(1)
                assert await served.said(certificates.client_context()) == b"TLS hello"
            elif end == "too long":
                await served.emptied()
            writer.close()
        await served.emptied()
        async with asyncio.timeout(LIMIT_S):
            while _streams():
                await asyncio.sleep(0.001)
    await served.close()


def _streams() -> int:
    return sum(isinstance(one, TlsStream) for one in gc.get_objects())
