"""Exports to one target or several again and again, in one process without Spark: ``penstock export --follow``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from engine.values.errors import StoreError
from spark_bridge.errors import LakeError, TargetBusy
from spark_bridge.export import FAILURES, Request, export_to
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
    """Takes what happens to one target."""

    def exported(self, result: Result) -> None:
        """Take the result of a round."""

    def failed(self, error: Exception, failures: int, pause_s: float) -> None:
        """Take why a round failed, which is one of so many in a row, and when the next one begins."""

    def back(self, failures: int) -> None:
        """Take that a round has succeeded after so many that failed."""

    def ended(self, error: Exception) -> None:
        """Take why nothing more is exported to this one of several targets."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A round begins ``interval_s`` after the last one, or as soon as ``new_bytes`` of log are new; 0: only then."""

    interval_s: float
    new_bytes: int = 0


@dataclass(slots=True)
class Followed:
    """What is exported to one target, and how far that is.

    failures: rounds in a row that failed.  left_s: until the next one.  to_offset: where the last one ended.
    """

    target: Target
    request: Request
    reports: Reports
    failures: int = 0
    left_s: float = 0.0
    to_offset: int = 0

    def take(self, result: Result, interval_s: float) -> None:
        if self.failures:
            self.reports.back(self.failures)
        self.reports.exported(result)
        self.failures, self.left_s, self.to_offset = 0, interval_s, result.to_offset

    def put_off(self, error: Exception) -> None:
        self.failures += 1
        self.left_s = back_off_s(self.failures)
        self.reports.failed(error, self.failures, self.left_s)

    def has_new(self, end: int, new_bytes: int) -> bool:
        return not self.failures and end - self.to_offset >= new_bytes


def follow(targets: Sequence[Followed], rhythm: Rhythm, rest: Rest) -> None:
    """Export one store to each target until ``rest`` says that it is enough, or an error has ended all of them.

    Rounds are tried again, after longer and longer pauses, where the target or the store's directory cannot be reached;
    the first ones only if another target takes its export.  Any other error ends the exports to its target.
    Raises: as ``export``, the first error that has ended one.
    """
    data = targets[0].request.data
    store = data if isinstance(data, GrowingStore) else growing_store(data)  # knows what it has read of one elsewhere
    going = list(targets)
    errors: list[Exception] = []
    has_begun = False
    while going:
        failed: list[tuple[Followed, Exception]] = []
        due = [each for each in going if each.left_s <= 0]
        for each in due:
            try:
                result = export_to(each.target, replace(each.request, data=store))
            except FAILURES as error:
                failed.append((each, error))
                continue
            has_begun = True
            each.take(result, rhythm.interval_s)
        for each, reason in failed:
            if has_begun and isinstance(reason, AWAY):
                each.put_off(reason)
                continue
            going.remove(each)
            errors.append(reason)
            if len(targets) > 1:
                each.reports.ended(reason)
        if going and _waits(store, going, rhythm, rest):
            break
    if errors:
        raise errors[0]


def back_off_s(failures: int) -> float:
    """Return the pause after so many rounds in a row that failed."""
    return min(BACK_OFF_MAX_S, 2.0 ** min(failures - 1, 16))


def _waits(store: GrowingStore, going: Sequence[Followed], rhythm: Rhythm, rest: Rest) -> bool:
    """Wait for the next round of one; return True to end instead."""
    is_looking = rhythm.new_bytes > 0 and not all(each.failures for each in going)
    while all(each.left_s > 0 for each in going):
        pause_s = min(each.left_s for each in going)
        if is_looking:
            pause_s = min(LOOK_INTERVAL_S, pause_s)
        if rest(pause_s):
            return True
        end = _end(store) if is_looking else 0
        for each in going:
            is_early = is_looking and each.has_new(end, rhythm.new_bytes)
            each.left_s = 0.0 if is_early else each.left_s - pause_s
    return False


def _end(store: GrowingStore) -> int:
    try:
        return store.end()[1]
    except (StoreError, LakeError, OSError):  # the round will tell
        return 0
