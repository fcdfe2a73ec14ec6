"""The engine as a gateway builds and turns it.  ``assembly`` makes its parts, ``door`` takes what clients send."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from config.model import VirtualTopic
from config.permissions import PermissionMap
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
from engine.backlog.memory import MemoryBudget
from engine.door import Door
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.features.scheduler.plan import ScheduleLimits
from engine.limits.connection_memory import CONNECTION_MEMORY_BYTES
from engine.limits.producer_gate import GlobalLimits
from engine.limits.user_quota import UserLimits
from engine.ports.clock import Clock
from engine.ports.store import Store
from engine.ports.temp_store import SpillSpace
from engine.ports.timers import Timers
from engine.sources.registry import TEMPORARY_DESTINATIONS_MAX
from engine.values.broker_stats import BrokerStats
from engine.values.message import Message

DESTINATIONS_MAX: Final = 100_000
DEFAULT_VIRTUAL_TOPICS: Final = (VirtualTopic(),)
NO_LIMITS: Final = GlobalLimits()
NO_USER_LIMITS: Final = UserLimits()
USUAL_SCHEDULE_LIMITS: Final = ScheduleLimits()


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker(Door):
    """All destinations, consumers and policies.  Owned by one thread.

    destinations_max: queues and topics together that clients may make.
    temporary_destinations_max: of these, temporary ones that one client may have.
    expire_messages_period_ms: between two looks for what has expired while nobody takes it.
    permissions: what groups may do; none at all means everybody everything.
    virtual_topics: which topics have copies of their messages made for queues.
    has_advisories, name: whether it tells of itself on ``ActiveMQ.Advisory.>``, and how it calls itself there.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    __slots__ = (
        "memory",
        "readers",
        "quotas",
        "spiller",
        "steps",
        "expiry",
        "clients",
        "client_ids",
        "slow_consumers",
        "management",
        "statistics",
        "upkeep",
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
        seed: int = 1,
        destinations_max: int = DESTINATIONS_MAX,
        permissions: PermissionMap | None = None,
        limits: GlobalLimits = NO_LIMITS,
        virtual_topics: tuple[VirtualTopic, ...] = DEFAULT_VIRTUAL_TOPICS,
        has_advisories: bool = True,
        name: str = "Penstock",
        schedule_limits: ScheduleLimits = USUAL_SCHEDULE_LIMITS,
        spill_space: SpillSpace | None = None,
        temporary_destinations_max: int = TEMPORARY_DESTINATIONS_MAX,
        expire_messages_period_ms: int = EXPIRE_MESSAGES_PERIOD_MS,
        connection_memory_bytes: int = CONNECTION_MEMORY_BYTES,
        user_limits: UserLimits = NO_USER_LIMITS,
    ) -> None:
        memory = MemoryBudget(memory_limit_bytes)
        ground = GroundParts(
            store,
            clock,
            timers,
            addresses,
            memory,
            limits,
            user_limits,
            permissions or PermissionMap(()),
            spill_space,
            destinations_max,
            temporary_destinations_max,
            connection_memory_bytes,
        )
        dispatch = DispatchParts(ground)
        fates = FateParts(ground, dispatch, seed, expire_messages_period_ms)
        clients = ClientParts(ground, dispatch, fates)
        features = FeatureParts(ground, dispatch, fates, clients, virtual_topics, has_advisories, name, schedule_limits)
        super().__init__(ground, dispatch, fates, clients, features)
        self.turn = turn_of(ground, dispatch, fates, clients)
        self.inspector = inspector_of(ground, clients, features, self.store_events)
        self.why = why_of(ground, dispatch, clients, features, self.turn)
        self.memory = memory
        self.readers = ground.context.readers
        self.quotas = ground.quotas
        self.spiller = ground.spiller
        self.steps = ground.steps
        self.expiry = fates.expiry
        self.clients = clients.by_number
        self.client_ids = clients.client_ids
        self.slow_consumers = features.slow_consumers
        self.management = features.management
        self.statistics = features.statistics
        self.upkeep = features.upkeep
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
        """Take the time; call it before the first input of a turn."""
        context = self.context
        context.sender = 0
        wall_ms = context.clock.wall_ms()
        if wall_ms != context.wall_ms:
            self.turn.set_time(wall_ms)

    def end_turn(self) -> int:
        """Dispatch; return the offset that confirmations of this turn wait for."""
        return self.turn.end()

    def has_more_to_do(self) -> bool:
        """Say whether another turn is wanted though nothing has come: what followed the last one had an effect."""
        return self.turn.has_more_to_do()

    def sync(self) -> None:
        """Have everything made durable that no one waits for; call it a little after it came."""
        self.turn.sync()

    def has_unsynced(self) -> bool:
        """Say whether a ``sync`` would make anything durable that is not."""
        return self.turn.has_unsynced()

    def flush_settlements(self) -> int:
        """Append what was settled and put off; return the offset that confirmations of it wait for."""
        return self.settlements.flush()

    # -- questions

    def inspect(self) -> BrokerStats:
        """Return everything that ``stat``, metrics and the console show, as it is at this moment."""
        return self.inspector.inspect()
