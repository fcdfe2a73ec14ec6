"""Settings of a store: names with their units, defaults and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SYNC: Final = "sync"  # confirmed once it survives a power cut
ASYNC: Final = "async"  # confirmed once it is written; synced at an interval

SEGMENT_BYTES_MIN: Final = 4096
SEGMENT_BYTES_MAX: Final = 1 << 30  # bounded, as consume-queue entries of the last segment are in memory

WHOLE_SYNC_FILES: Final = 256

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of one store.

    retention_bytes: of the commit log; consumed segments beyond it are dropped early.
    """

    segment_bytes: int = 64 << 20
    flush: str = SYNC
    flush_interval_ms: int = 500  # flush "async" only
    retry_interval_ms: int = 500  # after a failed write or sync
    unsynced_bytes: int = 256 << 20  # of the log, in memory until they are durable; beyond it producers wait
    retention_time_ms: int = 72 * HOUR_MS
    retention_bytes: int = 10 << 30
    retention_interval_ms: int = 30_000
    lease_max_ms: int = HOUR_MS  # for which a reader may keep segments from retention; 0: not at all
    compaction_live_percent: int = 25  # a segment is thinned at or below this share of live octets; 0: never
    compaction_min_age_ms: int = 600_000  # of the last record in a segment
    compaction_bytes_per_second: int = 16 << 20  # of log read for it
    compaction_interval_ms: int = 60_000  # between checks of all segments
    waiting_entries_bytes: int = 256 << 20  # of closed segments, in memory, waiting for the disk
    index_slots: int = 0  # of one file of the key index; 0: no index, a query by key reads the log
    index_entries: int = 262_144  # of one file, one per message and key
    index_interval_ms: int = 200  # by which the index follows the log
    whole_sync_files: int = (
        WHOLE_SYNC_FILES  # with this many consume-queue files or more, the file system is synced as a whole
    )
    page_open_files: int = 64  # segments and consume-queue files kept open to read backlogs

    def __post_init__(self) -> None:
        if self.flush not in (SYNC, ASYNC):
            raise ValueError(f"flush is {self.flush!r}, accepted are {SYNC!r} and {ASYNC!r}")
        if not SEGMENT_BYTES_MIN <= self.segment_bytes <= SEGMENT_BYTES_MAX or self.segment_bytes % 8:
            raise ValueError(
                f"segment_bytes is {self.segment_bytes}, accepted are multiples of 8 "
                f"from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}"
            )
        for name in (
            "flush_interval_ms",
            "retry_interval_ms",
            "retention_interval_ms",
            "page_open_files",
            "whole_sync_files",
            "index_entries",
            "index_interval_ms",
            "compaction_bytes_per_second",
            "compaction_interval_ms",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 1")
        if not 0 <= self.compaction_live_percent <= 100:
            raise ValueError(f"compaction_live_percent is {self.compaction_live_percent}, accepted are 0 to 100")
        for name in (
            "retention_time_ms",
            "retention_bytes",
            "lease_max_ms",
            "unsynced_bytes",
            "waiting_entries_bytes",
            "index_slots",
            "compaction_min_age_ms",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must not be negative")
