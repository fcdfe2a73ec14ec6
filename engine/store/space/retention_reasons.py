"""Why a segment that nobody needs still exists, for ``store du --why``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from config.policies import UNLIMITED, RetentionPolicy
from engine.store.disk.files import RealFiles
from engine.store.format import layout
from engine.store.log.segment import Segment
from engine.store.log.store_directory import QUEUE_DIRECTORY
from engine.store.plain_words import duration, size
from engine.store.read.entry_files import entry_files, lanes
from engine.store.read.export_watermarks import read_watermarks
from engine.store.read.leases import Lease, leased, read_leases
from engine.store.read.reader import StoreReader
from engine.store.read.segment_files import SegmentFile, open_segment
from engine.store.space.backlog_sizes import BacklogSizes
from engine.store.space.retention_rules import RetentionPolicies
from engine.store.space.segment_survey import Snapshot, read_snapshot
from engine.store.state.destination import LoggedDestination
from engine.values.destination import uri
from engine.values.errors import StoreError

NAMED_MAX: Final = 5  # destinations named per segment; the others are counted


@dataclass(frozen=True, slots=True)
class Keeping:
    """A gateway's configured retention: of the store, and of each destination."""

    policies: RetentionPolicies
    time_ms: int
    bytes: int
    now_ms: int
    lease_max_ms: int = 0


class KeptReasons:
    """keeping: None if the configuration is unknown, as for a stopped store."""

    def __init__(self, reader: StoreReader, keeping: Keeping | None) -> None:
        self._reader = reader
        self._keeping = keeping
        self._exported = read_watermarks(RealFiles(), str(reader.directory), reader.store_id)
        self._known: dict[int, Snapshot | None] = {}
        self._sizes = BacklogSizes(RealFiles(), f"{reader.directory}/{QUEUE_DIRECTORY}")

    def of(self, place: int) -> list[str]:
        """Return what keeps the segment at ``place``, which has no live messages."""
        segments = self._reader.segments
        segment = segments[place]
        following = next((one for one in segments[place + 1 :] if self._snapshot(one) is not None), None)
        if following is None or following.base > self._reader.entries_offset:
            return ["the next start begins here"]
        if self._is_empty(segment):
            return []
        if self._keeping is not None:
            lease = leased(self._leases(self._keeping), following.base)
            if lease is not None:
                left = duration(lease.until_ms - self._keeping.now_ms)
                return [f"{lease.reader} reads it, {left} more at most"]
        if self._keeping is None:
            return ["retention time or size, as the gateway's configuration says"]
        found = self._of_destinations(self._keeping, segment, following)
        if len(found) > NAMED_MAX:
            found[NAMED_MAX:] = [f"and {len(found) - NAMED_MAX} more destinations"]
        return found

    def _leases(self, keeping: Keeping) -> list[Lease]:
        reader = self._reader
        return read_leases(RealFiles(), str(reader.directory), reader.store_id, keeping.now_ms, keeping.lease_max_ms)

    def _of_destinations(self, keeping: Keeping, segment: SegmentFile, following: SegmentFile) -> list[str]:
        before, after = self._snapshot(segment), self._snapshot(following)
        assert after is not None
        found: dict[int, str] = {}
        for key, lane in after.state.lanes.items():
            known = None if before is None else before.state.lanes.get(key)
            number = key >> layout.LANE_SHIFT
            if number not in found and lane.tail > (0 if known is None else known.tail):
                destination = after.state.destinations[number]
                policy = keeping.policies.policy_for(destination.kind, destination.name)
                reason = self._reason(keeping, policy, destination, segment.base, following.base, after)
                if reason:
                    found[number] = f"{uri(destination.kind, destination.name)}: {reason}"
        return list(found.values())

    def _reason(
        self,
        keeping: Keeping,
        policy: RetentionPolicy,
        destination: LoggedDestination,
        base: int,
        end: int,
        after: Snapshot,
    ) -> str:
        age_ms = keeping.now_ms - after.time_ms
        time_ms = keeping.time_ms if policy.time_ms == UNLIMITED else policy.time_ms
        if policy.bytes == UNLIMITED:
            limit, now, what = keeping.bytes, self._reader.end().offset - base, "the log from here on is over"
        else:
            limit, now, what = (
                policy.bytes,
                self._bytes_behind(destination.destination_id, after),
                "its messages behind it are over",
            )
        if age_ms <= time_ms and now <= limit:
            return f"its retention, {duration(time_ms - age_ms)} more or until {what} {size(limit)} (now {size(now)})"
        reached = self._exported.reached(destination.destination_id, destination.kind, destination.name)
        if policy.until_exported and reached.offset < end and age_ms <= policy.export_deadline_ms:
            left = duration(policy.export_deadline_ms - age_ms)
            who = f"stream {reached.stream!r}" if reached.stream else "its export"
            return f"waits for {who}, which is at log offset {reached.offset} of {end}, {left} more at most"
        return ""

    def _bytes_behind(self, number: int, after: Snapshot) -> int:
        """Return the octets of a destination's messages behind a segment, as far as they are in consume queues."""
        keys = []
        for priority in lanes(self._reader.directory, number):
            key = (number << layout.LANE_SHIFT) | priority
            known = after.state.lanes.get(key)
            first = 0 if known is None else known.tail
            end = max(
                (file.first + file.count for file in entry_files(self._reader.directory, number, priority)), default=0
            )
            try:
                self._sizes.move(key, first, max(first, end))
            except (OSError, StoreError):  # removed meanwhile
                continue
            keys.append(key)
        return self._sizes.of(keys)

    def _is_empty(self, segment: SegmentFile) -> bool:
        """Return whether all messages were removed from a segment."""
        if not segment.is_sparse:
            return False
        try:
            file = open_segment(segment)
        except StoreError:
            return False
        file.close()
        return file.runs is not None and not file.runs.message_count

    def _snapshot(self, segment: SegmentFile) -> Snapshot | None:
        if segment.base not in self._known:
            self._known[segment.base] = self._read(segment)
        return self._known[segment.base]

    def _read(self, segment: SegmentFile) -> Snapshot | None:
        if segment.is_continuation or segment.limit == segment.base:
            return None
        directory = str(segment.path.parent)
        capacity = segment.span_end - segment.base
        try:
            return read_snapshot(RealFiles(), Segment(directory, segment.base, capacity, False))
        except (OSError, StoreError):  # removed meanwhile, or damaged, which ``verify`` reports
            return None
