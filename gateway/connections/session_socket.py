"""The socket of one connection as its protocol adapter sees it, and the listener as its connections see it."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from time import time
from typing import Final

from mypy_extensions import mypyc_attr

from gateway.connections.admission import Place
from gateway.connections.tls import common_name
from gateway.loop.engine_loop import EngineLoop, Flushable
from gateway.loop.faults import is_engine_whole
from gateway.process.audit_log import Audited
from gateway.process.counters import GatewayCounters
from protocols.connection import ProtocolConnection
from protocols.peer_socket import LoggedIn

LOGIN_LOOK_S: Final = 60.0  # between two looks at the wall clock, which may be set while a login lasts

log: Final = logging.getLogger("penstock.connection")


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionHost:
    """The listener, as its connections see it."""

    @abstractmethod
    def new_session(self, connection: SessionSocket) -> ProtocolConnection:
        """Return the adapter of a connection without an octet."""

    def session_for(self, connection: SessionSocket, protocol: int) -> ProtocolConnection | None:
        """Return the adapter for the first octets; None if it is the present one."""
        return None

    @abstractmethod
    def connection_opened(self, connection: SessionSocket) -> bool:
        """Return False if there is no room for one more; the connection then closes with ``refusal``."""

    @abstractmethod
    def connection_closed(self, connection: SessionSocket) -> None: ...

    @abstractmethod
    def refusal(self, connection: SessionSocket) -> bytes:
        """Return the last octets for a connection beyond the limit."""

    @abstractmethod
    def warn(self, connection: SessionSocket, text: str) -> None:
        """Log a line, unless the connection's address has caused too many already."""

    def audit(self, connection: SessionSocket, entry: Audited) -> None:
        """Write an entry of the audit log; those of denied requests unless its address has caused too many already."""
        return None

    def user_named(self, name: str) -> str:
        """Return the user in a verified certificate, "" for none."""
        return ""

    @abstractmethod
    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        """Answer with ``SessionSocket.credentials_checked``."""

    @abstractmethod
    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        """Do the same for a login whose result is known."""


class SessionSocket(Flushable):
    """The socket as its session uses it.  place: of the socket among all; the host gives it back."""

    def __init__(self, host: ConnectionHost, engine_loop: EngineLoop, counters: GatewayCounters, place: Place) -> None:
        self._host = host
        self._engine_loop = engine_loop
        self._counters = counters
        self.place = place
        self._transport: asyncio.Transport | None = None
        self._session: ProtocolConnection | None = None
        self._is_writing_paused = False
        self._is_reading_paused = False  # by the session
        self._is_resting = False  # until the other sockets have had their turn
        self._tick: asyncio.TimerHandle | None = None
        self._peer = ""
        self._gathered_bytes = 0
        self._login: LoggedIn | None = None
        self._login_end: asyncio.TimerHandle | None = None
        self._fault: Exception | None = None  # a defect of ours that ends the connection with this turn
        self._more_faults = 0  # after it, in the same turn

    def login_checked(self, found: LoggedIn | None) -> None:
        """Take the result of the host's check, None for a refusal.  A login that ends has the connection end then."""
        self._login = found
        self._await_login_end()
        self.credentials_checked(found is not None)

    @abstractmethod
    def credentials_checked(self, is_allowed: bool) -> None:
        """Continue with the result of the check."""

    @abstractmethod
    def end_login(self) -> None:
        """End the connection, because its login has ended."""

    @abstractmethod
    def tick(self, now_ms: int) -> None:
        """Do the timed work.  now_ms: all octets that had reached the socket by then have been read."""

    @abstractmethod
    def shut_down(self) -> None:
        """Inform the peer that the gateway stops; owed confirmations are still sent."""

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

    def logged_in(self) -> LoggedIn | None:
        return self._login

    def pause_reading(self) -> None:
        self._is_reading_paused = True
        self._apply_reading()

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._apply_reading()

    def tick_soon(self) -> None:
        self._schedule_tick(0)

    def warn(self, text: str) -> None:
        self._host.warn(self, text)

    def audit(self, user: str, action: str, target: str, is_denied: bool) -> None:
        self._host.audit(self, self.audited(user, action, target, "access-denied" if is_denied else "done"))

    def audited(self, user: str, action: str, target: str, result: str) -> Audited:
        """Return an entry of the audit log about this connection."""
        protocol = "" if self._session is None else self._session.protocol_name()
        return Audited(user, self._peer, protocol, action, target, result)

    def conversion_failed(self, text: str) -> None:
        self._counters.conversion_faults += 1
        log.error("%s: %s", self._peer, text, exc_info=True)

    def take_fault(self, error: Exception) -> bool:
        if not is_engine_whole(error):
            return False
        if self._fault is None:
            self._fault = error
            self.touch()
        else:
            self._more_faults += 1
        return True

    def frames_dropped(self, count: int) -> None:
        self._counters.dropped_frames += count
        super().frames_dropped(count)

    def peer(self) -> str:
        return self._peer

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def cut_off(self) -> None:
        self.abort()

    def unread_bytes(self) -> int:
        transport = self._transport
        return 0 if transport is None or transport.is_closing() else transport.get_write_buffer_size()

    def gathered_bytes(self) -> int:
        return self._gathered_bytes

    def input_gathered(self, size_bytes: int) -> None:
        """Take note of what the carrier gathers, before it hands it over in one piece."""
        self._gathered_bytes = size_bytes
        session = self._session
        if session is not None and not session.is_ending and not self._engine_loop.is_shut:
            self._engine_loop.open_turn()
            session.is_holding = True
            session.outbox.touch()

    # -- the steps

    def _apply_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._session is not None and (self._is_reading_paused or self._is_writing_paused or self._is_resting):
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _cancel_timers(self) -> None:
        self._cancel_tick()
        if self._login_end is not None:
            self._login_end.cancel()

    def _await_login_end(self) -> None:
        login = self._login
        if login is not None and login.ends_s is not None:
            left_s = max(0.0, min(login.ends_s - time(), LOGIN_LOOK_S))
            self._login_end = asyncio.get_running_loop().call_later(left_s, self._look_at_login)

    def _look_at_login(self) -> None:
        login = self._login
        if login is not None and login.ends_s is not None and time() >= login.ends_s:
            self._engine_loop.login_ends.later(self.end_login)
        else:
            self._await_login_end()

    def _cancel_tick(self) -> None:
        if self._tick is not None:
            self._tick.cancel()

    def _schedule_tick(self, delay_ms: int) -> None:
        self._cancel_tick()
        self._tick = self._engine_loop.ticks.call_later(delay_ms, self.tick)
