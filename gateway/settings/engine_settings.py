"""Settings of the store, the disk, the schedule and users, as the engine takes them."""

from __future__ import annotations

from typing import Final

from config.model import ServerConfig
from config.policies import UNLIMITED
from engine.consumers.user_quota import UserLimits
from engine.features.scheduler.plan import ScheduleLimits
from engine.store.settings import StoreSettings
from engine.xa.prepared_room import BranchLimits
from gateway.process.descriptors import connections_within, raise_limit
from gateway.settings.time_zone import zone_of

SEGMENTS_KEPT_FREE: Final = 2
SHARE_PERCENT: Final = 90  # one address or one user cannot take the last place
TURN_BYTES_KEPT_FREE: Final = 16 * 1024 * 1024  # octets from busy producers between two checks of the disk


def store_settings(config: ServerConfig) -> StoreSettings:
    return StoreSettings(
        segment_bytes=config.store.segment_bytes,
        flush=config.store.flush,
        flush_interval_ms=config.store.flush_interval_ms,
        retention_time_ms=config.store.retention.time_ms,
        retention_bytes=config.store.retention.bytes,
        lease_max_ms=config.store.retention.lease_max_ms,
        compaction_live_percent=config.store.compaction.live_percent,
        compaction_min_age_ms=config.store.compaction.min_age_ms,
        compaction_bytes_per_second=config.store.compaction.bytes_per_second,
        index_slots=config.store.index.slots,
        index_entries=config.store.index.entries,
    )


def min_disk_free_bytes(config: ServerConfig) -> int:
    """Return the free space that producers must leave; the default lets acknowledgements continue for a while."""
    asked = config.limits.min_disk_free_bytes
    return SEGMENTS_KEPT_FREE * config.store.segment_bytes + TURN_BYTES_KEPT_FREE if asked == UNLIMITED else asked


def schedule_limits(config: ServerConfig) -> ScheduleLimits:
    schedule = config.schedule
    return ScheduleLimits(
        schedule.max_count,
        schedule.max_delay_ms,
        schedule.min_period_ms,
        schedule.max_repeats,
        zone_of(schedule.time_zone),
    )


def branch_limits(config: ServerConfig) -> BranchLimits:
    limits = config.limits
    size_bytes = limits.prepared_transactions_bytes
    return BranchLimits(
        limits.prepared_transactions,
        config.memory_limit_bytes // 3 if size_bytes == UNLIMITED else size_bytes,
        share(limits.prepared_transactions),
    )


def share(most: int) -> int:
    """Return how many of ``most`` one address or user may have by default."""
    return most - most * (100 - SHARE_PERCENT) // 100  # with a low limit one may have all: 3 means 3


def user_limits(config: ServerConfig) -> UserLimits:
    limits = config.limits
    connections, destinations = limits.connections_per_user, limits.destinations_per_user
    unsettled_bytes = limits.unsettled_memory_per_user_bytes
    pending_bytes = limits.pending_memory_per_user_bytes
    late_bytes = limits.late_memory_per_user_bytes
    return UserLimits(
        share(connections_within(config.stomp.limits.connections, raise_limit()))
        if connections == UNLIMITED
        else connections,
        share(config.destinations_max) if destinations == UNLIMITED else destinations,
        limits.subscriptions_per_user,
        limits.durable_subscriptions_per_user,
        limits.durable_wildcards_per_user,
        limits.durable_wildcard_topics_per_user,
        share(config.schedule.max_count) if limits.schedules_per_user == UNLIMITED else limits.schedules_per_user,
        config.memory_limit_bytes // 3 if unsettled_bytes == UNLIMITED else unsettled_bytes,
        config.memory_limit_bytes // 16 if pending_bytes == UNLIMITED else pending_bytes,
        config.memory_limit_bytes // 16 if late_bytes == UNLIMITED else late_bytes,
        limits.messages_per_second_per_user,
        limits.bytes_per_second_per_user,
    )
