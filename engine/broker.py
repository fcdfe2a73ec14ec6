"""The engine as a gateway builds it and runs its turns; ``assembly`` makes the parts, ``api`` is for sessions."""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from config.matching import AddressMatcher
from config.model import VirtualTopic
from config.permissions import PermissionMap
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
from engine.branches.branches import BranchLimits
from engine.consumers.user_quota import UserLimits
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.features.duplicate_ids import DuplicateIdLimits
from engine.features.message_copies import CopyLimits
from engine.features.scheduler.plan import ScheduleLimits
from engine.limits.connection_memory import CONNECTION_MEMORY_BYTES
from engine.limits.producer_gates import GlobalLimits
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
USUAL_COPY_LIMITS: Final = CopyLimits()
USUAL_DUPLICATE_ID_LIMITS: Final = DuplicateIdLimits()
USUAL_BRANCH_LIMITS: Final = BranchLimits()


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker(EngineApi):
    """All destinations, consumers and policies.  One thread owns it.

    destinations_max: queues and topics together that clients may make.
    temporary_destinations_max: temporary destinations per client.
    expire_messages_period_ms: interval of the scans for expired messages that no consumer takes.
    permissions: of groups; None permits everything to everybody.
    virtual_topics: topics whose messages are copied to queues.
    has_advisories, name: whether it publishes to ``ActiveMQ.Advisory.>``, and its name there.
    has_message_times: whether it measures how long messages take to consumers and to acknowledgements.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

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
        copy_limits: CopyLimits = USUAL_COPY_LIMITS,
        duplicate_id_limits: DuplicateIdLimits = USUAL_DUPLICATE_ID_LIMITS,
        has_message_times: bool = False,
        branch_limits: BranchLimits = USUAL_BRANCH_LIMITS,
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
        dispatch = DispatchParts(ground, has_message_times)
        fates = FateParts(ground, dispatch, seed, expire_messages_period_ms)
        clients = ClientParts(ground, dispatch, fates)
        features = FeatureParts(
            ground,
            dispatch,
            fates,
            clients,
            virtual_topics,
            has_advisories,
            name,
            schedule_limits,
            copy_limits,
            duplicate_id_limits,
        )
        super().__init__(ground, dispatch, fates, clients, features, branch_limits)
        self.turn = turn_of(ground, dispatch, fates, clients)
        self.inspector = inspector_of(ground, dispatch, clients, features, self.branches, self.store_events)
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
