"""Connections of a gateway on fakes: their transports, sessions that answer with what they read, and their host."""

from __future__ import annotations

import asyncio
import logging
import socket

from config.matching import AddressMatcher
from engine.broker import Broker
from engine.broker_options import BrokerOptions
from engine.consumers.consumer import Consumer
from engine.values.delivery import Delivery
from engine.values.errors import EngineError, PenstockError
from engine.values.message import Message
from gateway.connections.admission import Admission, Place
from gateway.connections.connection import Connection
from gateway.connections.session_socket import ConnectionHost, SessionSocket
from gateway.loop.engine_loop import EngineLoop
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from tests.support.engine.broker_view import BrokerView
from tests.support.fakes import VirtualClock, VirtualTimers
from tests.support.store.scripted_store import ScriptedStore


class Transport(asyncio.Transport):
    """What the event loop would give; ``unsent``: octets that the peer has not taken."""

    def __init__(self, can_half_close: bool, endpoint: socket.socket | None) -> None:
        super().__init__({"peername": ("192.0.2.7", 5555), "socket": endpoint})
        self.written: list[bytes] = []
        self.calls: list[str] = []
        self.unsent = 0
        self.limit = 0
        self.is_gone = False
        self._can_half_close = can_half_close
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self._is_closing = True
        self.calls.append("close")

    def abort(self) -> None:
        self._is_closing = True
        self.calls.append("abort")

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.limit = high

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return self._can_half_close

    def write_eof(self) -> None:
        if self.is_gone:
            raise OSError("Transport endpoint is not connected")
        self.calls.append("eof")

    def taken(self) -> list[str]:
        calls = self.calls
        self.calls = []
        return calls


class Session(ProtocolConnection):
    """Answers each read with the same octets; ``finish`` ends it."""

    def __init__(self, broker: Broker, connection: SessionSocket) -> None:
        super().__init__(broker, connection, 1 << 20, 0)
        self.connection = connection
        self.given_up: list[str] = []
        self.out = b""
        self.finished = False
        self.ticks = 0
        self.is_broken = False
        self.is_engine_broken = False
        self.is_lossy = False
        self.is_speechless = False
        self.is_waiting = False
        self.log: list[str] = []

    def receive_data(self, octets: bytes, now_ms: int) -> None:
        self.check()
        self.out += octets
        self.connection.touch()

    def read_on(self) -> None:
        self.check()
        self.log.append("reads on")

    def resume_reading(self) -> None:
        self.share.resume_reading()

    def end_turn(self, offset: int, confirmed_offset: int) -> bytes:
        self.check()
        out, self.out = self.out, b""
        self.outbox.size_bytes = 0
        return out

    def endpoint_bytes(self) -> int:
        return 0

    def give_up(self, error: EngineError) -> None:
        self.check()
        self.given_up.append(str(error))
        self.connection.cut_off()

    def rights_changed(self) -> None:
        self.check()
        self.log.append("rights changed")

    def check(self) -> None:
        assert not self.is_broken, "ours"
        if self.is_engine_broken:
            broker = self.connection._engine_loop.broker
            broker.close_temporary(BrokerView(broker).queue("ordinary"))

    def output_written(self, is_paused: bool) -> None:
        self.check()
        self.log.append(f"written, {'paused' if is_paused else 'open'}")

    def finish(self) -> None:
        self.is_ending = self.finished = True

    def is_finished(self) -> bool:
        return self.finished

    def authenticated(self, is_allowed: bool) -> None:
        self.check()
        self.log.append(f"authenticated {is_allowed}")

    def tick(self, now_ms: int) -> int:
        self.check()
        self.ticks += 1
        return 60_000

    def is_blocked(self) -> bool:
        return self.is_waiting

    def pause_reading(self) -> None:
        raise AssertionError("nothing waits at a gate here")

    def input_ended(self) -> None:
        self.check()
        self.log.append("input ended")

    def protocol_name(self) -> str:
        return "stomp"

    def fault_words(self, text: str) -> bytes:
        assert not self.is_speechless, "no words"
        return b"" if "lost" in self.log else f"sorry: {text}".encode()  # as that of AMQP

    def hold_output(self) -> None:
        self.is_output_full = True

    def count_held(self) -> None: ...

    def lose(self) -> None:
        if not self.is_lossy:
            self.check()
        self.log.append("lost")

    def held_words(self) -> str:
        return ""

    def shut_down(self) -> None:
        self.check()
        self.log.append("shut down")

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None: ...

    def deliver_settled(
        self, consumer: Consumer, message: Message, is_redelivered: bool, delivery_count: int
    ) -> None: ...

    def fail(self, error: PenstockError) -> None: ...

    def release_owed(self, offset: int) -> bool:
        return False

    def send_waiting(self) -> None: ...

    def refuse_waiting(self, uri: str, error: EngineError) -> None: ...

    def describe(self) -> dict[str, str]:
        return {"session": "described"}


class Host(ConnectionHost):
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.has_room = True
        self.sessions: list[Session] = []
        self.closed = 0
        self.credentials: list[tuple[str, str]] = []

    def new_session(self, connection: SessionSocket) -> ProtocolConnection:
        self.sessions.append(Session(self.broker, connection))
        return self.sessions[-1]

    def connection_opened(self, connection: SessionSocket) -> bool:
        return self.has_room

    def connection_closed(self, connection: SessionSocket) -> None:
        self.closed += 1

    def refusal(self, connection: SessionSocket) -> bytes:
        return b"full"

    def warn(self, connection: SessionSocket, text: str) -> None:
        logging.getLogger("penstock.connection").warning("%s: %s", connection.peer(), text)

    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        self.credentials.append((login, passcode))

    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        raise AssertionError("no session of these tests knows SCRAM")


class ConnectionWorld:
    """Connections of one gateway; most tests have one.  limit_bytes: what all may hold."""

    def __init__(
        self,
        count: int = 1,
        *,
        limit_bytes: int = 256 << 20,
        has_room: bool = True,
        can_half_close: bool = True,
        endpoint: socket.socket | None = None,
    ) -> None:
        self.clock = VirtualClock()
        store = ScriptedStore()
        timers = VirtualTimers(self.clock)
        matcher = AddressMatcher(())
        options = BrokerOptions(connection_memory_bytes=limit_bytes)
        self.broker = Broker(store, self.clock, timers, matcher, 1024, options)
        self.engine_loop = EngineLoop(asyncio.get_running_loop(), self.broker, store, self.clock)
        self.host = Host(self.broker)
        self.host.has_room = has_room
        self.counters = GatewayCounters()
        self.transports = [Transport(can_half_close, endpoint) for _ in range(count)]
        self.connections = []
        for transport in self.transports:
            place = Place(Admission(1, 1, self.counters), "10.0.0.1", "")
            connection = Connection(self.host, self.engine_loop, self.counters, place, 4096, 60_000)
            connection.connection_made(transport)
            self.connections.append(connection)

    @property
    def session(self) -> Session:
        return self.host.sessions[0]

    @property
    def transport(self) -> Transport:
        return self.transports[0]

    @property
    def connection(self) -> Connection:
        return self.connections[0]

    def turn(self) -> None:
        self.engine_loop.end_turn()

    def finish(self) -> None:
        """End the session of the first, and the turn."""
        self.session.finish()
        self.connection.touch()
        self.turn()

    def tick_after(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds
        self.connection.tick(self.clock.now_ms)

    def write(self, number: int, size_bytes: int) -> None:
        """Have a session send so much in one turn."""
        session = self.host.sessions[number]
        session.out = b"x" * size_bytes
        session.outbox.size_bytes = size_bytes
        self.connections[number].touch()
        self.turn()

    def written_bytes(self, number: int) -> int:
        return sum(len(octets) for octets in self.transports[number].written)
