"""One socket and its protocol adapter: octets in, octets out, back-pressure both ways."""

from __future__ import annotations

import asyncio
import logging
import socket
from abc import ABC, abstractmethod
from typing import Final, cast

from gateway.engine_loop import EngineLoop, Flushable
from protocols.connection import Link, ProtocolConnection

# A close with input unread resets the connection, and the peer may never see our last frame: so we say that no more
# comes, and read on, this long at a time, until the peer has closed or taken everything.
LINGER_S: Final = 1.0
LINGER_ROUNDS: Final = 30

log: Final = logging.getLogger("penstock.connection")


class ConnectionHost(ABC):
    """The listener, as its connections see it."""

    @abstractmethod
    def new_session(self, connection: Connection) -> ProtocolConnection: ...

    @abstractmethod
    def connection_opened(self, connection: Connection) -> bool:
        """Return False if there is no room for one more; the connection then closes with ``refusal``."""

    @abstractmethod
    def connection_closed(self, connection: Connection) -> None: ...

    @abstractmethod
    def refusal(self) -> bytes: ...

    @abstractmethod
    def check_credentials(self, connection: Connection, login: str, passcode: str) -> None:
        """Answer with ``Connection.credentials_checked``."""


class Connection(asyncio.Protocol, Link, Flushable):
    """write_limit_bytes: unread output beyond which the peer gets nothing more and is not read either."""

    def __init__(self, host: ConnectionHost, engine_loop: EngineLoop, write_limit_bytes: int) -> None:
        self._host = host
        self._engine_loop = engine_loop
        self._write_limit_bytes = write_limit_bytes
        self._transport: asyncio.Transport | None = None
        self._session: ProtocolConnection | None = None
        self._is_writing_paused = False
        self._is_reading_paused = False  # by the session
        self._tick: asyncio.TimerHandle | None = None
        self._peer = ""

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's own class, which derives from nothing of asyncio
        self._transport = stream
        peer = stream.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"
        if not self._host.connection_opened(self):
            stream.write(self._host.refusal())
            self._close_in_order(stream)
            return
        endpoint = stream.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.set_write_buffer_limits(high=self._write_limit_bytes)
        self._engine_loop.open_turn()
        self._session = self._host.new_session(self)
        self._schedule_tick(0)

    def data_received(self, data: bytes) -> None:
        session = self._session
        if session is not None:
            self._engine_loop.open_turn()
            session.receive_data(data, self._engine_loop.now_ms)

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._apply_reading()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._apply_reading()
        if self._session is not None:
            self._engine_loop.open_turn()
            self._session.output_written(False)

    def connection_lost(self, error: Exception | None) -> None:
        if self._tick is not None:
            self._tick.cancel()
        session = self._session
        self._session = None
        if session is not None:
            self._engine_loop.open_turn()
            session.connection_lost()
        self._host.connection_closed(self)

    # -- what the turn and the session call

    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Write what the session has for the wire; once a turn."""
        session = self._session
        transport = self._transport
        if session is None or transport is None:
            return
        try:
            octets = session.end_turn(offset, confirmed_offset)
            if octets:
                transport.write(octets)
                session.output_written(self._is_writing_paused)
            if session.is_finished():
                self._session = None
                session.connection_lost()
                self._close_in_order(transport)
        except Exception:  # ours; it takes down this connection and nothing else
            log.critical("%s: a fault in its session, closing it", self._peer, exc_info=True)
            transport.abort()

    def touch(self) -> None:
        self._engine_loop.touched.append(self)
        self._engine_loop.open_turn()

    def authenticate(self, login: str, passcode: str) -> None:
        self._host.check_credentials(self, login, passcode)

    def credentials_checked(self, is_allowed: bool) -> None:
        if self._session is not None:
            self._engine_loop.open_turn()
            self._session.authenticated(is_allowed)

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        self._apply_reading()

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._apply_reading()

    def warn(self, text: str) -> None:
        log.warning("%s: %s", self._peer, text)

    def peer(self) -> str:
        return self._peer

    def shut_down(self) -> None:
        """Tell the peer that the gateway stops; what it is owed still leaves."""
        if self._session is not None:
            self._engine_loop.open_turn()
            self._session.shut_down()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- the steps

    def _apply_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._session is not None and (self._is_reading_paused or self._is_writing_paused):
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _close_in_order(self, transport: asyncio.Transport) -> None:
        if self._tick is not None:
            self._tick.cancel()
        if transport.is_closing() or not transport.can_write_eof():
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:  # the peer has gone, and the event loop has not noticed yet
            transport.abort()
            return
        self._apply_reading()
        self._linger(transport, LINGER_ROUNDS)

    def _linger(self, transport: asyncio.Transport, rounds: int) -> None:
        loop = asyncio.get_running_loop()
        self._tick = loop.call_later(LINGER_S, self._end_linger, transport, rounds)

    def _end_linger(self, transport: asyncio.Transport, rounds: int) -> None:
        if transport.get_write_buffer_size() == 0:
            transport.close()
        elif rounds > 1:
            self._linger(transport, rounds - 1)
        else:
            transport.abort()

    def _schedule_tick(self, delay_ms: int) -> None:
        self._tick = asyncio.get_running_loop().call_later(delay_ms / 1000, self._do_tick)

    def _do_tick(self) -> None:
        if self._session is not None:
            self._engine_loop.now_ms = self._engine_loop.clock.monotonic_ms()
            self._schedule_tick(self._session.tick(self._engine_loop.now_ms))
