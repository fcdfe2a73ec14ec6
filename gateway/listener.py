"""Accepts STOMP and AMQP over TCP, counts connections, gives each a session."""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import replace
from typing import Final

from config.model import SERVER_NAME, Endpoint, ServerConfig
from engine.broker import Broker
from engine.transaction import TransactionLimits
from gateway.connection import Connection, ConnectionHost
from gateway.counters import GatewayCounters
from gateway.engine_loop import EngineLoop
from gateway.peeking import PeekingServer
from gateway.security import Security
from protocols.amqp.v1_0.connection import AmqpConnection
from protocols.amqp.v1_0.conversion import StompForm
from protocols.amqp.v1_0.settings import AmqpSettings
from protocols.connection import ProtocolConnection
from protocols.detect import STOMP
from protocols.stomp.dialects import DIALECTS
from protocols.stomp.encoder import encode
from protocols.stomp.frames import ERROR
from protocols.stomp.limits import Limits
from protocols.stomp.session import StompSession
from protocols.stomp.settings import SessionSettings
from protocols.stomp.versions import VERSION_1_2

BACKLOG: Final = 1024  # connections that the kernel may hold before they are accepted
REFUSED_MAX: Final = 64  # connections over the limit that are being told so; those beyond are cut off unheard

log: Final = logging.getLogger("penstock.listener")


class Listener(ConnectionHost):
    """All addresses where messages come in; each takes every protocol.

    endpoints: by the listener's name, with the ports that were picked where 0 was asked for.
    """

    def __init__(
        self,
        config: ServerConfig,
        broker: Broker,
        engine_loop: EngineLoop,
        security: Security,
        counters: GatewayCounters,
        connections_max: int,
    ) -> None:
        self.endpoints = {"stomp": config.listeners.stomp}
        if config.listeners.amqp is not None:
            self.endpoints["amqp"] = config.listeners.amqp
        self._broker = broker
        self._engine_loop = engine_loop
        self._security = security
        self._settings = session_settings(config, security.is_required)
        self._connections: dict[Connection, None] = {}
        self._connections_max = connections_max
        self._refused: dict[Connection, None] = {}
        self._counters = counters
        self._connect_time_s = (
            max(limits.connect_time_ms for limits in (config.stomp.limits, config.amqp.limits)) / 1_000
        )
        self._write_stall_ms = config.stomp.limits.write_stall_time_ms
        self._checks: dict[Connection, asyncio.Task[None]] = {}
        self._servers: dict[str, asyncio.Server | PeekingServer] = {}
        self._amqp_settings = amqp_settings(config, security.is_required)

    async def bind(self, name: str) -> None:
        """Take one address; nobody is let in before ``accept``.  Raises: OSError."""
        endpoint = self.endpoints[name]
        # One family: with port 0, localhost would otherwise be two addresses with two ports.
        family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        listening = await self._bound(endpoint, family)
        tls = self._security.tls
        if tls is None or endpoint.is_tls():
            handshake_s = None if tls is None else self._connect_time_s
            self._servers[name] = await asyncio.get_running_loop().create_server(
                self.new_connection,
                sock=listening,
                backlog=BACKLOG,
                start_serving=False,
                ssl=tls,
                ssl_handshake_timeout=handshake_s,
            )
        else:
            self._servers[name] = PeekingServer(
                listening, BACKLOG, self.new_connection, tls, self._connect_time_s, self._connections_max
            )
        self.endpoints[name] = replace(endpoint, port=listening.getsockname()[1])

    async def _bound(self, endpoint: Endpoint, family: socket.AddressFamily) -> socket.socket:
        """Raises: OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(
            endpoint.host, endpoint.port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(found[0][4])
        except OSError:
            listening.close()
            raise
        return listening

    def new_connection(self) -> Connection:
        """Return a connection for a transport that is about to be made."""
        limit_bytes = self._settings.unread_output_bytes
        return Connection(self, self._engine_loop, self._counters, limit_bytes, self._write_stall_ms)

    async def accept(self, name: str) -> None:
        """Raises: OSError."""
        await self._servers[name].start_serving()

    def close(self) -> None:
        """Accept nothing more."""
        for server in self._servers.values():
            server.close()

    async def stop(self, patience_s: float) -> None:
        """Accept nothing more, tell every peer, wait until all have what they are owed."""
        self.close()
        for connection in list(self._connections):
            connection.shut_down()
        deadline = asyncio.get_running_loop().time() + patience_s
        while self._connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        if self._connections:
            log.warning(
                "%d connections are cut off: after %g s they had not closed, or not got what they are owed",
                len(self._connections),
                patience_s,
            )
        for connection in [*self._connections, *self._refused]:
            connection.abort()

    # -- what connections ask

    def new_session(self, connection: Connection) -> ProtocolConnection:
        return StompSession(self._broker, connection, self._settings, self._engine_loop.now_ms)

    def session_for(self, connection: Connection, protocol: int) -> ProtocolConnection | None:
        if protocol == STOMP:
            return None
        # What 1.0's adapter does not speak, it answers with what it does.
        return AmqpConnection(self._broker, connection, self._amqp_settings, self._security, self._engine_loop.now_ms)

    def user_named(self, name: str) -> str:
        return self._security.user_named(name)

    def connection_opened(self, connection: Connection) -> bool:
        if len(self._connections) >= self._connections_max:
            self._counters.refused += 1
            self._refused[connection] = None
            if len(self._refused) == 1:  # a storm of them is one line, the metric counts
                log.warning("%s: refused, %d connections are open", connection.peer(), len(self._connections))
            return False
        self._connections[connection] = None
        return True

    def connection_closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self._refused.pop(connection, None)
        check = self._checks.pop(connection, None)
        if check is not None:
            check.cancel()

    def refusal(self) -> bytes:
        if len(self._refused) > REFUSED_MAX:
            return b""
        text = f"{self._connections_max} connections are open, which is the limit"
        return encode(ERROR, [("message", "too many connections")], text.encode(), VERSION_1_2)

    def check_credentials(self, connection: Connection, login: str, passcode: str) -> None:
        if self._security.remembers(login, passcode):
            connection.credentials_checked(True)
            return
        self._checks[connection] = asyncio.get_running_loop().create_task(self._check(connection, login, passcode))

    async def _check(self, connection: Connection, login: str, passcode: str) -> None:
        is_allowed = await self._security.logins.check(connection.address(), login, passcode)
        self._checks.pop(connection, None)
        connection.credentials_checked(is_allowed)


def session_settings(config: ServerConfig, needs_login: bool) -> SessionSettings:
    """Return what the configuration says about STOMP connections."""
    stomp = config.stomp
    limits = stomp.limits
    dialect = DIALECTS[stomp.dialect]
    return SessionSettings(
        converter=StompForm(),
        server=dialect.server if dialect.server and config.server_name == SERVER_NAME else config.server_name,
        defaults=config.listeners.stomp.defaults,
        dialect=dialect,
        needs_login=needs_login,
        groups=config.groups,
        default_persistent=stomp.default_persistent,
        is_strict=stomp.strict_headers,
        frame_limits=Limits(limits.header_count, limits.header_line_bytes, body_bytes=limits.body_bytes),
        subscription_count=limits.subscriptions,
        transaction_limits=TransactionLimits(limits.transactions, limits.transaction_actions, limits.transaction_bytes),
        frame_time_ms=limits.frame_time_ms,
        connect_time_ms=limits.connect_time_ms,
        heart_beat_grace=stomp.heart_beat_grace,
        unread_output_bytes=limits.unread_output_bytes,
        block_park_bytes=limits.block_park_bytes,
        block_park_max_bytes=limits.block_park_max_bytes,
        disconnect_time_ms=limits.disconnect_time_ms,
    )


def amqp_settings(config: ServerConfig, needs_login: bool) -> AmqpSettings:
    """Return what the configuration says about AMQP connections."""
    limits = config.amqp.limits
    return AmqpSettings(
        server=config.server_name,
        needs_login=needs_login,
        max_frame_size=min(limits.max_frame_size, limits.body_bytes),  # what comes in one frame is not counted
        body_bytes=limits.body_bytes,
        partial_bytes=limits.partial_bytes,
        channel_max=limits.channel_max,
        handle_max=limits.handle_max,
        link_count=limits.links,
        idle_time_ms=limits.idle_time_ms,
        frame_time_ms=limits.frame_time_ms,
        delivery_time_ms=limits.delivery_time_ms,
        connect_time_ms=limits.connect_time_ms,
        ending_time_ms=limits.close_time_ms,
        incoming_window=limits.incoming_window,
        link_credit=limits.link_credit,
        transaction_limits=TransactionLimits(limits.transactions, limits.transaction_actions, limits.transaction_bytes),
        groups=config.groups,
        defaults=(config.listeners.amqp or config.listeners.stomp).defaults,
        unread_output_bytes=limits.unread_output_bytes,
        block_park_bytes=limits.block_park_bytes,
        block_park_max_bytes=limits.block_park_max_bytes,
    )
