"""Opening after a stop: verify, replay the tail, cut what is torn, rebuild what is lost.

Recovery starts at the segment of the consume-queue offset, whose snapshot covers everything before.  The records after
it are replayed.  Octets that are not whole records at or above the published durable offset were never confirmed, so
the log is cut there: roll_forward.py decides it, torn_tail.py does it.  Below that offset they are corruption, which
is an error unless the operator allows skipping.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from engine.store.disk.files import Files, read_file
from engine.store.format import layout
from engine.store.format.file_heads import Checkpoint
from engine.store.log.checkpoint import CheckpointFile
from engine.store.log.segment import (
    NEW_SUFFIX,
    NOT_SEALED,
    PREPARED_SUFFIX,
    SPARSE_SUFFIX,
    SUFFIX,
    Segment,
    is_left_over,
    load_segment,
    segment_name,
)
from engine.store.log.segment_octets import snapshot_record
from engine.store.log.store_directory import LogRange, RecoveryReport
from engine.store.queues.consume_queue_files import ConsumeQueueFiles
from engine.store.recover.rebuilt_state import RebuiltState
from engine.store.recover.roll_forward import RollForward
from engine.store.recover.torn_tail import TornTail
from engine.store.recover.zero_entries import ZeroEntries
from engine.store.state.consume_queue import Closing, ConsumeQueue
from engine.store.state.log_state import StoreState
from engine.store.state.snapshot import load_snapshot
from engine.values.errors import StoreCorrupt

HEADER_BYTES: Final = layout.SEGMENT_HEADER_BYTES


@dataclass(slots=True)
class RecoveredLog:
    """The state from which a store continues.  ``closings``: consume-queue entries that are not in the files yet."""

    report: RecoveryReport
    state: StoreState
    segments: list[Segment]
    end: int
    sequence: int
    store_time_ms: int
    consume_queue_offset: int
    closings: list[Closing]


@dataclass(slots=True, eq=False)
class Recovery:
    """Opens a store once; ``run`` does it."""

    _files: Files
    _directory: str
    _queues: ConsumeQueueFiles
    _store_id: str
    _checkpoint_file: CheckpointFile
    _checkpoint: Checkpoint | None
    _is_skipping: bool
    _durable: int = field(init=False)
    _report: RecoveryReport = field(default_factory=RecoveryReport)
    _segments: list[Segment] = field(default_factory=list)
    _state: StoreState = field(default_factory=StoreState)
    _sequence: int = 1
    _consume_queue_offset: int = 0
    # Contents of the files of each queue, by destination and priority: with 100,000 queues each scan takes seconds.
    _extents: dict[tuple[int, int], tuple[int, int, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._durable = self._checkpoint.durable_offset if self._checkpoint is not None else 0

    def run(self) -> RecoveredLog:
        """Bring the directory into a state in which appending can continue.

        Raises: StoreCorrupt with file and position; OSError.
        """
        self._load_segments()
        if not self._segments:
            return self._new()
        self._report.is_clean = self._is_clean()
        start = self._choose_start()
        # A segment may be missing already.
        rebuilt = RebuiltState(self._queues, self._state, self._consume_queue_offset, bool(self._report.skipped))
        replay = RollForward(
            self._files, self._segments, self._checkpoint, self._is_skipping, self._report, rebuilt, self._sequence
        )
        replay.run(start)
        state = rebuilt.state
        state.consumers.close_all()
        state.consumers.forget_unnamed()
        self._report.replayed_to = replay.end
        if self._report.is_clean and replay.end == self._durable:
            self._remove_prepared()
        else:
            self._report.is_clean = False
            TornTail(
                self._files,
                self._directory,
                self._segments,
                self._checkpoint,
                self._report,
                replay.end,
                replay.sequence,
            ).cut(replay.last_place)
        return RecoveredLog(
            self._report,
            state,
            self._segments,
            replay.end,
            replay.sequence,
            replay.time_ms,
            rebuilt.consume_queue_offset,
            rebuilt.closings,
        )

    def _new(self) -> RecoveredLog:
        if self._durable:
            raise StoreCorrupt(
                f"{self._directory}: no segment is left, but the log was durable up to log offset {self._durable}"
            )
        for destination_id, priority in self._queues.queues():
            self._queues.truncate(destination_id, priority, 0)
        self._remove_prepared()
        self._report.is_new = True
        # As if an empty segment was before the first: opening then rolls as after every unclean stop.
        nothing = Segment(self._directory, 0, 0, False)
        return RecoveredLog(self._report, self._state, [nothing], 0, 1, 0, 0, [])

    # The segments.

    def _load_segments(self) -> None:
        names = self._files.list_directory(self._directory)
        first = self._checkpoint.first_offset if self._checkpoint is not None else 0
        is_first_there = segment_name(first) + SUFFIX in names
        for name in names:
            if name.endswith((NEW_SUFFIX, SPARSE_SUFFIX)):
                self._files.unlink(f"{self._directory}/{name}")  # unused, or replaceable
            elif name.endswith(SUFFIX):
                segment, store_id = load_segment(self._files, self._directory, name)
                if store_id != self._store_id:
                    raise StoreCorrupt(f"{segment.path()}: of store {store_id}, this store is {self._store_id}")
                if segment.base < first and is_first_there:
                    self._files.unlink(segment.path())  # retention was interrupted
                elif self._segments and is_left_over(self._segments[-1], segment):
                    self._files.unlink(segment.path())
                else:
                    self._segments.append(segment)
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            if after.base != before.limit() and not (after.is_continuation and after.base < before.limit()):
                reason = f"the segment that should follow it at log offset {before.limit()} is missing"
                if not self._is_skipping:
                    raise StoreCorrupt(f"{before.path()}: {reason}, the next one begins at {after.base}")
                lost = LogRange(before.limit(), after.base, before.path(), before.position(before.limit()), reason)
                self._report.skipped.append(lost)

    def _is_clean(self) -> bool:
        """Return whether the log can continue where the checkpoint says, because nothing was written after it."""
        last = self._segments[-1]
        if self._checkpoint is None or not self._checkpoint.is_clean or last.sealed_end != NOT_SEALED:
            return False
        end = self._checkpoint.durable_offset
        if not last.base < end <= last.limit():
            return False
        return not any(read_file(self._files, last.path(), min(8, last.limit() - end), HEADER_BYTES + end - last.base))

    # Where to start.

    def _choose_start(self) -> int:
        places = [place for place, segment in enumerate(self._segments) if segment.opens_with_snapshot()] or [0]
        if self._checkpoint is None:
            if len(self._segments) > 1 or self._segments[0].base or self._queues.queues():
                self._report.rebuilt = "no slot of the checkpoint is whole"
            return self._start_at(places[:1], True)
        known = self._checkpoint.consume_queue_offset
        # After a clean stop at the very end of a segment the next one's base is the consume-queue offset, too,
        # though its snapshot may never have become durable.
        usable = [place for place in places if self._segments[place].base < min(self._durable, known + 1)]
        start = self._start_at(usable or places[:1], False)
        reason = self._find_lost_entries()
        if not reason:
            self._lower_checkpoint()
            self._truncate_queues()
            self._find_first_entries()
            if not self._report.is_clean:
                self._mend_entries()
            return start
        self._report.rebuilt = reason
        return self._start_at(places[:1], True)

    def _start_at(self, places: list[int], is_rebuild: bool) -> int:
        """Take the state from the snapshot of the last of these segments; of an earlier one if damage is skipped."""
        while True:
            place = places.pop()
            segment = self._segments[place]
            try:
                state, sequence = self._load_snapshot(segment)
                break
            except StoreCorrupt:
                # The replay, which passes it later from an earlier segment, reports it as skipped.
                if not self._is_skipping or (not places and segment.base):
                    raise
                if not places:
                    state, sequence = StoreState(), 1  # nothing was before the very first segment
                    break
        self._state = state
        self._sequence = sequence
        self._report.replayed_from = segment.base
        self._consume_queue_offset = segment.base
        if is_rebuild:
            self._lower_checkpoint()
            for destination_id, priority in self._queues.queues():
                lane = self._lane(destination_id, priority)
                is_usable = lane is not None and not self._missing(lane)
                self._truncate(destination_id, priority, lane.tail if lane is not None and is_usable else 0)
            # The log may have nothing more of some queues; the next start must find that they lack nothing.
            lost = [lane for lane in self._state.all_lanes() if lane.tail and self._missing(lane)]
            self._queues.leave_out(lost)
            for each in lost:
                self._extents.pop((each.destination_id, each.priority), None)
            self._find_first_entries()
        return place

    def _lower_checkpoint(self) -> None:
        """Record that the queues are complete only up to where this start begins: it may fail before they are again."""
        known = self._checkpoint
        if known is None or known.consume_queue_offset <= self._consume_queue_offset:
            return
        file = self._checkpoint_file
        file.values = replace(known, consume_queue_offset=self._consume_queue_offset)
        file.publish(known.is_clean)
        file.sync()

    def _load_snapshot(self, segment: Segment) -> tuple[StoreState, int]:
        reason = "a damaged snapshot"
        record = snapshot_record(self._files, segment)
        try:
            if record is not None:
                return load_snapshot(record.payload()), record.sequence
        except (KeyError, TypeError, ValueError) as error:
            reason = f"a snapshot that cannot be read: {error!r}"
        if segment.base >= self._durable and self._is_first_used(segment):
            return StoreState(), 1  # torn before anything became durable; the replay cuts it
        raise StoreCorrupt(f"{segment.path()}, position {HEADER_BYTES}: the segment begins with {reason}")

    def _is_first_used(self, segment: Segment) -> bool:
        """Return whether all other segments were ended without a record by starts that then failed."""
        return all(one is segment or one.sealed_end == one.base for one in self._segments)

    def _lane(self, destination_id: int, priority: int) -> ConsumeQueue | None:
        if destination_id == layout.SYSTEM_QUEUE:
            return self._state.system
        return self._state.lanes.get((destination_id << layout.LANE_SHIFT) | priority)

    def _missing(self, lane: ConsumeQueue) -> str:
        """Return what the files of a queue lack, "" if they hold all that may still be needed."""
        try:
            first, end, _ = self._extent(lane.destination_id, lane.priority)
        except StoreCorrupt as error:
            return str(error)
        needed = 0
        if lane is not self._state.system:
            needed = self._state.destinations[lane.destination_id].first_needed(lane)
        if end < lane.tail or first > min(needed, lane.tail):
            there = f"entries {first} to {end - 1} are" if end else "no entry is"
            return (
                f"{self._queues.root}/{lane.destination_id}/{lane.priority}: {there} there, "
                f"{min(needed, lane.tail - 1)} to {lane.tail - 1} should be"
            )
        return ""

    def _find_lost_entries(self) -> str:
        for lane in self._state.all_lanes():
            if lane.tail and (reason := self._missing(lane)):
                return reason
        return ""

    def _extent(self, destination_id: int, priority: int) -> tuple[int, int, bool]:
        found = self._extents.get((destination_id, priority))
        if found is None:
            found = self._extents[destination_id, priority] = self._queues.extent(destination_id, priority)
        return found

    def _truncate(self, destination_id: int, priority: int, tail: int) -> None:
        self._extents.pop((destination_id, priority), None)
        self._queues.truncate(destination_id, priority, tail)

    def _truncate_queues(self) -> None:
        state = self._state
        for destination_id, priority in self._queues.queues():
            lane = self._lane(destination_id, priority)
            if lane is not None:
                if lane.tail:
                    _, end, is_neat = self._extent(destination_id, priority)
                    if end <= lane.tail and is_neat:
                        continue
                self._truncate(destination_id, priority, lane.tail)
            elif destination_id in state.destinations or destination_id >= state.next_destination:
                self._truncate(destination_id, priority, 0)
            # Otherwise the destination was closed; its entries are removed together with its messages.

    def _find_first_entries(self) -> None:
        """Note in each lane which entries were dropped together with segments."""
        for lane in self._state.all_lanes():
            first, end, _ = self._extent(lane.destination_id, lane.priority)
            lane.kept_first = first if end else lane.tail - lane.tail % layout.ENTRIES_PER_FILE

    def _mend_entries(self) -> None:
        """Make entries again that a power cut has made zeros."""
        zeros = ZeroEntries(self._queues)
        for lane in self._state.all_lanes():
            if lane is not self._state.system:
                destination = self._state.destinations[lane.destination_id]
                zeros.find(destination, lane, lane.kept_first, self._consume_queue_offset)
        self._report.rebuilt = zeros.mend(self._files, self._segments)

    def _remove_prepared(self) -> None:
        for name in self._files.list_directory(self._directory):
            if name.endswith(PREPARED_SUFFIX):
                self._files.unlink(f"{self._directory}/{name}")
