"""What a gateway may set of its engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.model import VirtualTopic
from config.permissions import PermissionMap
from engine.consumers.user_quota import UserLimits
from engine.fate.expiry import EXPIRE_MESSAGES_PERIOD_MS
from engine.features.duplicate_ids import DuplicateIdLimits
from engine.features.message_copies import CopyLimits
from engine.features.scheduler.plan import ScheduleLimits
from engine.limits.connection_memory import CONNECTION_MEMORY_BYTES
from engine.limits.producer_gates import GlobalLimits
from engine.ports.temp_store import SpillSpace
from engine.ports.tracing import Tracing
from engine.sources.registry import TEMPORARY_DESTINATIONS_MAX
from engine.xa.prepared_room import BranchLimits

DESTINATIONS_MAX: Final = 100_000
NO_LIMITS: Final = GlobalLimits()
NO_USER_LIMITS: Final = UserLimits()
USUAL_SCHEDULE_LIMITS: Final = ScheduleLimits()
USUAL_COPY_LIMITS: Final = CopyLimits()
USUAL_DUPLICATE_ID_LIMITS: Final = DuplicateIdLimits()
USUAL_BRANCH_LIMITS: Final = BranchLimits()
DEFAULT_VIRTUAL_TOPICS: Final = (VirtualTopic(),)


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """destinations_max: queues and topics together that clients may make.

    temporary_destinations_max: temporary destinations per client.
    expire_messages_period_ms: interval of the scans for expired messages that no consumer takes.
    permissions: of groups; None permits everything to everybody.
    virtual_topics: topics whose messages are copied to queues.
    has_advisories, name: whether it publishes to ``ActiveMQ.Advisory.>``, and its name there.
    has_message_times: whether it measures how long messages take to consumers and to acknowledgements.
    tracing: the tracer of messages, None for none.
    seed: of the random numbers (collision avoidance); same inputs and seed, same outputs.
    """

    seed: int = 1
    destinations_max: int = DESTINATIONS_MAX
    temporary_destinations_max: int = TEMPORARY_DESTINATIONS_MAX
    permissions: PermissionMap | None = None
    limits: GlobalLimits = NO_LIMITS
    user_limits: UserLimits = NO_USER_LIMITS
    schedule_limits: ScheduleLimits = USUAL_SCHEDULE_LIMITS
    copy_limits: CopyLimits = USUAL_COPY_LIMITS
    duplicate_id_limits: DuplicateIdLimits = USUAL_DUPLICATE_ID_LIMITS
    branch_limits: BranchLimits = USUAL_BRANCH_LIMITS
    connection_memory_bytes: int = CONNECTION_MEMORY_BYTES
    virtual_topics: tuple[VirtualTopic, ...] = DEFAULT_VIRTUAL_TOPICS
    has_advisories: bool = True
    has_message_times: bool = False
    tracing: Tracing | None = None
    name: str = "Penstock"
    spill_space: SpillSpace | None = None
    expire_messages_period_ms: int = EXPIRE_MESSAGES_PERIOD_MS


USUAL: Final = BrokerOptions()
