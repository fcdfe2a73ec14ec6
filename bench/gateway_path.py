"""Turns as the gateway runs them, with its own connections; only event loop, sockets and threads are replaced.

Rows d1 and g of bench/run.py, as deterministic as one_a_turn.py: a turn has what the sockets had at once, and a sync
has ended when the next round of the loop begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from bench.hot_path import acknowledgements
from bench.in_process import open_broker
from engine.broker import Broker
from engine.ports.clock import Clock
from engine.ports.workers import Job, Workers
from engine.store.file_store import FileStore
from gateway.connections.admission import Admission
from gateway.connections.connection import Connection
from gateway.connections.session_socket import ConnectionHost, SessionSocket
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

CONSUMERS: Final = 4
WRITE_LIMIT_BYTES: Final = 1 << 20
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
SUBSCRIBE: Final = b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\nactivemq.prefetchSize:1\n\n\0"


class Rounds:
    """The part of an event loop that turns use; it runs what is due when it is asked to, and no timers."""

    def __init__(self) -> None:
        self._due: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self._due.append((callback, args))

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        pass

    def run(self) -> None:
        """Run rounds until nothing is due."""
        while self._due:
            due, self._due = self._due, []
            for callback, args in due:
                callback(*args)


class Wire(asyncio.Transport):
    """A transport whose peer reads everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self._octets: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._octets.append(cast(bytes, data))

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        octets = b"".join(self._octets)
        self._octets.clear()
        return octets

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False


class LoopWorkers(Workers):
    """Runs each job at once; the next round of the loop takes its outcome."""

    def __init__(self, loop: Rounds) -> None:
        self._loop = loop
        self.engine_loop: EngineLoop | None = None

    def submit(self, job: Job, lane: int) -> None:
        job.run()
        if self.engine_loop is None:
            job.finish()
        else:
            self._loop.call_soon(self.engine_loop.job_done, job)


class Host(ConnectionHost):
    """Gives each connection a STOMP session."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def new_session(self, connection: SessionSocket) -> ProtocolConnection:
        return StompSession(self._broker, connection, SessionSettings(), 0)

    def connection_opened(self, connection: SessionSocket) -> bool:
        return True

    def connection_closed(self, connection: SessionSocket) -> None:
        raise AssertionError("nobody leaves here")

    def refusal(self, connection: SessionSocket) -> bytes:
        raise AssertionError("nobody is refused here")

    def warn(self, connection: SessionSocket, text: str) -> None:
        raise AssertionError(text)

    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        raise AssertionError("no login here")

    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        raise AssertionError("no login here")


class GatewayTurns:
    """A gateway with one producer and the consumers of row g."""

    def __init__(self, loop: Rounds, store: FileStore, workers: LoopWorkers, clock: Clock) -> None:
        self._loop = loop
        broker = open_broker(store, clock)
        self._host = Host(broker)
        self._counters = GatewayCounters()
        self._admission = Admission(CONSUMERS + 1, CONSUMERS + 1, self._counters)
        self._engine_loop = workers.engine_loop = EngineLoop(
            cast(asyncio.AbstractEventLoop, loop), broker, store, clock
        )
        self._producer, self._confirmed = self._connected(CONNECT)

    def _connected(self, octets: bytes) -> tuple[Connection, Wire]:
        place = self._admission.admit("127.0.0.1")
        assert place is not None, "there is room for all"
        connection = Connection(self._host, self._engine_loop, self._counters, place, WRITE_LIMIT_BYTES, 1_000)
        wire = Wire()
        connection.connection_made(wire)
        connection.data_received(octets)
        self._loop.run()
        return connection, wire

    def send(self, frames: list[bytes]) -> None:
        """Send one message after the other, each after the RECEIPT of the last one."""
        self._confirmed.taken()
        for frame in frames:
            self._producer.data_received(frame)
            self._loop.run()
            assert self._confirmed.taken().startswith(b"RECEIPT"), "a message is confirmed"

    def drain(self, messages: int) -> None:
        """Receive this many messages; the ACK of each consumer's message comes in the same round."""
        consumers = [self._connected(CONNECT + SUBSCRIBE) for _ in range(CONSUMERS)]
        left = messages
        while left:
            for connection, wire in consumers:
                answer = acknowledgements(wire.taken())
                left -= bool(answer)
                if answer:
                    connection.data_received(answer)
            self._loop.run()
