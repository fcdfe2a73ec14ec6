"""How long consumed messages stay: by destination, by time and size, and until they are exported.

Settings that an address lacks are taken from the store.  The rules say of one segment and one destination whether the
retention of its messages has passed; other parts check that none of them is live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from config.policies import UNLIMITED, RetentionPolicy
from engine.ports.clock import Clock
from engine.store.format.layout import LANE_SHIFT
from engine.store.log.commit_log import CommitLog
from engine.store.plain_words import duration
from engine.store.read.export_watermarks import Reached, Watermarks
from engine.store.settings import StoreSettings
from engine.store.space.backlog_sizes import BacklogSizes
from engine.store.space.segment_survey import SurveyJob
from engine.values.destination import uri

KEPT: Final = 0
PAST: Final = 1
HELD: Final = 2  # past, but not exported yet, and the deadline for that is not reached

UNKNOWN: Final = -1
DEFAULT_POLICY: Final = RetentionPolicy()


class RetentionPolicies(ABC):
    """The configuration's rules for each destination."""

    @abstractmethod
    def policy_for(self, kind: int, name: str) -> RetentionPolicy:
        """Return the policy of a destination.  kind: engine.values.destination.QUEUE or TOPIC."""

    @abstractmethod
    def all_policies(self) -> list[RetentionPolicy]:
        """Return the policies of all addresses; if there are none, every destination follows the store."""


class NoPolicies(RetentionPolicies):
    """All destinations follow the store."""

    def policy_for(self, kind: int, name: str) -> RetentionPolicy:
        return DEFAULT_POLICY

    def all_policies(self) -> list[RetentionPolicy]:
        return []


class RetentionRules:
    """exported: what exports and streams have read, for ``adopt``.  turns: how often that has fallen behind.

    holding: destinations for whose readers retention waits, with the place of the last one, for the operator.
    lease_max_ms: how long a reader may keep segments past their retention.
    missed_count: how often a destination's messages in a segment were dropped though no export had them.
    """

    __slots__ = (
        "exported",
        "turns",
        "holding",
        "missed_count",
        "has_own",
        "least_time_ms",
        "lease_max_ms",
        "_policies",
        "_log",
        "_clock",
        "_time_ms",
        "_bytes",
        "_known",
        "_names",
        "_missed_to",
    )

    def __init__(self, policies: RetentionPolicies, log: CommitLog, clock: Clock, settings: StoreSettings) -> None:
        self.exported = Watermarks()
        self.turns = 0
        self.holding: dict[int, str] = {}
        self.missed_count = 0
        self._policies = policies
        self._log = log
        self._clock = clock
        self._time_ms = settings.retention_time_ms
        self._bytes = settings.retention_bytes
        self._known: dict[int, RetentionPolicy] = {}
        self._names: dict[int, tuple[int, str]] = {}  # kind and name of those; closed ones are not in the log's state
        self._missed_to: dict[int, int] = {}  # by number: dropped messages without an export were below this offset
        own = policies.all_policies()
        self.lease_max_ms = settings.lease_max_ms
        self.has_own = any(policy != DEFAULT_POLICY for policy in own)
        self.least_time_ms = min([self._time_ms, *(policy.time_ms for policy in own if policy.time_ms != UNLIMITED)])

    def adopt(self, exported: Watermarks) -> None:
        """Take what exports and streams have read; with another ``turns``, no verdict from before it counts."""
        self.turns += exported.is_behind(self.exported)
        self.exported = exported

    def policy(self, number: int) -> RetentionPolicy:
        """Return the policy of a destination; a closed one follows the store unless its policy was read before."""
        if not self.has_own:
            return DEFAULT_POLICY
        found = self._known.get(number)
        if found is None:
            destination = self._log.state.destinations.get(number)
            if destination is None:
                return DEFAULT_POLICY
            self._names[number] = (destination.kind, destination.name)
            found = self._known[number] = self._policies.policy_for(destination.kind, destination.name)
        return found

    def sized_lanes(self, survey: SurveyJob, start: int) -> list[tuple[int, int, int]]:
        """Return (lane, first, end) of the sizes to add up, for destinations with a size limit of their own.

        Those are the destinations among ``survey.lanes`` from place ``start`` on, with all their lanes behind the
        segment.
        """
        found: list[tuple[int, int, int]] = []
        if not self.has_own:
            return found
        state = self._log.state
        for number in dict.fromkeys([key >> LANE_SHIFT for key, _, _ in survey.lanes[start:]]):
            destination = state.destinations.get(number)
            if destination is not None and self.policy(number).bytes != UNLIMITED:
                for lane in destination.lanes:
                    key = (number << LANE_SHIFT) | lane.priority
                    known = survey.after.lanes.get(key)
                    first = 0 if known is None else known.tail
                    found.append((key, first, max(first, lane.file_end())))
        return found

    def lane_verdict(self, survey: SurveyJob, key: int, sizes: BacklogSizes) -> int:
        """Return KEPT, PAST or HELD for a lane's messages in the examined segment."""
        number = key >> LANE_SHIFT
        bytes_after = UNKNOWN
        if self.has_own and self.policy(number).bytes != UNLIMITED:
            destination = self._log.state.destinations.get(number)
            lanes = [] if destination is None else destination.lanes
            bytes_after = sizes.of([(number << LANE_SHIFT) | lane.priority for lane in lanes])
        return self.verdict(number, survey.segment.base, survey.following.base, survey.closed_ms, bytes_after)

    def may_be_past(self, base: int, closed_ms: int) -> bool:
        """Return False if no destination's retention can have passed for a segment that ended at ``closed_ms``."""
        age_ms = self._clock.wall_ms() - closed_ms
        return (
            age_ms > self.least_time_ms
            or self._is_over(base)
            or any(policy.bytes != UNLIMITED for policy in self._policies.all_policies())
        )

    def is_default_past(self, base: int, closed_ms: int) -> bool:
        """Return whether the retention of the store itself has passed."""
        return self._clock.wall_ms() - closed_ms > self._time_ms or self._is_over(base)

    def _is_over(self, base: int) -> bool:
        return self._log.end - base > self._bytes

    def verdict(self, number: int, base: int, end: int, closed_ms: int, bytes_after: int) -> int:
        """Return KEPT, PAST or HELD for the messages of one destination in the segment from ``base`` to ``end``.

        bytes_after: octets of its messages behind the segment; UNKNOWN only where its policy sets no size.
        """
        policy = self.policy(number)
        age_ms = self._clock.wall_ms() - closed_ms
        time_ms = self._time_ms if policy.time_ms == UNLIMITED else policy.time_ms
        is_over = self._is_over(base) if policy.bytes == UNLIMITED else bytes_after > policy.bytes
        if age_ms <= time_ms and not is_over:
            return KEPT
        if policy.until_exported:
            reached = self._reached(number)
            if reached.offset < end and age_ms <= policy.export_deadline_ms:
                self.holding[number] = self._hold(number, reached, end, policy.export_deadline_ms - age_ms)
                return HELD
        self.holding.pop(number, None)
        return PAST

    def _reached(self, number: int) -> Reached:
        """Return how far a destination has been read whose policy is known."""
        return self.exported.reached(number, *self._names[number])

    def _hold(self, number: int, reached: Reached, end: int, left_ms: int) -> str:
        name = uri(*self._names[number])
        who = f"read by stream {reached.stream!r}" if reached.stream else "exported"
        return (
            f"{name} is {who} up to log offset {reached.offset} of {end}, its messages are dropped "
            f"anyway in {duration(left_ms)}"
        )

    def count_missed(self, number: int, end: int) -> None:
        """Count a destination's messages below log offset ``end`` that are dropped without the export they waited for.

        Messages removed by compaction are dropped again with their segment, but count once.
        """
        if not self.policy(number).until_exported or self._missed_to.get(number, 0) >= end:
            return
        if self._reached(number).offset < end:
            self._missed_to[number] = end
            self.missed_count += 1

    def hold_reason(self) -> str:
        """Return in words for which exports retention waits, "" for none."""
        if not self.holding:
            if self.missed_count:
                return f"{self.missed_count} times messages were dropped at their deadline without an export"
            return ""
        first = next(iter(self.holding.values()))
        others = f", and {len(self.holding) - 1} more" if len(self.holding) > 1 else ""
        return f"space waits for an export: {first}{others}"
