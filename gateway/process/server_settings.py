"""Settings of the store, the disk and the schedule, as the engine takes them."""

from __future__ import annotations

from typing import Final

from config.model import ServerConfig
from config.policies import UNLIMITED
from engine.features.scheduler.plan import ScheduleLimits
from engine.store.settings import StoreSettings
from gateway.process.time_zone import zone_of

SEGMENTS_KEPT_FREE: Final = 2
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
