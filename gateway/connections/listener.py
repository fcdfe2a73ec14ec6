"""Accepts STOMP, AMQP and OpenWire over TCP, counts connections, and gives each a session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import Final, TypeAlias, cast

from config.model import SERVER_NAME, ServerConfig
from engine.broker import Broker
from engine.store.plain_words import counted
from gateway.connections.acceptor import Acceptor, listening_socket
from gateway.connections.admission import Admission, Place
from gateway.connections.connection import Connection
from gateway.connections.session_socket import ConnectionHost, SessionSocket
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop
from gateway.process.audit_log import Audited, AuditLog
from gateway.process.counters import GatewayCounters
from gateway.process.passed_sockets import PassedSockets
from gateway.settings.conversions import SESSION_CONVERTER
from protocols.amqp.v1_0.endpoints.connection import AmqpConnection
from protocols.amqp.v1_0.endpoints.settings import AmqpSettings
from protocols.connection import ProtocolConnection
from protocols.detect import OPENWIRE, STOMP
from protocols.openwire.connection.settings import OpenWireSettings
from protocols.openwire.session.openwire_session import OpenWireSession
from protocols.peer_socket import LoggedIn
from protocols.stomp.codec.encoder import encode
from protocols.stomp.codec.frames import ERROR
from protocols.stomp.codec.versions import VERSION_1_2
from protocols.stomp.mapping.dialects import DIALECTS
from protocols.stomp.session.settings import SessionSettings
from protocols.stomp.session.stomp_session import StompSession

Checking: TypeAlias = "Coroutine[None, None, LoggedIn | None]"

log: Final = logging.getLogger("penstock.listener")


class Listener(ConnectionHost):
    """All addresses for messages; each accepts every protocol.

    endpoints: by the listener's name; port 0 is replaced by the real one.
    is_closed: it accepts nothing more.
    """

    def __init__(
        self,
        config: ServerConfig,
        broker: Broker,
        engine_loop: EngineLoop,
        login_check: LoginCheck,
        tls: ServerTls,
        counters: GatewayCounters,
        admission: Admission,
    ) -> None:
        self.endpoints = {"stomp": config.listeners.stomp}
        if config.listeners.amqp is not None:
            self.endpoints["amqp"] = config.listeners.amqp
        if config.listeners.openwire is not None:
            self.endpoints["openwire"] = config.listeners.openwire
        self._broker = broker
        self._engine_loop = engine_loop
        self._login_check = login_check
        self._tls = tls
        self._settings = replace(session_settings(config, login_check.is_required), groups=login_check.groups)
        self._connections: dict[SessionSocket, None] = {}
        self._refused: dict[SessionSocket, None] = {}
        self._admission = admission
        self._counters = counters
        self._audit = AuditLog(counters)
        self._connect_time_s = (
            max(limits.connect_time_ms for limits in (config.stomp.limits, config.amqp.limits, config.openwire.limits))
            / 1_000
        )
        self._write_stall_ms = config.stomp.limits.write_stall_time_ms
        self._checks: dict[SessionSocket, asyncio.Task[None]] = {}
        self._acceptors: dict[str, Acceptor] = {}
        self.is_closed = False
        self._amqp_settings = replace(amqp_settings(config, login_check.is_required), groups=login_check.groups)
        self._openwire_settings = replace(openwire_settings(config, login_check.is_required), groups=login_check.groups)

    async def bind(self, name: str, passed: PassedSockets | None = None) -> None:
        """Bind one address; ``accept`` begins to let clients in.  Raises: OSError."""
        endpoint = self.endpoints[name]
        listening = await listening_socket(endpoint, passed)
        self._acceptors[name] = Acceptor(
            listening,
            self._admission,
            self.new_protocol,
            self._tls.context,
            endpoint.is_tls(),
            self._connect_time_s,
            self._engine_loop.holdings,
            self._tls.input,
        )
        self.endpoints[name] = replace(endpoint, port=listening.getsockname()[1])

    def new_connection(self, place: Place) -> Connection:
        """Return a connection for a new transport; it gives the place back."""
        limit_bytes = self._settings.unread_output_bytes
        return Connection(self, self._engine_loop, self._counters, place, limit_bytes, self._write_stall_ms)

    def new_protocol(self, place: Place) -> asyncio.Protocol:
        """Return the same for an event loop."""
        return cast(asyncio.Protocol, self.new_connection(place))  # a compiled class has no base class in asyncio

    def new_socket_connection(self, address: str) -> Connection | None:
        """Return a connection for a WebSocket; None if there is no place for one more, or the gateway stops."""
        place = None if self.is_closed else self._admission.admit(address)
        return None if place is None else self.new_connection(place)

    def accept(self, name: str) -> None:
        """Raises: OSError."""
        self._acceptors[name].start()

    def close(self) -> None:
        """Accept nothing more."""
        self.is_closed = True
        for acceptor in self._acceptors.values():
            acceptor.close()

    async def stop(self, patience_s: float) -> None:
        """Accept nothing more, inform every peer, and wait until all owed confirmations are sent."""
        self.close()
        for connection in list(self._connections):
            connection.shut_down()
        deadline = asyncio.get_running_loop().time() + patience_s
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        if self._connections:
            log.warning(
                "%s cut: not closed, or their last output not read, after %g s",
                counted(len(self._connections), "connection"),
                patience_s,
            )
        for connection in [*self._connections, *self._refused]:
            connection.abort()

    # -- called by connections

    def new_session(self, connection: SessionSocket) -> ProtocolConnection:
        return StompSession(self._broker, connection, self._settings, self._engine_loop.now_ms)

    def session_for(self, connection: SessionSocket, protocol: int) -> ProtocolConnection | None:
        if protocol == STOMP:
            return None
        if protocol == OPENWIRE:
            return OpenWireSession(self._broker, connection, self._openwire_settings, self._engine_loop.now_ms)
        # The adapter of 1.0 answers unsupported versions with its own header.
        return AmqpConnection(
            self._broker, connection, self._amqp_settings, self._login_check, self._engine_loop.now_ms
        )

    def user_named(self, name: str) -> str:
        return self._login_check.user_named(name)

    def connection_opened(self, connection: SessionSocket) -> bool:
        is_admitted = not connection.place.refusal
        (self._connections if is_admitted else self._refused)[connection] = None
        return is_admitted

    def connection_closed(self, connection: SessionSocket) -> None:
        connection.place.leave()
        self._connections.pop(connection, None)
        self._refused.pop(connection, None)
        check = self._checks.pop(connection, None)
        if check is not None:
            check.cancel()

    def refusal(self, connection: SessionSocket) -> bytes:
        text = connection.place.refusal.encode()
        return encode(ERROR, [("message", "too many connections")], text, VERSION_1_2)

    def warn(self, connection: SessionSocket, text: str) -> None:
        self._admission.lines.warn(log, connection.place.address, text, connection.peer())

    def audit(self, connection: SessionSocket, entry: Audited) -> None:
        if entry.result == "done":
            self._audit.managed(entry)
        else:
            self._audit.denied(connection.place.address, entry)

    def check_credentials(self, connection: SessionSocket, login: str, passcode: str) -> None:
        found = self._login_check.remembered(login, passcode)
        if found is not None:
            connection.login_checked(found)
            return
        check = self._login_check.log_in(connection.place.address, login, passcode)
        self._await(connection, login, passcode, check)

    def check_proved(self, connection: SessionSocket, login: str, is_right: bool) -> None:
        check = self._login_check.log_in_proved(connection.place.address, login, is_right)
        self._await(connection, login, "", check)

    def _await(self, connection: SessionSocket, login: str, passcode: str, check: Checking) -> None:
        task = asyncio.get_running_loop().create_task(self._check(connection, login, passcode, check))
        self._checks[connection] = task

    async def _check(self, connection: SessionSocket, login: str, passcode: str, check: Checking) -> None:
        found = await check
        if found is None:
            if reason := self._login_check.refusal(passcode):
                self.warn(connection, f"the token is refused: {reason}")
            self.audit(connection, connection.audited(login, "login", "", "login-refused"))
        self._checks.pop(connection, None)
        connection.login_checked(found)


def session_settings(config: ServerConfig, needs_login: bool) -> SessionSettings:
    """Return the configured settings of STOMP connections."""
    stomp = config.stomp
    dialect = DIALECTS[stomp.dialect]
    return SessionSettings(
        **asdict(stomp.limits),
        converter=SESSION_CONVERTER,
        server=dialect.server if dialect.server and config.server_name == SERVER_NAME else config.server_name,
        defaults=config.listeners.stomp.defaults,
        dialect=dialect,
        needs_login=needs_login,
        groups=config.groups,
        default_persistent=stomp.default_persistent,
        is_strict=stomp.strict_headers,
        heart_beat_grace=stomp.heart_beat_grace,
    )


def amqp_settings(config: ServerConfig, needs_login: bool) -> AmqpSettings:
    """Return the configured settings of AMQP connections."""
    limits = config.amqp.limits
    # Messages of one frame are not counted.
    limits = replace(limits, max_frame_size=min(limits.max_frame_size, limits.body_bytes))
    defaults = (config.listeners.amqp or config.listeners.stomp).defaults
    return AmqpSettings(
        **asdict(limits),
        server=config.server_name,
        needs_login=needs_login,
        groups=config.groups,
        defaults=defaults,
        converter=SESSION_CONVERTER,
    )


def openwire_settings(config: ServerConfig, needs_login: bool) -> OpenWireSettings:
    """Return the configured settings of OpenWire connections."""
    return OpenWireSettings(
        **asdict(config.openwire.limits),
        server=config.server_name,
        defaults=(config.listeners.openwire or config.listeners.stomp).defaults,
        needs_login=needs_login,
        groups=config.groups,
        converter=SESSION_CONVERTER,
    )
