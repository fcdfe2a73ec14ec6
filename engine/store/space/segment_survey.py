"""Surveys the messages between two snapshots, for retention and compaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.ports.workers import Job
from engine.store.context import StoreContext
from engine.store.disk.files import Files, describe
from engine.store.format import layout
from engine.store.log.segment import Segment
from engine.store.log.segment_octets import snapshot_record
from engine.store.read.export_watermarks import Watermarks, read_watermarks
from engine.store.read.leases import Lease, read_leases
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import load_snapshot
from engine.values.errors import StoreError


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot that opens a segment: the state, store time and sequence of that record."""

    state: StoreState
    time_ms: int
    sequence: int


def read_snapshot(files: Files, segment: Segment) -> Snapshot | None:
    """Return the snapshot at the beginning of ``segment``; None if there is no whole one."""
    record = snapshot_record(files, segment)
    if record is None:
        return None
    try:
        return Snapshot(load_snapshot(record.payload()), record.store_time_ms, record.sequence)
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{segment.path()}, position {layout.SEGMENT_HEADER_BYTES}: {error!r} in a snapshot") from None


def first_tails(files: Files, segments: list[Segment]) -> dict[int, int]:
    """Return the length of each lane where the log begins now; entries from there on are kept.

    Raises: StoreError if the disk cannot be read.
    """
    # Dropped or unused segments may be left before it after a power cut.
    segment = next((each for each in segments if each.opens_with_snapshot()), None)
    if segment is None or segment.base == 0:
        return {}
    try:
        found = read_snapshot(files, segment)
    except OSError as error:
        raise StoreError(describe(error, segment.path())) from error
    if found is None:
        raise StoreError(f"{segment.path()}: its snapshot is damaged")
    return {key: lane.tail for key, lane in found.state.lanes.items()}


@dataclass(slots=True, eq=False)
class SurveyJob(Job):
    """Reads the snapshots of a segment and of the one after it.

    is_whole: ``segment`` must have one, too; otherwise everything before the other one counts as in between.
    after: the state at the end.  closed_ms: its time.  next_sequence: of the record that follows.
    lanes: (lane, first entry, end) of lanes with entries in between, ascending.  topics: of subscriptions.
    kept_from: length of each lane at ``oldest``, None if that is known already (``known_base``).
    exported: what exports and streams have read, if needed (``has_exports``).
    leases: of readers, valid for at most ``lease_max_ms``; likewise.
    """

    _done: Callable[[SurveyJob], None]
    _context: StoreContext
    segment: Segment
    following: Segment
    oldest: Segment
    _known_base: int
    is_whole: bool
    _has_exports: bool
    _lease_max_ms: int = 0
    after: StoreState = field(default_factory=StoreState)
    closed_ms: int = 0
    next_sequence: int = 0
    lanes: list[tuple[int, int, int]] = field(default_factory=list)
    topics: dict[int, int] = field(default_factory=dict)
    kept_from: dict[int, int] | None = None
    exported: Watermarks | None = None
    leases: list[Lease] = field(default_factory=list)
    reason: str = ""
    is_damaged: bool = False
    _now_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._now_ms = self._context.clock.wall_ms()

    def run(self) -> None:
        path = self.segment.path()
        try:
            self._run()
            if self._has_exports:
                context = self._context
                path = context.directory
                self.exported = read_watermarks(context.files, path, context.store_id)
                self.leases = read_leases(context.files, path, context.store_id, self._now_ms, self._lease_max_ms)
        except OSError as error:
            self.reason = describe(error, path)
        except StoreError as error:
            self.reason = str(error)
            self.is_damaged = True

    def _run(self) -> None:
        before = self._snapshot(self.segment, self.is_whole)
        following = self._snapshot(self.following, True)
        after = self.after = following.state
        self.closed_ms, self.next_sequence = following.time_ms, following.sequence
        for key, lane in sorted(after.lanes.items()):
            known = before.state.lanes.get(key)
            first = 0 if known is None else known.tail
            if first < lane.tail:
                self.lanes.append((key, first, lane.tail))
        for state in (before.state, after):
            self.topics.update({number: each.topic_id for number, each in state.subscriptions.items()})
        if self.oldest.base != self._known_base:
            oldest = before if self.oldest is self.segment else self._snapshot(self.oldest, False)
            self.kept_from = {key: lane.tail for key, lane in oldest.state.lanes.items()}

    def _snapshot(self, segment: Segment, is_needed: bool) -> Snapshot:
        found = read_snapshot(self._context.files, segment)
        if found is None:
            if is_needed:
                raise StoreError(f"{segment.path()}: its snapshot is damaged")
            return Snapshot(StoreState(), 0, 0)
        return found

    def finish(self) -> None:
        self._done(self)
