"""What opening a store has found, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogRange:
    """A place in the log: from ``offset`` to ``end``, at ``position`` of the file ``path``, and what is wrong there."""

    offset: int
    end: int
    path: str
    position: int
    reason: str


@dataclass(slots=True)
class RecoveryReport:
    """What opening a store has found.

    is_clean: the store was closed properly.  replayed_from, replayed_to: the tail, as log offsets.
    rebuilt: why the consume queues were rebuilt from the first segment, "" if they were not.
    cut: the torn end that was cut off, None if the log ended with a whole record.
    skipped: ranges lost to corruption and skipped, as the operator has allowed.
    """

    is_clean: bool = False
    is_new: bool = False
    replayed_from: int = 0
    replayed_to: int = 0
    replayed_records: int = 0
    rebuilt: str = ""
    cut: LogRange | None = None
    skipped: list[LogRange] = field(default_factory=list)
