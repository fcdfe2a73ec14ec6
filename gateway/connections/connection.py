"""One socket and its protocol adapter: octets in, octets out, back-pressure both ways."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Final, cast

from engine.values.errors import LoginExpired
from gateway.connections.admission import Place
from gateway.connections.orderly_close import OrderlyClose
from gateway.connections.peer_watch import PeerWatch, has_hung_up
from gateway.connections.session_socket import ConnectionHost, SessionSocket, log
from gateway.connections.unread_output import LARGE_BYTES, UnreadOutput
from gateway.loop.engine_loop import EngineLoop
from gateway.loop.faults import is_engine_whole
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from protocols.detect import STOMP, UNDECIDED, detect

FULL_READ_BYTES: Final = 128 * 1024  # of one read, from which on there may be more


class Connection(SessionSocket):
    """place: of the socket among all; the host gives it back.

    write_limit_bytes: unread output beyond which the peer gets nothing more and is not read either.
    write_stall_ms: how long output may wait if the peer reads none of it.
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
        super().__init__(host, engine_loop, counters, place)
        self._write_limit_bytes = write_limit_bytes
        self._unread = UnreadOutput(engine_loop.holdings, write_limit_bytes)
        self._watch = PeerWatch(write_stall_ms)
        self._close: OrderlyClose | None = None
        self._is_input_ended = False
        self._is_undecided = True  # the octets that decide the protocol
        self._first_octets = b""
        self._expected = UNDECIDED

    def expect(self, protocol: int) -> None:
        """Use this protocol without a look at the first octets: the carrier has named it.

        A WebSocket carries whole frames of STOMP.
        """
        self._expected = protocol

    # -- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)  # uvloop's own class, which has no base class in asyncio
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
        self._watch.taken_ms = self._engine_loop.now_ms
        try:
            self._session = self._host.new_session(self)
            if self._expected != UNDECIDED:
                self._adapt(self._expected)
                self._session.outbox.is_whole = self._expected == STOMP
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
            if len(data) >= FULL_READ_BYTES:
                self._rest()
        except Exception:
            self._fail("receiving")

    def eof_received(self) -> bool:
        """The peer sends no more but may still read; return True to keep our side open."""
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
        self._unread.check()
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.output_written(False)
        except Exception:
            self._fail("resuming output")

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel_timers()
        if self._close is not None:
            self._close.cancel()
        session = self._session
        self._session = None
        if session is not None and not self._engine_loop.is_shut:
            self._engine_loop.open_turn()
            try:
                session.share.lose()
            except Exception:
                self._stop("losing the connection", session)
        self._unread.gone()
        self._host.connection_closed(self)
        self._transport = self._close = None  # a transport that knows us, as that of a WebSocket does, would be a cycle

    # -- called by the turn and the session

    def flush(self, offset: int, confirmed_offset: int) -> None:
        """Write the session's output; once per turn."""
        session = self._session
        transport = self._transport
        if self._fault is not None:
            self._end_faulty(session, transport, self._fault)
            return
        if session is None or transport is None or self._engine_loop.is_shut:
            return
        try:
            outbox = session.outbox
            if (
                outbox.size_bytes > LARGE_BYTES
                and not session.is_ending
                and self._unread.must_wait(outbox.next_bytes())
            ):
                session.output_written(True)
                self._engine_loop.flush_later(self)
                return
            octets = session.end_turn(offset, confirmed_offset)
            if octets:
                size_bytes = len(octets)
                if size_bytes > LARGE_BYTES or self._unread.is_counted or transport.get_write_buffer_size():
                    self._unread.writing(session, transport, size_bytes, outbox.rest_bytes)
                transport.write(octets)
                self._watch.written_bytes += size_bytes
                if self._is_writing_paused or session.is_output_full or outbox.parts:
                    session.output_written(self._is_writing_paused)
            if not (session.is_ending and session.is_finished()):
                return
        except Exception:
            self._fail("ending a turn")
            return
        self._session = None
        try:
            session.connection_lost()
            self._close_in_order(transport)
        except Exception:
            self._stop("leaving", session)

    def credentials_checked(self, is_allowed: bool) -> None:
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.authenticated(is_allowed)
        except Exception:
            self._fail("logging in")

    def end_login(self) -> None:
        session = self._session
        if session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            session.give_up(LoginExpired("the token has expired: connect again with a new one"))
        except Exception:
            self._fail("ending its login")

    def shut_down(self) -> None:
        """Inform the peer that the gateway stops; owed confirmations are still sent."""
        if self._session is None or self._engine_loop.is_shut:
            return
        self._engine_loop.open_turn()
        try:
            self._session.shut_down()
        except Exception:
            self._fail("shutting down")

    # -- the steps

    def _rest(self) -> None:
        """Read no more in this turn: libuv reads a socket with more to give 32 times before it looks at the others."""
        self._is_resting = True
        self._apply_reading()
        self._engine_loop.full_reads.later(self._read_on)

    def _read_on(self) -> None:
        self._is_resting = False
        self._apply_reading()

    def _decide(self, data: bytes) -> bytes:
        """Give the connection the adapter for its first octets; return the octets that it must read, if any."""
        octets = self._first_octets = self._first_octets + data
        protocol = detect(octets)
        if protocol == UNDECIDED:
            return b""
        self._first_octets = b""
        self._adapt(protocol)
        return octets

    def _adapt(self, protocol: int) -> None:
        self._is_undecided = False
        adapter = self._host.session_for(self, protocol)
        if adapter is not None and self._session is not None:
            self._session.connection_lost()
            self._session = adapter

    def _fail(self, doing: str) -> None:
        """End this connection, or stop the gateway; call it while the exception is being handled.

        A defect that did not reach the engine concerns nobody else.  One that passed through the engine may have
        interrupted a change in it, so nothing may continue.
        """
        session = self._session
        transport = self._transport
        error = sys.exception()
        if isinstance(error, Exception) and is_engine_whole(error) and session is not None and transport is not None:
            self._end_alone(session, transport, doing, error)
            return
        self._stop(doing, session)

    def _stop(self, doing: str, session: ProtocolConnection | None) -> None:
        """Stop the gateway; call it while the exception is being handled, whose traceback the loop logs."""
        description = {} if session is None else _described(session)
        log.critical("%s: a fault in its session while %s; %s", self._peer, doing, description)
        self._engine_loop.fail()

    def _end_alone(
        self, session: ProtocolConnection, transport: asyncio.Transport, doing: str, error: Exception
    ) -> None:
        """End the connection because of a defect of ours outside the engine."""
        self._report(doing, _described(session), error)
        self._session = None
        try:  # while the session is whole
            if words := session.fault_words("internal error of the gateway, which has logged it"):
                transport.write(words)
        except Exception:
            log.exception("%s: its peer cannot be informed of the end", self._peer)
        try:
            session.connection_lost()
        except Exception:  # the engine cannot forget the connection
            self._stop("leaving after a defect", session)
            return
        self._close_in_order(transport)

    def _end_faulty(
        self, session: ProtocolConnection | None, transport: asyncio.Transport | None, fault: Exception
    ) -> None:
        """End the connection because of a defect in what the engine called, if it is still there."""
        self._fault = None
        if session is None or transport is None or self._engine_loop.is_shut:
            self._report(self._called(), {}, fault)  # in frames that were taken after the connection was lost
        else:
            self._end_alone(session, transport, self._called(), fault)

    def _called(self) -> str:
        """Return in which call a fault was taken, and how many others were."""
        more, self._more_faults = self._more_faults, 0
        return "being called by the engine" + (f", and {more} more after it in this turn," if more else "")

    def _report(self, doing: str, description: dict[str, str], error: Exception) -> None:
        self._counters.session_faults += 1
        log.error(
            "%s: a defect of the gateway while %s ends only this connection; %s",
            self._peer,
            doing,
            description,
            exc_info=error,
        )

    def _close_in_order(self, transport: asyncio.Transport) -> None:
        self._cancel_tick()
        self._close = OrderlyClose(transport)
        self._close.begin(self._is_input_ended)

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
        self._unread.check()
        transport = self._transport
        if transport is not None and self._watch.has_stalled(transport, now_ms):
            self._counters.stalled += 1
            self.warn(f"cut off: it read no output for {self._watch.stall_ms} ms")
            self.abort()
        elif is_blocked and transport is not None and has_hung_up(transport):
            self.abort()  # its unconfirmed frames are dropped with it
        else:
            self._schedule_tick(delay_ms)


def _described(session: ProtocolConnection) -> dict[str, str]:
    """Return the peer's name for the log; the broken session may not be able to give it."""
    try:
        return session.describe()
    except Exception:
        return {}
