"""What one export has added, and what it could not."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_bridge.log.lost import Damaged
from spark_bridge.log.removed import Removed, tell
from spark_bridge.partitioning import Partitioning


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one export.  ``manifest`` is empty if nothing was added.

    destinations: of a rehearsal, the rows and the octets of Parquet that each destination would get.

    gone_offset, removed, gone_ranges: messages that retention removed before their export, as in a manifest.
    damaged: the unreadable records.  tables: the rows of each; ``rows`` is their sum.
    has_matched: the store has a destination of the pattern.  partitioning: () if it is still open.
    note: an error that does not affect the exported messages, "" for none.
    """

    store_id: str
    destination: str
    from_offset: int
    to_offset: int
    to_time_ms: int
    gone_offset: int
    removed: tuple[Removed, ...]
    rows: int
    bytes: int
    files: int
    manifest: str
    jvm_seconds: float = field(compare=False)
    export_seconds: float = field(compare=False)
    note: str = field(default="", compare=False)
    has_matched: bool = True
    gone_ranges: tuple[tuple[int, int], ...] = ()
    damaged: tuple[Damaged, ...] = ()
    tables: dict[str, int] = field(default_factory=dict)
    is_rehearsal: bool = False
    destinations: dict[str, dict[str, int]] = field(default_factory=dict)
    partitioning: Partitioning = ()

    def gone(self) -> str:
        """Describe the messages that retention had removed before their export, "" for none."""
        told = []
        if self.gone_offset < self.from_offset:
            told.append(f"everything from log offset {self.gone_offset} to {self.from_offset}")
        told += [f"everything from log offset {first} to {end}" for first, end in self.gone_ranges]
        if self.removed:
            told.append(tell(self.removed))
        return ", ".join(told)
