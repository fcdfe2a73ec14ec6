"""The engine as a gateway builds it and runs its turns; ``assembly`` makes the parts, ``api`` is for sessions."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from engine.api import EngineApi
from engine.assembly import (
    ClientParts,
    DispatchParts,
    FateParts,
    FeatureParts,
    GroundParts,
    inspector_of,
    turn_of,
    why_of,
)
from engine.backlog.memory_budget import MemoryBudget
from engine.broker_options import USUAL, BrokerOptions
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.timers import Timers
from engine.values.broker_stats import BrokerStats
from engine.values.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker(EngineApi):
    """All destinations, consumers and policies.  One thread owns it."""

    __slots__ = (
        "memory",
        "readers",
        "quotas",
        "spiller",
        "expiry",
        "clients",
        "client_ids",
        "slow_consumers",
        "management",
        "statistics",
        "upkeep",
        "pauses",
        "last_settlements",
        "retries",
        "inspector",
        "why",
        "turn",
    )

    def __init__(
        self,
        store: Store,
        clock: Clock,
        timers: Timers,
        addresses: AddressMatcher,
        memory_limit_bytes: int,
        options: BrokerOptions = USUAL,
    ) -> None:
        memory = MemoryBudget(memory_limit_bytes)
        ground = GroundParts(store, clock, timers, addresses, memory, options)
        dispatch = DispatchParts(ground, options.has_message_times, options.tracing)
        fates = FateParts(ground, dispatch, options.seed, options.expire_messages_period_ms)
        clients = ClientParts(ground, dispatch, fates)
        features = FeatureParts(ground, dispatch, fates, clients, options)
        super().__init__(ground, dispatch, fates, clients, features, options.branch_limits)
        self.turn = turn_of(ground, dispatch, fates, clients)
        self.inspector = inspector_of(
            ground, dispatch, clients, features, self.branches, self.store_events, options.has_message_times
        )
        self.why = why_of(ground, dispatch, clients, features, self.turn)
        self.memory = memory
        self.readers = ground.context.readers
        self.quotas = ground.quotas
        self.spiller = ground.spiller
        self.expiry = fates.expiry
        self.clients = clients.by_number
        self.client_ids = clients.client_ids
        self.slow_consumers = features.slow_consumers
        self.management = features.management
        self.statistics = features.statistics
        self.upkeep = features.upkeep
        self.pauses = features.pauses
        self.last_settlements = features.last_settlements
        self.retries = features.retries

    @property
    def wall_ms(self) -> int:
        """Return the wall clock of this turn."""
        return self.context.wall_ms

    def message_id(self, message: Message) -> str:
        """Return JMSMessageID: the same on every redelivery and in every protocol."""
        return self.context.message_id(message)

    # -- turns

    def begin_turn(self) -> None:
        """Read the clocks; call it before the first input of a turn."""
        context = self.context
        context.sender = 0
        wall_ms = context.clock.wall_ms()
        if wall_ms != context.wall_ms:
            self.turn.set_time(wall_ms)

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for."""
        return self.turn.end()

    def has_more_to_do(self) -> bool:
        """Say whether another turn is needed without new input, because the end of the last one had an effect."""
        return self.turn.has_more_to_do()

    def sync(self) -> None:
        """Make everything durable, including what no confirmation waits for; call it a little after the turn."""
        self.turn.sync()

    def has_unsynced(self) -> bool:
        """Say whether anything is not durable yet."""
        return self.turn.has_unsynced()

    def flush_settlements(self) -> int:
        """Append the gathered settlements; return the offset for which their confirmations wait."""
        return self.settlements.flush()

    # -- questions

    def inspect(self) -> BrokerStats:
        """Return the present state of everything, for ``stat``, metrics and the console."""
        return self.inspector.inspect()
