"""One socket and its protocol adapter: octets in, octets out, back-pressure both ways."""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import sys
from abc import ABC, abstractmethod
from typing import Final, cast

from gateway.connections.admission import Place
from gateway.connections.tls import common_name
from gateway.connections.unread_output import LARGE_BYTES, UnreadOutput
from gateway.loop.engine_loop import EngineLoop, Flushable
from gateway.loop.faults import is_engine_whole
from gateway.loop.ticks import Ticking
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from protocols.detect import UNDECIDED, detect
from protocols.peer_socket import PeerSocket

# A close with input unread resets the connection, and the peer may never see our last frame: so we say that no more
# comes, and read on, this long at a time, until the peer has closed or taken everything.
LINGER_S: Final = 1.0
LINGER_ROUNDS: Final = 30

log: Final = logging.getLogger("penstock.connection")


class ConnectionHost(ABC):
    """The listener, as its connections see it."""

    @abstractmethod
    def new_session(self, connection: Connection) -> ProtocolConnection:
        """Return the adapter of a connection on which nothing has been said."""

    def session_for(self, connection: Connection, protocol: int) -> ProtocolConnection | None:
        """Return the adapter of what the first octets began; None if the one that is there is it."""
        return None

    @abstractmethod
    def connection_opened(self, connection: Connection) -> bool:
        """Return False if there is no room for one more; the connection then closes with ``refusal``."""

    @abstractmethod
    def connection_closed(self, connection: Connection) -> None: ...

    @abstractmethod
    def refusal(self, connection: Connection) -> bytes:
        """Return the last words to one too many."""

    @abstractmethod
    def warn(self, connection: Connection, text: str) -> None:
        """Tell the operator, as far as the connection's address has not said too much already."""

    def user_named(self, name: str) -> str:
        """Return the user whom a verified certificate names, "" for none."""
        return ""

    @abstractmethod
    def check_credentials(self, connection: Connection, login: str, passcode: str) -> None:
        """Answer with ``Connection.credentials_checked``."""

    @abstractmethod
    def check_proved(self, connection: Connection, login: str, is_right: bool) -> None:
        """The same for a login of which it is known."""


class Connection(asyncio.Protocol, PeerSocket, Flushable, Ticking):
    """place: what the socket takes among all; the host gives it back.

    write_limit_bytes: unread output beyond which the peer gets nothing more and is not read either.

    write_stall_ms: for so long output may wait of which the peer takes nothing.
    """

    def __init__(
        self,
        host: ConnectionHost,
        engine_loop: EngineLoop,
        counters: GatewayCounters,
        place: Place,
        write_limit_bytes: int,
        write_stall_ms: int,
    ) -> None:
        self._host = host
        self._engine_loop = engine_loop
        self._counters = counters
        self.place = place
        self._write_limit_bytes = write_limit_bytes
        self._write_stall_ms = write_stall_ms
        self._unread = UnreadOutput(engine_loop.holdings, write_limit_bytes)
        self._written_bytes = 0
        self._taken_bytes = 0  # of them, as far as the last tick saw
        self._taken_ms = 0  # when the peer last took something, or had nothing to take
        self._is_input_ended = False
        self._transport: asyncio.Transport | None = None
        self._session: ProtocolConnection | None = None
        self._is_writing_paused = False
        self._is_reading_paused = False  # by the session
        self._tick: asyncio.TimerHandle | None = None
        self._peer = ""
        self._is_undecided = True  # which protocol it is
        self._fault: Exception | None = None  # of ours, that is to end it with this turn
        self._first_octets = b""
        self._expected = UNDECIDED

    def expect(self, protocol: int) -> None:
        """Take what comes for this protocol, whatever its first octets are: its carrier has named it."""
        self._expected = protocol

    # -- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's own class, which derives from nothing of asyncio
        self._transport = stream
        peer = stream.get_extra_info("peername")
        self._peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "?"
        if not self._host.connection_opened(self):
            stream.write(self._host.refusal(self))
            self._close_in_order(stream)
            return
        endpoint = stream.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        stream.set_write_buffer_limits(high=self._write_limit_bytes)
        if self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        self._taken_ms = self._engine_loop.now_ms
        try:
            self._session = self._host.new_session(self)
        except Exception:
            self._fail("accepting")
            return
        self._schedule_tick(0)

    def data_received(self, data: bytes) -> None:
        session = self._session
        engine_loop = self._engine_loop
        if session is None or engine_loop.is_shut:
            return
        if not engine_loop.is_open:
            engine_loop.open_turn()
        try:
            if self._is_undecided:
                data = self._decide(data)
                session = self._session
                if session is None or not data:
                    return
            session.receive_data(data, engine_loop.now_ms)
        except Exception:
            self._fail("receiving")

    def eof_received(self) -> bool:
        """The peer sends no more but may read on; return True to keep our side open."""
        self._is_input_ended = True
        session = self._session
        if session is None or self._engine_loop.is_shut:
            return False
        self._engine_loop.open_turn()
        try:
            session.input_ended()
        except Exception:
            self._fail("taking the end of input")
        return True

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._apply_reading()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._apply_reading()
        self._unread.look()
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.output_written(False)
        except Exception:
            self._fail("resuming output")

    def connection_lost(self, error: Exception | None) -> None:
        if self._tick is not None:
            self._tick.cancel()
        session = self._session
        self._session = None
        if session is not None and not self._engine_loop.is_shut:
            self._engine_loop.open_turn()
            try:
                session.connection_lost()
            except Exception:
                self._fail("losing the connection")
        self._unread.gone()
        self._host.connection_closed(self)

    # -- what the turn and the session call

    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Write what the session has for the wire; once a turn."""
        session = self._session
        transport = self._transport
        if session is None or transport is None or self._engine_loop.is_shut:
            return
        if self._fault is not None:
            self._end_alone(session, transport, "being called by the engine", self._fault)
            return
        try:
            size_bytes = session.outbox.size_bytes
            if size_bytes > LARGE_BYTES and not session.is_ending and self._unread.must_wait(size_bytes):
                session.output_written(True)
                self._engine_loop.flush_later(self)
                return
            octets = session.end_turn(offset, confirmed_offset)
            if octets:
                self._unread.writing(session, transport, len(octets))
                transport.write(octets)
                self._written_bytes += len(octets)
                if self._is_writing_paused or session.is_output_full:
                    session.output_written(self._is_writing_paused)
            if session.is_ending and session.is_finished():
                self._session = None
                session.connection_lost()
                self._close_in_order(transport)
        except Exception:
            self._fail("ending a turn")

    def touch(self) -> None:
        engine_loop = self._engine_loop
        engine_loop.touched.append(self)
        if not engine_loop.is_open:
            engine_loop.open_turn()

    def authenticate(self, login: str, passcode: str) -> None:
        self._host.check_credentials(self, login, passcode)

    def login_proved(self, login: str, is_right: bool) -> None:
        self._host.check_proved(self, login, is_right)

    def identity(self) -> str:
        transport = self._transport
        name = "" if transport is None else common_name(transport.get_extra_info("peercert"))
        return self._host.user_named(name) if name else ""

    def credentials_checked(self, is_allowed: bool) -> None:
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.authenticated(is_allowed)
        except Exception:
            self._fail("logging in")

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        self._apply_reading()

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._apply_reading()

    def look_soon(self) -> None:
        self._schedule_tick(0)

    def warn(self, text: str) -> None:
        self._host.warn(self, text)

    def conversion_failed(self, text: str) -> None:
        self._counters.conversion_faults += 1
        log.error("%s: %s", self._peer, text, exc_info=True)

    def take_fault(self, error: Exception) -> bool:
        if not is_engine_whole(error):
            return False
        self._fault = error
        self.touch()
        return True

    def frames_dropped(self, count: int) -> None:
        self._counters.dropped_frames += count
        super().frames_dropped(count)

    def peer(self) -> str:
        return self._peer

    def shut_down(self) -> None:
        """Tell the peer that the gateway stops; what it is owed still leaves."""
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.shut_down()
        except Exception:
            self._fail("shutting down")

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def cut_off(self) -> None:
        self.abort()

    def unread_bytes(self) -> int:
        transport = self._transport
        return 0 if transport is None or transport.is_closing() else transport.get_write_buffer_size()

    # -- the steps

    def _decide(self, data: bytes) -> bytes:
        """Give the connection the adapter that its first octets ask for; return what that is to read, if any."""
        octets = self._first_octets = self._first_octets + data
        protocol = self._expected or detect(octets)
        if protocol == UNDECIDED:
            return b""
        self._is_undecided = False
        self._first_octets = b""
        adapter = self._host.session_for(self, protocol)
        if adapter is not None and self._session is not None:
            self._session.connection_lost()
            self._session = adapter
        return octets

    def _fail(self, doing: str) -> None:
        """End this connection, or stop the gateway; call it while the exception is being handled.

        A defect that did not get as far as the engine concerns nobody else.  One that has passed through it may have
        left it half-way through a change, and nothing goes on from there.
        """
        session = self._session
        transport = self._transport
        error = sys.exception()
        if isinstance(error, Exception) and is_engine_whole(error) and session is not None and transport is not None:
            self._end_alone(session, transport, doing, error)
            return
        description = {} if session is None else _described(session)
        log.critical("%s: a fault in its session while %s; %s", self._peer, doing, description)
        self._engine_loop.fail()

    def _end_alone(
        self, session: ProtocolConnection, transport: asyncio.Transport, doing: str, error: Exception
    ) -> None:
        """End the connection because of a defect of ours that the engine had no part in."""
        self._counters.session_faults += 1
        log.error(
            "%s: a defect of ours while %s ends this connection, and no other; %s",
            self._peer,
            doing,
            _described(session),
            exc_info=error,
        )
        self._session = None
        try:
            session.connection_lost()
        except Exception:  # it cannot be taken out of the engine
            self._engine_loop.fail()
            return
        try:
            transport.write(session.fault_words("internal error of the gateway, which has logged it"))
        except Exception:
            log.exception("%s: it cannot be told of its end", self._peer)
        self._close_in_order(transport)

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
        is_over = self._is_input_ended and transport.get_write_buffer_size() == 0
        if is_over or transport.is_closing() or not transport.can_write_eof():
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
        if self._tick is not None:
            self._tick.cancel()
        self._tick = self._engine_loop.ticks.call_later(delay_ms, self)

    def tick(self, now_ms: int) -> None:
        session = self._session
        if session is None or self._engine_loop.is_shut:
            return
        try:
            delay_ms = session.tick(now_ms)
            is_blocked = self._is_reading_paused and session.is_blocked()
        except Exception:
            self._fail("ticking")
            return
        self._unread.look()
        if self._has_stalled(now_ms):
            self._counters.stalled += 1
            self.warn(f"given up: it took no output for {self._write_stall_ms} ms")
            self.abort()
        elif is_blocked and self._has_hung_up():
            self.abort()  # what waited unconfirmed goes with it
        else:
            self._schedule_tick(delay_ms)

    def _has_stalled(self, now_ms: int) -> bool:
        """Say whether output has been waiting for too long without the peer taking any of it."""
        transport = self._transport
        waiting_bytes = 0 if transport is None else transport.get_write_buffer_size()
        taken_bytes = self._written_bytes - waiting_bytes
        if waiting_bytes == 0 or taken_bytes > self._taken_bytes:
            self._taken_bytes = taken_bytes
            self._taken_ms = now_ms
            return False
        return now_ms - self._taken_ms >= self._write_stall_ms

    def _has_hung_up(self) -> bool:
        """Ask the socket, which the event loop does not watch while reading is paused."""
        endpoint = None if self._transport is None else self._transport.get_extra_info("socket")
        if endpoint is None or endpoint.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(endpoint.fileno(), select.POLLRDHUP)  # POLLHUP and POLLERR are always told
        return bool(poll.poll(0))


def _described(session: ProtocolConnection) -> dict[str, str]:
    """Return who it is, for the log; the session is broken, and may not be able to say."""
    try:
        return session.describe()
    except Exception:
        return {}
