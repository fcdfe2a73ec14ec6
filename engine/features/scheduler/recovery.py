"""Restores the pending schedules at the start from the store's entries, without reading messages."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from engine.features.scheduler.pending_schedules import SPOT_SHIFT, Chunk, by_place, spot_of
from engine.features.scheduler.schedule_book import ScheduleBook
from engine.values.destination import QUEUE
from engine.values.stored import EntryColumns, LaneState

ENTRIES_AT_ONCE: Final = 65_536
GAP_ENTRIES: Final = 1_024  # settled entries in between are read along


def restore(scheduler: ScheduleBook, name: str) -> None:
    """Raises: StoreError if the disk cannot be read."""
    for state in scheduler.context.store.recovered():
        if state.kind != QUEUE or state.name != name:
            continue
        scheduler.number = state.destination_id
        scheduler.take_up(by_place([_waiting(scheduler, lane) for lane in state.lanes]))


def _waiting(scheduler: ScheduleBook, lane: LaneState) -> Chunk:
    """Return the pending schedules of one lane; whole columns at a time, as there may be millions."""
    found = Chunk()
    waiting = lane.waiting_runs()
    at = 0
    while at < len(waiting):
        first = waiting[at][0]
        until = at
        end = first
        while until < len(waiting) and waiting[until][0] - end <= GAP_ENTRIES and end - first < ENTRIES_AT_ONCE:
            end = waiting[until][1]
            until += 1
        for start in range(first, end, ENTRIES_AT_ONCE):
            stop = min(end, start + ENTRIES_AT_ONCE)
            columns = scheduler.context.store.entries(scheduler.number, lane.priority, start, stop - start)
            for run_first, run_end in waiting[at:until]:
                _take(found, columns, max(run_first, start) - start, min(run_end, stop) - start, lane.priority)
        at = until
    for entry, known in lane.attempts.items():
        spot = spot_of(lane.priority, entry)
        one = bisect_left(found.spots, spot)
        if one < len(found.spots) and found.spots[one] == spot:
            found.dues[one] = known.due_ms
            scheduler.fired[found.places[one]] = known.count
    return found


def _take(found: Chunk, columns: EntryColumns, at: int, end: int, lane: int) -> None:
    """Add the rows from ``at`` to ``end``, without those whose record is gone."""
    places = columns.places
    while at < end:
        try:
            gone = places.index(0, at, end)
        except ValueError:
            gone = end
        first = columns.first + at
        found.places.frombytes(places[at:gone].tobytes())
        found.spots.extend(range(spot_of(lane, first), spot_of(lane, first + gone - at), 1 << SPOT_SHIFT))
        found.dues.extend(columns.expiries[at:gone])
        found.targets.frombytes(columns.tags[at:gone].tobytes())
        found.sizes.extend(columns.sizes[at:gone])
        found.owners.frombytes(bytes(found.owners.itemsize * (gone - at)))  # no owner
        at = gone + 1
