"""The listener with real sockets: it binds, counts, checks passwords, stops; settings come from the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from config.matching import AddressMatcher
from config.model import Endpoint, Limits, Listeners, ServerConfig, StompConfig, StompDialect, StompLimits
from config.scram import hash_password
from engine.broker import Broker
from engine.open_transaction import TransactionLimits
from gateway.connections.admission import REFUSED_MAX, Admission
from gateway.connections.listener import Listener, session_settings
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop, LoopTimers
from gateway.process.clock import SystemClock
from gateway.process.counters import GatewayCounters
from gateway.process.workers import ThreadWorkers
from protocols.stomp.mapping.dialects import DIALECTS
from tests.support.store.memory_store import MemoryStore

CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n%b\n\0"


def configured(**limits: int) -> ServerConfig:
    listeners = Listeners(stomp=Endpoint("tcp", "127.0.0.1", 0))
    of_address = limits.pop("connections_per_address", 10_000)
    return ServerConfig(
        listeners=listeners,
        limits=Limits(connections_per_address=of_address),
        stomp=StompConfig(limits=StompLimits(**limits)),
    )


@asynccontextmanager
async def serving(config: ServerConfig, counters: GatewayCounters | None = None) -> AsyncIterator[Listener]:
    loop = asyncio.get_running_loop()
    counters = counters or GatewayCounters()
    clock = SystemClock()
    timers = LoopTimers(loop, clock)
    workers = ThreadWorkers(loop)
    store = MemoryStore(workers)
    broker = Broker(store, clock, timers, AddressMatcher(()), config.memory_limit_bytes)
    engine_loop = EngineLoop(loop, broker, store, clock)
    timers.engine_loop = engine_loop
    workers.attach(engine_loop)
    listener = Listener(
        config,
        broker,
        engine_loop,
        LoginCheck(config),
        ServerTls(config),
        counters,
        Admission(config.stomp.limits.connections, config.limits.connections_per_address, counters),
    )
    await listener.bind("stomp")
    listener.accept("stomp")
    async with asyncio.timeout(30):
        yield listener
        await listener.stop(10)
    assert not engine_loop.failed.is_set()


class Client:
    """A socket, and the frames that come out of it, as text up to their NUL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, listener: Listener) -> Client:
        return cls(*await asyncio.open_connection(listener.endpoints["stomp"].host, listener.endpoints["stomp"].port))

    def send(self, octets: bytes) -> None:
        self.writer.write(octets)

    async def frame(self) -> str:
        return (await self.reader.readuntil(b"\0")).decode().lstrip("\n")

    async def rest(self) -> bytes:
        """Return what comes until the gateway has closed, then close."""
        rest = await self.reader.read()
        self.writer.close()
        await self.writer.wait_closed()
        return rest


async def test_it_picks_a_port_and_serves() -> None:
    async with serving(configured()) as listener:
        assert listener.endpoints["stomp"].port > 0
        client = await Client.open(listener)
        client.send(CONNECT % b"" + b"SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0")
        client.send(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\nhello\0")
        assert (await client.frame()).startswith("CONNECTED\nversion:1.2\n")
        assert {(await client.frame()).split("\n")[0] for _ in range(2)} == {"MESSAGE", "RECEIPT"}
        client.send(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert await client.frame() == "RECEIPT\nreceipt-id:bye\n\n\0"
        assert await client.rest() == b"\n"


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(configured()) as listener:
        config = replace(configured(), listeners=Listeners(stomp=listener.endpoints["stomp"]))
        with pytest.raises(OSError):
            async with serving(config):
                pass


async def test_one_connection_more_than_allowed() -> None:
    async with serving(configured(connections=1)) as listener:
        first = await Client.open(listener)
        first.send(CONNECT % b"")
        await first.frame()
        second = await Client.open(listener)
        second.send(CONNECT % b"")
        refusal = (await second.rest()).decode()
        assert refusal.startswith("ERROR\nmessage:too many connections\n")
        assert "1 connections are open, which is the limit" in refusal
        first.send(b"DISCONNECT\n\n\0")
        assert await first.rest() == b"\n"
        while True:  # the place is free as soon as the gateway has seen the end of the first one
            third = await Client.open(listener)
            third.send(CONNECT % b"")
            answer = await third.frame()
            third.writer.close()
            if answer.startswith("CONNECTED"):
                break


async def test_refused_connections_that_stay_are_cut_off_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.connections.orderly_close.LINGER_S", 600.0)  # none goes before there are enough
    counters = GatewayCounters()
    async with serving(configured(connections=1), counters) as listener:
        first = await Client.open(listener)
        first.send(CONNECT % b"")
        await first.frame()
        lingering = []
        for _ in range(REFUSED_MAX):
            lingering.append(await Client.open(listener))
            assert "too many connections" in await lingering[-1].frame()
        unheard = await Client.open(listener)
        with pytest.raises((asyncio.IncompleteReadError, OSError)) as cut:
            await unheard.frame()
        unheard.writer.close()
        assert getattr(cut.value, "partial", b"") == b""
        assert counters.refused == REFUSED_MAX + 1
        for client in [first, *lingering]:
            client.writer.close()


async def test_input_that_ends_behind_a_send_gets_its_receipt_first() -> None:
    async with serving(configured()) as listener:
        client = await Client.open(listener)
        client.send(CONNECT % b"")
        client.send(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\nhello\0")
        client.writer.write_eof()
        assert (await client.frame()).startswith("CONNECTED")
        assert await client.frame() == "RECEIPT\nreceipt-id:r\n\n\0"
        assert await client.rest() == b"\n"


async def test_input_that_ends_while_the_password_is_checked() -> None:
    users = {"ann": tuple(hash_password("secret", iterations=4096))}
    async with serving(replace(configured(), users=users)) as listener:
        client = await Client.open(listener)
        client.send(CONNECT % b"login:ann\npasscode:secret\n")
        client.send(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\nhello\0")
        client.writer.write_eof()
        assert (await client.frame()).startswith("CONNECTED")
        assert (await client.frame()).startswith("RECEIPT")
        assert await client.rest() == b"\n"


async def test_the_last_error_arrives_although_the_peer_goes_on_sending() -> None:
    async with serving(configured(body_bytes=1024)) as listener:
        client = await Client.open(listener)
        client.send(CONNECT % b"" + b"SEND\ndestination:/queue/q\ncontent-length:9000000\n\n")
        for _ in range(100):
            client.send(b"x" * 65_536)
        assert (await client.frame()).startswith("CONNECTED")
        assert "\ncondition:frame-too-large\n" in await client.frame()
        assert await client.rest() == b"\n"


async def test_passwords_are_checked() -> None:
    users = {"ann": tuple(hash_password("se:cret", iterations=4096))}
    async with serving(replace(configured(), users=users)) as listener:
        for line, expected in (
            (b"login:ann\npasscode:se:cret\n", "CONNECTED"),
            (b"login:ann\npasscode:se:cret\n", "CONNECTED"),  # remembered: answered in the middle of the read
            (b"login:ann\npasscode:wrong\n", "ERROR"),
            (b"login:bob\npasscode:se:cret\n", "ERROR"),
            (b"", "ERROR"),
        ):
            client = await Client.open(listener)
            client.send(CONNECT % line + b"BEGIN\ntransaction:x\nreceipt:r\n\n\0DISCONNECT\n\n\0")
            assert (await client.frame()).split("\n")[0] == expected
            assert (await client.rest()).startswith(b"\nRECEIPT" if expected == "CONNECTED" else b"\n")


async def test_a_client_that_leaves_while_its_password_is_checked() -> None:
    users = {"ann": tuple(hash_password("secret", iterations=4096))}
    async with serving(replace(configured(), users=users)) as listener:
        for _ in range(5):
            client = await Client.open(listener)
            client.send(CONNECT % b"login:ann\npasscode:wrong\n")
            client.writer.close()
        good = await Client.open(listener)
        good.send(CONNECT % b"login:ann\npasscode:secret\n")
        assert (await good.frame()).startswith("CONNECTED")
        good.writer.close()


async def test_stopping_tells_every_peer() -> None:
    async with serving(configured()) as listener:
        client = await Client.open(listener)
        client.send(CONNECT % b"")
        await client.frame()
        stopping = asyncio.ensure_future(listener.stop(10))
        assert "message:the gateway is shutting down" in await client.frame()
        assert await client.rest() == b"\n"
        await stopping
        with pytest.raises(OSError):
            await Client.open(listener)


async def test_a_peer_that_will_not_go_is_cut_off() -> None:
    async with serving(configured()) as listener:
        client = await Client.open(listener)
        client.send(CONNECT % b"")
        await client.frame()
        await listener.stop(0)
        assert await client.reader.read() in (b"\n", b"\nERROR\nmessage:the gateway is shutting down\n\n\0\n")
        client.writer.close()


def test_settings_come_from_the_configuration() -> None:
    config = ServerConfig(
        server_name="Turbine",
        stomp=StompConfig(
            default_persistent=True,
            strict_headers=True,
            heart_beat_grace=3.0,
            limits=StompLimits(
                header_count=10,
                header_line_bytes=100,
                body_bytes=1_000,
                frame_time_ms=1,
                connect_time_ms=2,
                subscriptions=3,
                transactions=4,
                transaction_actions=5,
                transaction_bytes=6,
                unread_output_bytes=7,
                block_park_bytes=8,
                block_park_max_bytes=9,
            ),
        ),
    )
    settings = session_settings(config, needs_login=True)
    assert (settings.server, settings.needs_login) == ("Turbine", True)
    assert (settings.default_persistent, settings.is_strict, settings.heart_beat_grace) == (True, True, 3.0)
    limits = settings.frame_limits
    assert (limits.header_count, limits.header_line_bytes, limits.body_bytes) == (10, 100, 1_000)
    assert (settings.frame_time_ms, settings.connect_time_ms) == (1, 2)
    assert settings.subscriptions == 3
    assert settings.transaction_limits == TransactionLimits(4, 5, 6)
    assert (settings.unread_output_bytes, settings.block_park_bytes, settings.block_park_max_bytes) == (7, 8, 9)


@pytest.mark.parametrize(
    ("dialect", "name", "server"),
    [
        ("penstock", "Penstock", "Penstock"),
        ("activemq", "Penstock", "ActiveMQ/5.18.0 (Penstock)"),
        ("activemq", "Turbine", "Turbine"),
    ],
)
def test_the_dialect_of_a_listener(dialect: StompDialect, name: str, server: str) -> None:
    config = ServerConfig(server_name=name, stomp=StompConfig(dialect=dialect))
    settings = session_settings(config, needs_login=False)
    assert (settings.dialect, settings.server) == (DIALECTS[dialect], server)
