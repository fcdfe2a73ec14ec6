"""Exports to one target again and again, in one process without Spark: ``penstock export --follow``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from engine.values.errors import StoreError
from spark_bridge.errors import LakeError, TargetBusy
from spark_bridge.export import Request, export_to
from spark_bridge.files.growing_store import GrowingStore, growing_store
from spark_bridge.result import Result
from spark_bridge.target import Target

LOOK_INTERVAL_S: Final = 1.0  # how often the end of the log is looked at
BACK_OFF_MAX_S: Final = 60.0

AWAY: Final = (LakeError, TargetBusy, OSError)  # what a later round may not find any more


class Rest(Protocol):
    """The time between two rounds."""

    def __call__(self, seconds: float) -> bool:
        """Wait; return whether the rounds end here, which may be earlier."""


class Reports(Protocol):
    """Takes what happens."""

    def exported(self, result: Result) -> None:
        """Take the result of a round."""

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        """Take why a round failed, which is one of so many in a row, and when the next one begins."""

    def back(self, failures: int) -> None:
        """Take that a round has succeeded after so many that failed."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A round begins ``interval_s`` after the last one, or as soon as ``new_bytes`` of log are new; 0: only then."""

    interval_s: float
    new_bytes: int = 0


def follow(target: Target, request: Request, rhythm: Rhythm, rest: Rest, reports: Reports) -> None:
    """Export until ``rest`` says that it is enough.

    The first round raises what an export raises.  Later ones are tried again, after longer and longer pauses, where the
    target or the store's directory cannot be reached.
    Raises: as ``export``.
    """
    store = request.data if isinstance(request.data, GrowingStore) else growing_store(request.data)
    request = replace(request, data=store)  # which knows what it has read of a gateway elsewhere
    result = export_to(target, request)
    failures = 0
    while True:
        if not failures:
            reports.exported(result)
        if _waits(store, rhythm, rest, result.to_offset, failures):
            return
        try:
            result = export_to(target, request)
        except AWAY as error:
            failures += 1
            reports.failed(error, failures, back_off_s(failures))
            continue
        if failures:
            reports.back(failures)
        failures = 0


def back_off_s(failures: int) -> float:
    """Return the pause after so many rounds in a row that failed."""
    return min(BACK_OFF_MAX_S, 2.0 ** min(failures - 1, 16))


def _waits(store: GrowingStore, rhythm: Rhythm, rest: Rest, at: int, failures: int) -> bool:
    """Wait for the next round; return True to end instead."""
    if failures:
        return rest(back_off_s(failures))
    if not rhythm.new_bytes:
        return rest(rhythm.interval_s)
    left_s = rhythm.interval_s
    while left_s > 0:
        pause_s = min(LOOK_INTERVAL_S, left_s)
        if rest(pause_s):
            return True
        left_s -= pause_s
        if _end(store) - at >= rhythm.new_bytes:
            return False
    return False


def _end(store: GrowingStore) -> int:
    try:
        return store.end()[1]
    except (StoreError, LakeError, OSError):  # the round will tell
        return 0
