"""The configuration in force, and how the running gateway reads it again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from config.errors import ConfigError
from config.model import ServerConfig
from config.permissions import PermissionMap
from config.reports.changes import Changes, changes, with_rights_of
from engine.consumers.client import Client
from engine.values.errors import UserGone
from gateway.connections.tls import ServerTls
from gateway.logins.login_check import LoginCheck
from gateway.loop.engine_loop import EngineLoop
from gateway.process.audit_log import Audited, AuditLog
from gateway.process.log_lines import PeerLines
from protocols.connection import ProtocolConnection

log: Final = logging.getLogger("penstock")

SIGNAL: Final = "SIGHUP"  # who asks, if no request does
USERS_A_TURN: Final = 16  # connections; the end of one costs up to 0.2 ms with a few dozen subscriptions and messages


class LiveReload:
    """config: in force.  read: reads the files again, on a worker thread; raises ConfigError.

    lines: of the log, about what operators do.  audit: for signals; HTTP notes its requests itself.
    """

    def __init__(
        self,
        config: ServerConfig,
        read: Callable[[], ServerConfig],
        login_check: LoginCheck,
        engine_loop: EngineLoop,
        lines: PeerLines,
        audit: AuditLog,
    ) -> None:
        self.config = config
        self._read = read
        self._login_check = login_check
        self._engine_loop = engine_loop
        self._lines = lines
        self._audit = audit
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._applying: asyncio.Future[None] | None = None

    def hang_up(self) -> None:
        """SIGHUP has come."""
        self._task = asyncio.get_running_loop().create_task(self._reload_for_signal())

    async def reload(self, by: str) -> Changes:
        """Read the configuration again and return what has changed, once it holds.  by: who asks, in words.

        Raises: ConfigError, and nothing has changed.
        """
        async with self._lock:
            try:
                new = await asyncio.to_thread(self._read_sound)
            except ConfigError as error:
                for problem in error.problems:
                    self._say(logging.ERROR, by, f"read again for {by}, nothing has changed: {problem}")
                raise
            found = changes(self.config, new)
            if found.applied:
                self._adopt(new)
            self._login_check.refresh()
            self.config = with_rights_of(self.config, new)
            if found.applied:
                self._applying = asyncio.ensure_future(self._apply())
                await asyncio.shield(self._applying)  # a client that goes meanwhile leaves no connection out
        for line in found.applied:
            # Without a limit: as many as the files have changes, and each is applied once.
            log.info("configuration: read again for %s: %s", by, line)
        for line in found.restart:
            self._say(logging.WARNING, by, f"read again for {by}: needs a restart: {line}")
        if not found.applied and not found.restart:
            self._say(logging.INFO, by, f"read again for {by}: nothing has changed")
        return found

    async def _reload_for_signal(self) -> None:
        result = "done"
        try:
            await self.reload(SIGNAL)
        except ConfigError as error:  # it is in the log
            result = error.condition
        self._audit.managed(Audited("", "", "signal", "reload", SIGNAL, result))

    def _say(self, level: int, by: str, text: str) -> None:
        """Write a line that each reading may repeat.  Who sends a signal may as well write the log."""
        if by == SIGNAL:
            log.log(level, "configuration: %s", text)
        else:
            self._lines.done(log, level, by, f"configuration: {text}")

    def _read_sound(self) -> ServerConfig:
        """Raises: ConfigError for what a start would refuse."""
        config = self._read()
        LoginCheck(config)
        ServerTls(config)
        return config

    def _adopt(self, config: ServerConfig) -> None:
        """Have the rights of the new configuration hold for all that comes from now on."""
        self._login_check.adopt(config)
        self._engine_loop.open_turn()
        self._engine_loop.broker.access.adopt(PermissionMap(config.permissions, self._login_check.known_groups))

    async def _apply(self) -> None:
        """Have them hold for the connections that are there.

        What a connection has depends on it, so what that costs is unknown; that of many is too much for one turn.
        """
        clients = self._engine_loop.broker.clients
        numbers = list(clients)
        for first in range(0, len(numbers), USERS_A_TURN):
            if self._engine_loop.is_shut:
                return
            self._engine_loop.open_turn()
            for number in numbers[first : first + USERS_A_TURN]:
                client = clients.get(number)
                if client is not None and client.user and not self._engine_loop.is_shut:
                    self._apply_to(client)
            await asyncio.sleep(0)

    def _apply_to(self, client: Client) -> None:
        """Apply what is in force now to one connection.

        A defect that did not reach the engine ends this connection, because it may not keep what it had.
        """
        try:
            self._judge(client)
        except Exception as error:
            if not (isinstance(client, ProtocolConnection) and client.socket.take_fault(error)):
                self._engine_loop.fail()

    def _judge(self, client: Client) -> None:
        user = client.user
        is_known = user in self._login_check.users
        if client.is_external:
            if is_known:  # a token does not give the rights of such a user
                client.give_up(UserGone(f"the user {user} is one of the configuration now"))
            else:
                client.rights_changed()
        elif is_known:
            client.groups = self._login_check.groups_of(user)
            client.rights_changed()
        else:
            client.give_up(UserGone(f"the user {user} was removed"))
