"""An engine on the store in memory, with crashes that lose everything that was not durable."""

from __future__ import annotations

from typing import Any

from config.matching import AddressEntry, AddressMatcher
from engine.broker import Broker
from engine.broker_options import NO_LIMITS, BrokerOptions
from engine.limits.producer_gates import GlobalLimits
from engine.ports.workers import READ_LANE, SYNC_LANE
from tests.support.engine.engine_world import MIB, EngineWorld
from tests.support.engine.idle_law import check_nobody_idles
from tests.support.fakes import HeldWorkers, VirtualClock, VirtualTimers
from tests.support.store.memory_store import MemoryStore


class RestartWorld(EngineWorld):
    """``turn`` reads pages and leaves syncs to ``sync``; ``crash`` starts again with the durable state."""

    broker_class: type[Broker] = Broker
    store_class: type[MemoryStore] = MemoryStore

    def __init__(
        self, *addresses: AddressEntry, memory_limit_bytes: int = 256 * MIB, limits: GlobalLimits = NO_LIMITS
    ) -> None:
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.addresses = addresses
        self.memory_limit_bytes = memory_limit_bytes
        self.limits = limits
        self.workers = HeldWorkers()
        self.memory_store = self.store_class(self.workers, "c0ffee00", 1, True)
        self._start()

    def _start(self) -> None:
        self.timers = VirtualTimers(self.clock)
        self.broker = self.broker_class(
            self.memory_store,
            self.clock,
            self.timers,
            AddressMatcher(self.addresses),
            self.memory_limit_bytes,
            BrokerOptions(seed=7, limits=self.limits, **self.broker_options()),
        )

    def broker_options(self) -> dict[str, Any]:
        """Return further options of the broker, made at each start."""
        return {}

    def end_turn(self) -> int:
        return self.broker.end_turn()

    def turn(self) -> int:
        while True:
            offset = self.end_turn()
            self.broker.begin_turn()
            if not self.workers.finish(READ_LANE) and not self.broker.has_more_to_do():
                check_nobody_idles(self.broker)
                return offset

    def sync(self) -> None:
        """Make everything durable."""
        self.turn()
        self.broker.sync()
        while self.workers.finish(SYNC_LANE):
            pass
        assert self.memory_store.durable_offset() == self.memory_store.append_offset()

    def restart(self) -> None:
        """Make everything durable, then crash."""
        self.sync()
        self.crash()

    def crash(self) -> None:
        """Stop without closing anything, and start again."""
        self.workers = HeldWorkers()
        self.memory_store = self.memory_store.restarted(self.workers)
        self._start()
