"""The faults of a simulated disk by name, so that a run can go without some of them."""

from __future__ import annotations

from typing import Final

SHORT_WRITE: Final = "short write"  # also of a process that is killed in the middle of a write
TORN_SECTOR: Final = "torn sector"  # only the beginning of the sector reached the disk
BIT_FLIP: Final = "bit flip"
LOST_WRITE: Final = "lost unsynced write"
REORDERED_WRITES: Final = "reordered writes between syncs"
NO_SPACE: Final = "ENOSPC"
WRITE_ERROR: Final = "EIO on write"
READ_ERROR: Final = "EIO on read"
SYNC_ERROR: Final = "EIO on sync"
CRASH: Final = "crash between two operations of one step"

DISK_FAULTS: Final = frozenset(
    (
        SHORT_WRITE,
        TORN_SECTOR,
        BIT_FLIP,
        LOST_WRITE,
        REORDERED_WRITES,
        NO_SPACE,
        WRITE_ERROR,
        READ_ERROR,
        SYNC_ERROR,
        CRASH,
    )
)

ERRORS: Final = {
    "pwrite": WRITE_ERROR,
    "preallocate": WRITE_ERROR,
    "pread": READ_ERROR,
    "size": READ_ERROR,
    "fdatasync": SYNC_ERROR,
    "fsync": SYNC_ERROR,
    "sync_directory": SYNC_ERROR,
    "syncfs": SYNC_ERROR,
}  # by operation; errors of other operations are none of these faults
