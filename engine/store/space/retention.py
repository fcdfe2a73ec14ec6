"""Retention: drops consumed segments from the oldest on, by age and by size; never live ones.

A segment may be dropped when nobody needs its messages, the retention of each destination in it has passed, and a later
segment's snapshot on the disk records that for recovery.  The snapshot that follows a segment contains the lengths of
the queues at its end.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.ports.workers import FILE_LANE
from engine.store.format import layout
from engine.store.log.segment import Segment
from engine.store.read.leases import leased
from engine.store.space.retention_rules import PAST
from engine.store.space.segment_survey import SurveyJob
from engine.store.space.space_maker import LANES_AT_ONCE, NONE, Claims, SpaceMaker, StoreParts
from engine.store.state.log_state import StoreState

NOT_AGREED: Final = -1
DURABLE_WAIT_MS: Final = 50  # pause until the next check whether the last settlement is durable

CHECK: Final = 0
GO_ON: Final = 1


class Retention(SpaceMaker):
    """Examines the oldest segment at an interval.

    _survey: contents of that segment, and of partial segments behind it; None until known.
    _done: how many of its lanes are no longer needed.  That does not change unless a reader goes back (_turns: see
    ``RetentionRules``), so the next check begins with the lane that was needed last, and its cost does not grow with
    the number of queues.
    _left: files of dropped segments that could not be removed; they are removed before later ones, to leave no gap.
    """

    __slots__ = (
        "_interval_ms",
        "_survey",
        "_surveyed_ms",
        "_done",
        "_turns",
        "_agreed_offset",
        "_left",
        "_is_in_flight",
    )

    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        self._interval_ms = self._context.settings.retention_interval_ms
        self._survey: SurveyJob | None = None
        self._surveyed_ms = 0
        self._done = 0
        self._turns = 0
        self._agreed_offset = NOT_AGREED
        self._left: list[str] = []
        self._is_in_flight = False
        self._call_later(self._interval_ms, CHECK)

    def timer_fired(self, key: int) -> None:
        if self._is_closed:
            return
        if key == CHECK:
            self._call_later(self._interval_ms, CHECK)
            self.check()
        else:
            self._is_in_flight = False
            self._go_through()

    def start_over(self) -> None:
        """Check all lanes again: messages may be needed that were not."""
        self._done = 0
        self._agreed_offset = NOT_AGREED

    def check(self) -> None:
        """Drop the oldest segment, and the next one after it, as far as the rules allow; workers do it."""
        if self._is_in_flight or self._is_closed:
            return
        place = self._next_snapshot(1)
        if place == NONE:
            return
        following = self._log.files.segments[place]  # everything below it would be dropped
        survey = self._survey
        oldest = self._log.files.segments[0]
        is_known = survey is not None and survey.following is following and survey.segment is oldest
        # Exports are looked up again whenever they may matter.
        if not is_known or (self.rules.holding and self._surveyed_ms != self._context.clock.monotonic_ms()):
            self._is_in_flight = True
            self._surveyed_ms = self._context.clock.monotonic_ms()
            has_own = self.rules.has_own
            job = SurveyJob(self._surveyed, self._context, oldest, following, oldest, oldest.base, False, has_own)
            self._context.workers.submit(job, FILE_LANE)
        else:
            assert survey is not None
            self._size_up(survey)

    def _surveyed(self, survey: SurveyJob) -> None:
        """Handle the contents of the snapshots."""
        self._is_in_flight = False
        self.reason = survey.reason
        if survey.reason or self._is_closed:
            return
        if survey.exported is not None:
            self.rules.adopt(survey.exported)
        if self._survey is None or self._survey.following is not survey.following:
            self._done = 0
            self._agreed_offset = NOT_AGREED
        self._survey = survey
        self._size_up(survey)

    def _size_up(self, survey: SurveyJob) -> None:
        if self._turns != self.rules.turns:
            self._turns = self.rules.turns
            self.start_over()
        lanes = self.rules.sized_lanes(survey, self._done)
        if lanes:
            self._is_in_flight = True
            self._measure(lanes)
        else:
            self._go_through()

    def _measured(self, _: None, reason: str) -> None:
        self._is_in_flight = False
        self.reason = reason
        if not reason and not self._is_closed:
            self._go_through()

    def _go_through(self) -> None:
        """Check some more lanes; drop the segment once none of them needs it."""
        survey = self._survey
        if survey is None or survey.following not in self._log.files.segments:  # it was merged into another one
            return
        lanes = survey.lanes
        until = min(self._done + LANES_AT_ONCE, len(lanes))
        while self._done < until:
            if not self._is_free(survey, *lanes[self._done]):
                self._agreed_offset = NOT_AGREED
                return
            self._done += 1
        if until < len(lanes):
            self._is_in_flight = True
            self._call_later(0, GO_ON)
            return
        if not lanes and not self.rules.is_default_past(survey.segment.base, survey.closed_ms):
            return
        # The settlement of the last message must be durable before the message is removed.
        if self._agreed_offset == NOT_AGREED:
            self._agreed_offset = self._log.end
        if self._commit.durable >= self._agreed_offset:
            self._is_in_flight = True
            # Right before the drop, so that no reader comes in between.
            self._work(partial(self._read_claims, self._context.clock.wall_ms()), partial(self._claims_read, survey))
        else:
            self._is_in_flight = True
            self._call_later(DURABLE_WAIT_MS, GO_ON)

    def _claims_read(self, survey: SurveyJob, claims: Claims | None, reason: str) -> None:
        """Drop what was found free, unless a reader uses it; then check again at the next interval."""
        self._is_in_flight = False
        self.reason = reason
        if claims is None or self._is_closed:
            return
        self.rules.adopt(claims.exported)
        if survey is not self._survey or self._agreed_offset == NOT_AGREED:
            self._go_through()  # it is needed again
        elif self._turns != self.rules.turns:
            self._size_up(survey)
        elif leased(claims.leases, survey.following.base) is None:
            self._agreed_offset = NOT_AGREED
            self._drop(survey.following, survey.after)

    def _is_free(self, survey: SurveyJob, key: int, first: int, end: int) -> bool:
        state = self._log.state
        lane = state.lanes.get(key)
        destination = state.destinations.get(key >> layout.LANE_SHIFT)
        if lane is not None and destination is not None and destination.first_needed(lane) < end:
            return False
        if self.rules.lane_verdict(survey, key, self._sizes) != PAST:
            return False
        self.rules.count_missed(key >> layout.LANE_SHIFT, survey.following.base)
        return True

    def _drop(self, following: Segment, tails: StoreState) -> None:
        segments = self._log.files.segments
        place = segments.index(following)
        paths = [segment.path() for segment in segments[:place]]
        if not self._commit.drop_prefix(following.base):
            return
        self._open_files.dropped.update(paths)
        for key, lane in tails.lanes.items():
            kept = self._log.state.lanes.get(key)
            if kept is not None:
                kept.kept_first = lane.tail - lane.tail % layout.ENTRIES_PER_FILE
        self._survey = None
        self._is_in_flight = True
        paths = self._left + paths
        self._work(partial(self._remove, paths, tails), partial(self._dropped, paths))

    def _remove(self, paths: list[str], tails: StoreState) -> None:
        """Remove the files of dropped segments, and of consume-queue entries that refer only to them; on a worker."""
        # A checkpoint taken back by a power cut would send readers to removed files.
        self._checkpoint.sync()
        for path in paths:
            self._context.files.unlink(path)
        for lane in tails.all_lanes():
            self._queue_files.drop_below(lane.destination_id, lane.priority, lane.tail)
        # Destinations closed before that snapshot have no message in the remaining log.
        self._queue_files.remove_gone(tails.destinations, tails.next_destination)

    def _dropped(self, paths: list[str], _: None, reason: str) -> None:
        """Continue with the next oldest."""
        self._is_in_flight = False
        self.reason = reason
        self._left = paths if reason else []
        self._forget(paths)
        if not reason:
            self.check()
