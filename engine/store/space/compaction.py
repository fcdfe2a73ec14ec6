"""Frees the space behind live messages: thins full segments that only a few live messages keep from retention.

Segments are dropped whole and from the oldest on, so a single message that nobody takes would keep everything behind
it. Past its retention a segment is therefore replaced by a sparse one of the same name that holds what is still needed;
records keep their log offsets.  A continuation after a failed sync is merged into the sparse segment, and so are empty
sparse ones behind it, to limit their number.  Workers do it, some octets at a time, and nothing waits for it.  A stop
at any moment leaves the old or the new file, and either is valid.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from engine.ports.workers import FILE_LANE
from engine.store.disk.files import Files
from engine.store.format import layout
from engine.store.log.segment import Segment, records_limit
from engine.store.read.export_watermarks import Watermarks
from engine.store.read.leases import leased
from engine.store.space.retention_rules import PAST
from engine.store.space.segment_survey import SurveyJob
from engine.store.space.space_maker import LANES_AT_ONCE, NONE, SpaceMaker, StoreParts
from engine.store.space.sparse_segment import Choice, Kept, Thinning
from engine.store.state.log_state import StoreState
from engine.values.destination import TOPIC
from engine.values.errors import StoreError

DURABLE_WAIT_MS: Final = 50
SECOND_MS: Final = 1_000
STEP_BYTES: Final = 512 << 10  # read at a time; other work of the same worker gets its turn in between
# Of records in a sparse segment into which empty ones are merged, as each merge rewrites it.
FOLDED_MAX_BYTES: Final = 4 << 20

PASS: Final = 0
GO_ON: Final = 1


class Compaction(SpaceMaker):
    """Examines the segments at an interval, from the oldest on, one at a time.

    left_over: files of merged segments that the disk could not remove yet.
    _after: base of the segment examined last.  _closed_ms: when segments ended, by base, if known.
    _tried: live messages of segments that are damaged or were not worth it; they are not tried again until half of
    those are settled.  _unfoldable: bases of segments into which the following ones could not be merged.
    _group: the segments examined now, to become one.
    """

    __slots__ = (
        "left_over",
        "_after",
        "_closed_ms",
        "_tried",
        "_unfoldable",
        "_group",
        "_kept_from",
        "_kept_from_base",
        "_survey",
        "_choice",
        "_lanes_done",
        "_live_count",
        "_thinning",
        "_agreed_offset",
        "_turns",
    )

    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        self.left_over: list[str] = []
        self._after = -1
        self._closed_ms: dict[int, int] = {}
        self._tried: dict[int, int] = {}
        self._unfoldable: set[int] = set()
        self._group: list[Segment] = []
        self._kept_from: dict[int, int] = {}
        self._kept_from_base = -1
        self._survey: SurveyJob | None = None
        self._choice: Choice | None = None
        self._lanes_done = 0
        self._live_count = 0
        self._thinning: Thinning | None = None
        self._agreed_offset = 0
        self._turns = 0  # of the rules
        settings = self._context.settings
        if settings.compaction_live_percent:
            self._call_later(settings.compaction_interval_ms, PASS)

    def timer_fired(self, key: int) -> None:
        if self._is_closed:
            return
        if key == PASS:
            self._after = -1
            if self.left_over:
                paths, self.left_over = self.left_over, []
                self._remove(paths)
            self._forget_gone()
            self._next()
        elif self._thinning is not None:
            self._go_on(self._thinning)
        elif self._survey is not None:
            self._choose(self._survey)

    def _forget_gone(self) -> None:
        first = self._log.files.segments[0].base
        for known in (self._closed_ms, self._tried):
            for base in [base for base in known if base < first]:
                del known[base]
        self._unfoldable = {base for base in self._unfoldable if base >= first}

    # Which segment.

    def _next(self) -> None:
        """Have the next candidate examined; the pass ends with the last segment."""
        segments = self._log.files.segments
        for place, segment in enumerate(segments):
            if segment.base <= self._after:
                continue
            end = self._next_snapshot(place + 1)
            if end == NONE:
                break
            self._after = segment.base
            if not self._is_candidate(segments[place:end]):
                end = self._end_of_empty(place, end)
                if end - place == 1:
                    continue
            self._group = segments[place:end]
            base, lease_max_ms = self._kept_from_base, self.rules.lease_max_ms
            self._survey = SurveyJob(
                self._surveyed, self._context, segment, segments[end], segments[0], base, True, True, lease_max_ms
            )
            self._context.workers.submit(self._survey, FILE_LANE)
            return
        self._call_later(self._context.settings.compaction_interval_ms, PASS)

    def _is_candidate(self, group: list[Segment]) -> bool:
        segment = group[0]
        if not segment.opens_with_snapshot() or any(each.file is not None for each in group):
            return False
        if segment.is_sparse and not segment.message_count:
            return False
        closed_ms = self._closed_ms.get(segment.base)
        return closed_ms is None or self._is_past(segment, closed_ms)

    def _end_of_empty(self, place: int, end: int) -> int:
        """Return the place behind the segments that can be merged into the sparse one at ``place``: without messages.

        end: behind those that were never used.
        """
        segments = self._log.files.segments
        segment = segments[place]
        if not segment.is_sparse or segment.base in self._unfoldable:
            return place + 1
        kept_bytes = segment.kept_bytes
        while (following := self._next_snapshot(end + 1)) != NONE:
            empty = segments[end]
            kept_bytes += empty.kept_bytes
            if not empty.is_sparse or empty.message_count or kept_bytes > FOLDED_MAX_BYTES:
                break
            end = following
        return end

    def _is_past(self, segment: Segment, closed_ms: int) -> bool:
        """Return whether retention may have passed for a segment that ended at ``closed_ms``."""
        age_ms = self._context.clock.wall_ms() - closed_ms
        return age_ms >= self._context.settings.compaction_min_age_ms and self.rules.may_be_past(
            segment.base, closed_ms
        )

    def _surveyed(self, survey: SurveyJob) -> None:
        """Handle the snapshots around a segment."""
        if self._is_closed:
            return
        self.reason = survey.reason
        if survey.reason:
            self._give_up(survey.segment, survey.is_damaged)
            return
        self._closed_ms[survey.segment.base] = survey.closed_ms
        if survey.kept_from is not None:
            self._kept_from, self._kept_from_base = survey.kept_from, survey.oldest.base
        if survey.exported is not None:
            self.rules.adopt(survey.exported)
        self._turns = self.rules.turns
        is_leased = leased(survey.leases, survey.following.base) is not None
        if (
            is_leased
            or survey.segment not in self._log.files.segments
            or not self._is_past(survey.segment, survey.closed_ms)
        ):
            self._survey = None
            self._next()
            return
        self._choice = Choice(self._kept_from, survey.topics)
        self._lanes_done = self._live_count = 0
        lanes = self.rules.sized_lanes(survey, 0)
        if lanes:
            self._measure(lanes)
        else:
            self._choose(survey)

    def _measured(self, _: None, reason: str) -> None:
        self.reason = reason
        survey = self._survey
        if self._is_closed or survey is None:
            return
        if reason:
            self._give_up(survey.segment, False)
        else:
            self._choose(survey)

    def _choose(self, survey: SurveyJob) -> None:
        """Determine for some more lanes what has to stay; then begin if that is little."""
        choice = self._choice
        assert choice is not None
        lanes = survey.lanes
        done = self._lanes_done
        self._lanes_done = min(done + LANES_AT_ONCE, len(lanes))
        for key, first, end in lanes[done : self._lanes_done]:
            if self.rules.lane_verdict(survey, key, self._sizes) == PAST:
                bits = needed_bits(self._log.state, key, first, end)
            else:
                bits = (1 << (end - first)) - 1
            self._live_count += bits.bit_count()
            choice.lanes[key] = Kept(first, end, bits)
        if self._lanes_done < len(lanes):
            self._call_later(0, GO_ON)
            return
        # Earlier settlements must be durable before the settled messages are removed.
        self._agreed_offset = self._log.end
        self._survey = self._choice = None
        segment = survey.segment
        if segment.is_sparse and len(self._group) > 1:
            self._begin(choice, segment.kept_bytes + FOLDED_MAX_BYTES, survey.next_sequence)
            return
        percent = self._context.settings.compaction_live_percent
        count = segment.message_count if segment.is_sparse else sum([end - first for _, first, end in lanes])
        tried = self._tried.get(segment.base)
        if self._live_count * 100 > count * percent or (tried is not None and self._live_count * 2 > tried):
            self._next()
            return
        room = self._group[-1].limit() - segment.base
        self._begin(choice, room * percent // 100, survey.next_sequence)

    def _begin(self, choice: Choice, limit_bytes: int, next_sequence: int) -> None:
        segments = self._log.files.segments
        place = segments.index(self._group[0])
        limits = [records_limit(segments, place + number) for number in range(len(self._group))]
        self._thinning = Thinning(self._context.files, self._group, limits, choice, limit_bytes, next_sequence)
        self._go_on(self._thinning)

    # Making the new file.

    def _go_on(self, thinning: Thinning) -> None:
        if thinning.segment not in self._log.files.segments or self._turns != self.rules.turns:
            self._give_up(thinning.segment, False)  # dropped by retention meanwhile, or a reader went back
        elif not thinning.is_read:
            self._work(partial(_step, thinning), partial(self._stepped, thinning))
        elif self._commit.durable < self._agreed_offset:
            self._call_later(DURABLE_WAIT_MS, GO_ON)
        else:
            work = partial(self._place, thinning, self.rules.exported, self._context.clock.wall_ms())
            self._work(work, partial(self._placed, thinning))

    def _stepped(self, thinning: Thinning, step: tuple[int, str] | None, reason: str) -> None:
        """Handle the outcome of ``_step``."""
        if self._is_closed:
            return
        count, flaw = step or (0, "")
        reason = reason or flaw
        is_there = thinning.segment in self._log.files.segments  # otherwise retention has dropped it
        self.reason = reason if is_there else ""
        if reason or not is_there or not thinning.is_worth_it:
            self._give_up(thinning.segment, bool(flaw) or not thinning.is_worth_it)
        elif thinning.is_read:
            self._go_on(thinning)
        else:
            self._call_later(count * SECOND_MS // self._context.settings.compaction_bytes_per_second, GO_ON)

    def _place(self, thinning: Thinning, exported: Watermarks, now_ms: int) -> bool:
        """Complete a new file and give it the segment's name; False if a reader needs the segment.  On a worker."""
        thinning.finish(now_ms, self._context.store_id)
        claims = self._read_claims(now_ms)
        if leased(claims.leases, thinning.segments[-1].limit()) is not None or claims.exported.is_behind(exported):
            return False
        thinning.put_in_place()
        return True

    def _placed(self, thinning: Thinning, is_placed: bool | None, reason: str) -> None:
        if self._is_closed:
            return
        self.reason = reason
        segment = thinning.segment
        if not is_placed:
            self._give_up(segment, False)
            return
        self._thinning = None
        thinning.take_over()
        for number in sorted(thinning.removed):
            self.rules.count_missed(number, segment.limit())
        paths = self._log.files.thinned(segment, thinning.segments[1:])
        self._tried.pop(segment.base, None)
        if paths:
            self._open_files.dropped.update(paths)
            self._remove(paths)
        self._forget([segment.path(), *paths])
        self._next()

    def _give_up(self, segment: Segment, is_hopeless: bool) -> None:
        """Leave a segment as it is, and continue with the others unless the disk refuses.

        is_hopeless: another attempt would end the same way while so much of it is live.
        """
        if self._thinning is not None:
            self._work(self._thinning.give_up)
        if is_hopeless:
            self._tried[segment.base] = self._live_count
            self._unfoldable.add(segment.base)
        self._survey = self._choice = self._thinning = None
        if self.reason and not is_hopeless:
            self._call_later(self._context.settings.compaction_interval_ms, PASS)
        else:
            self._next()

    def _remove(self, paths: list[str]) -> None:
        """Have files of merged segments removed; the next pass, or the next start, tries again for those left over."""
        self._work(partial(_unlink, self._context.files, paths), self._removed)

    def _removed(self, left_over: list[str] | None, reason: str) -> None:
        self.left_over += left_over or []


def _step(thinning: Thinning) -> tuple[int, str]:
    """Read some octets; return how many, and the flaw of a damaged segment, "" for none.  Raises: OSError."""
    try:
        return thinning.step(STEP_BYTES), ""
    except StoreError as flaw:
        return 0, str(flaw)


def _unlink(files: Files, paths: list[str]) -> list[str]:
    """Remove files; return those left over because the disk refused."""
    for place, path in enumerate(paths):
        try:
            files.unlink(path)
        except OSError:
            return paths[place:]
    return []


def needed_bits(state: StoreState, key: int, first: int, end: int) -> int:
    """Return which entries of a lane from ``first`` to ``end`` (excluded) may still be needed, as bits."""
    lane = state.lanes.get(key)
    destination = state.destinations.get(key >> layout.LANE_SHIFT)
    if lane is None or destination is None:  # closed meanwhile
        return 0
    if destination.kind != TOPIC:
        return ((1 << (end - first)) - 1) & ~lane.settled.bits(first, end)
    bits = 0
    for member in destination.holders.members:
        own = member.lanes.get(lane.priority)
        if own is None:
            until = first if member.is_closing else end
            bits |= (1 << (until - first)) - 1
        else:
            until = end if own.end < 0 else max(min(own.end, end), first)
            bits |= ((1 << (until - first)) - 1) & ~own.settled.bits(first, end)
    return bits
