"""The gateway of a wire world: the settings of hostile clients, a store that restarts, temporary files, no sockets."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from config.loader import merged
from config.model import ServerConfig
from config.permissions import PermissionMap
from config.sources.detect import read
from engine.broker import Broker
from engine.limits.producer_gate import GlobalLimits
from engine.limits.user_quota import UserLimits
from engine.ports.workers import FILE_LANE, READ_LANE, SYNC_LANE
from engine.store.disk.spill_files import SpillFiles
from gateway.connections.listener import amqp_settings, session_settings
from gateway.process.server_settings import schedule_limits
from tests.support.disk.faulty_files import FaultyFiles
from tests.support.hostile.hostile_config import hostile_config
from tests.support.protocols.amqp_gateway import AmqpGateway
from tests.support.world.bodies import Violation

TURNS_MOST: Final = 20_000  # turns at one moment


@cache
def wire_config(dialect: str) -> ServerConfig:
    return merged([read("wire.yaml", hostile_config(dialect).encode())])


class WireGateway(AmqpGateway):
    """has_permissions: those of the configuration; otherwise everybody may do everything.

    holds_reads: reads of the store and of temporary files stay under way.  turn_count: ended so far.
    browsed: numbers of queues with a browser, or with messages that a closed one still holds.
    """

    def __init__(
        self,
        memory_limit_bytes: int,
        global_limits: GlobalLimits,
        dialect: str,
        has_permissions: bool,
        broker_class: type[Broker] = Broker,
        earlier: WireGateway | None = None,
    ) -> None:
        self.config = config = wire_config(dialect)
        self.broker_class = broker_class
        self.global_limits = global_limits
        self.holds_reads = False
        self.turn_count = 0
        self.browsed: set[int] = set()
        self._turns_now = 0
        self._moment_ms = -1
        super().__init__(
            *config.addresses,
            memory_limit_bytes=memory_limit_bytes,
            is_restartable=True,
            earlier=earlier,
            permissions=PermissionMap(config.permissions, config.groups) if has_permissions else None,
            connection_memory_bytes=2 << 20,
            user_limits=UserLimits(40, 200, 20, 50, 1_000, memory_limit_bytes // 3),
            amqp=amqp_settings(config, True),
        )
        self.settings = session_settings(config, True)

    def broker_options(self) -> dict[str, Any]:
        config = self.config
        self.files = FaultyFiles()
        return {
            "destinations_max": config.destinations_max,
            "temporary_destinations_max": config.temporary_destinations_max,
            "expire_messages_period_ms": config.expire_messages_period_ms,
            "limits": self.global_limits,
            "schedule_limits": schedule_limits(config),
            "spill_space": SpillFiles(self.files, "data", self.workers),
        }

    def settle(self) -> None:
        """End turns until only held reads are left.  Raises: Violation."""
        if self._is_held:
            return
        while True:
            self._end_turn()
            moved = self.workers.finish(FILE_LANE)
            if not self.holds_reads:
                moved = self.workers.finish(READ_LANE) or moved
            if self.syncs:
                moved = self.workers.finish(SYNC_LANE) or moved
            if not moved and not self.broker.has_more_to_do() and not any(peer.link.is_touched for peer in self.peers):
                return

    def _end_turn(self) -> None:
        self.turn_count += 1
        self._turns_now = self._turns_now + 1 if self.clock.now_ms == self._moment_ms else 0
        self._moment_ms = self.clock.now_ms
        if self._turns_now > TURNS_MOST:
            raise Violation("turns never end: something moves in each")
        offset = self.broker.end_turn()
        confirmed_offset = self.store.confirmed_offset()
        for peer in self.peers:
            peer.flush(offset, confirmed_offset)
        self.broker.sync()
        self.broker.begin_turn()

    def rest(self) -> None:
        """Do everything that is due now, with no reads held."""
        self.syncs = True
        self.holds_reads = False
        self.settle()
        self.advance(0)
        while self.is_more_to_come():
            self.advance(0)
