"""The place of each pending schedule in the log, in arrays: 36 octets per schedule, whatever its message holds."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from engine.values.stored import Range

CHUNK_COUNT: Final = 512
SMALL_COUNT: Final = 128  # neighbouring chunks with no more than this together are merged
PLACE_BITS: Final = 52  # of a key: log offset below, due time above
PLACE_MASK: Final = (1 << PLACE_BITS) - 1
SPOT_SHIFT: Final = 4  # of a spot: queue offset above, lane below


def key_of(due_ms: int, place: int) -> int:
    """Return the place of a schedule in the order of due times."""
    return due_ms << PLACE_BITS | place


def due_of(key: int) -> int:
    return key >> PLACE_BITS


def place_of(key: int) -> int:
    return key & PLACE_MASK


class Schedule(NamedTuple):
    """One pending schedule.

    place: log offset of its record, which is its number.  due_ms: wall clock.  target: number of the message's
    destination; 0 for one that was temporary before a restart.  size: octets of the message.
    owner: number of its owner in ``Owners``.
    """

    place: int
    lane: int
    queue_offset: int
    due_ms: int
    target: int
    size: int
    owner: int = 0

    def key(self) -> int:
        """Return its place in the order of due times."""
        return self.due_ms << PLACE_BITS | self.place

    def entry(self) -> Range:
        """Return its entry as a range for a settlement."""
        return Range(self.lane, self.queue_offset, 1, 0, self.size, (self.size,))


@dataclass(slots=True, eq=False)
class Chunk:
    """Schedules by ascending place; one column per field."""

    places: array[int] = field(default_factory=partial(array, "q"))
    spots: array[int] = field(default_factory=partial(array, "q"))
    dues: array[int] = field(default_factory=partial(array, "q"))
    targets: array[int] = field(default_factory=partial(array, "i"))
    sizes: array[int] = field(default_factory=partial(array, "I"))
    owners: array[int] = field(default_factory=partial(array, "i"))

    def columns(self) -> tuple[array[int], ...]:
        return self.places, self.spots, self.dues, self.targets, self.sizes, self.owners

    def extend(self, other: Chunk) -> None:
        """Append the rows that follow."""
        for own, more in zip(self.columns(), other.columns(), strict=True):
            own.extend(more)

    def part(self, at: int, end: int) -> Chunk:
        """Return the rows from ``at`` to ``end``."""
        return Chunk(*(column[at:end] for column in self.columns()))

    def in_order(self, rows: list[int]) -> Chunk:
        """Return the rows in another order."""
        return Chunk(*(array(column.typecode, map(column.__getitem__, rows)) for column in self.columns()))

    def remove(self, at: int) -> None:
        # One by one: many may be cancelled in one turn.
        del self.places[at]
        del self.spots[at]
        del self.dues[at]
        del self.targets[at]
        del self.sizes[at]
        del self.owners[at]

    def schedule(self, at: int) -> Schedule:
        spot = self.spots[at]
        return Schedule(
            self.places[at],
            spot & ((1 << SPOT_SHIFT) - 1),
            spot >> SPOT_SHIFT,
            self.dues[at],
            self.targets[at],
            self.sizes[at],
            self.owners[at],
        )


def spot_of(lane: int, queue_offset: int) -> int:
    return queue_offset << SPOT_SHIFT | lane


def by_place(lanes: list[Chunk]) -> Chunk:
    """Merge the rows of lanes, each ascending by place, into one that ascends."""
    found = Chunk()
    for lane in lanes:
        found.extend(lane)
    if sum(bool(lane.places) for lane in lanes) <= 1:
        return found
    return found.in_order(sorted(range(len(found.places)), key=found.places.__getitem__))


@dataclass(slots=True, eq=False)
class PendingSchedules:
    """All pending schedules by place; they are added in ascending order."""

    _chunks: list[Chunk] = field(default_factory=list)
    _firsts: list[int] = field(default_factory=list)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Schedule]:
        for chunk in self._chunks:
            for at in range(len(chunk.places)):
                yield chunk.schedule(at)

    def add(self, schedule: Schedule) -> None:
        """Add one whose place is above all others."""
        chunks = self._chunks
        if not chunks or len(chunks[-1].places) >= CHUNK_COUNT:
            chunks.append(Chunk())
            self._firsts.append(schedule.place)
        chunk = chunks[-1]
        chunk.places.append(schedule.place)
        chunk.spots.append(spot_of(schedule.lane, schedule.queue_offset))
        chunk.dues.append(schedule.due_ms)
        chunk.targets.append(schedule.target)
        chunk.sizes.append(schedule.size)
        chunk.owners.append(schedule.owner)
        self._count += 1

    def take_up(self, all_of_them: Chunk) -> None:
        """Fill an empty set with what recovery has found."""
        self._count = len(all_of_them.places)
        self._chunks = [all_of_them.part(at, at + CHUNK_COUNT) for at in range(0, self._count, CHUNK_COUNT)]
        self._firsts = [chunk.places[0] for chunk in self._chunks]

    def find(self, place: int) -> Schedule | None:
        """Return None if no schedule waits there."""
        chunk, at = self._locate(place)
        return None if chunk is None else chunk.schedule(at)

    def targeting(self, targets: set[int], after: int, chunks: int, most: int) -> tuple[list[Schedule], int]:
        """Return some schedules for ``targets``, and the place up to which the search went.

        after: search behind that place, at most ``chunks`` chunks, and no further once ``most`` are found.
        """
        found: list[Schedule] = []
        number = max(0, bisect_right(self._firsts, after) - 1)
        for chunk in self._chunks[number : number + chunks]:
            if not targets.isdisjoint(chunk.targets):
                found += [chunk.schedule(at) for at, target in enumerate(chunk.targets) if target in targets]
            after = chunk.places[-1]
            if len(found) >= most:
                break
        return found, after

    def move(self, place: int, due_ms: int) -> None:
        """Change the due time of a pending schedule."""
        chunk, at = self._locate(place)
        assert chunk is not None, "the schedule is there"
        chunk.dues[at] = due_ms

    def remove(self, place: int) -> Schedule:
        chunk, at = self._locate(place)
        assert chunk is not None, "the schedule is there"
        found = chunk.schedule(at)
        chunk.remove(at)
        self._count -= 1
        self._tidy(bisect_right(self._firsts, place) - 1)
        return found

    def _locate(self, place: int) -> tuple[Chunk | None, int]:
        number = bisect_right(self._firsts, place) - 1
        if number < 0:
            return None, 0
        chunk = self._chunks[number]
        at = bisect_left(chunk.places, place)
        if at == len(chunk.places) or chunk.places[at] != place:
            return None, 0
        return chunk, at

    def _tidy(self, number: int) -> None:
        """Remove an empty chunk, and merge small neighbours."""
        chunks = self._chunks
        count = len(chunks[number].places)
        if count > SMALL_COUNT:
            return
        if count == 0:
            del chunks[number]
            del self._firsts[number]
            return
        for left in (number - 1, number):
            right = left + 1
            if left >= 0 and right < len(chunks):
                if len(chunks[left].places) + len(chunks[right].places) <= SMALL_COUNT:
                    chunks[left].extend(chunks[right])
                    del chunks[right]
                    del self._firsts[right]
                    return


def merged(ranges: list[Range]) -> list[Range]:
    """Return the ranges with neighbours merged."""
    ranges.sort(key=_where)
    found: list[Range] = []
    for one in ranges:
        last = found[-1] if found else None
        if last is not None and last.priority == one.priority and last.first + last.count == one.first:
            last.count += 1
            last.size_bytes += one.size_bytes
        else:
            found.append(one)
    return found


def _where(one: Range) -> tuple[int, int]:
    return one.priority, one.first


# One-shots with similar delays share a lane, so they leave it nearly in the order of arrival and its cursor moves on.
LANE_DELAYS_MS: Final = (10_000, 60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000)
REPEATING_LANE: Final = 9


def lane_for(delay_ms: int) -> int:
    """Return the lane of a one-shot."""
    for lane, most_ms in enumerate(LANE_DELAYS_MS):
        if delay_ms < most_ms:
            return lane
    return len(LANE_DELAYS_MS)
