"""What waits in the schedule, taken up from the store's entries at the start: no message is read for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.destination import QUEUE
from engine.ports import LaneState
from engine.schedule.pending import Schedule

if TYPE_CHECKING:
    from engine.schedule.scheduler import Scheduler

ENTRIES_AT_ONCE: Final = 65_536
GAP_ENTRIES: Final = 1_024  # settled ones in between that are read along


def restore(scheduler: Scheduler, name: str) -> None:
    """Raises: StoreError when the disk refuses to say."""
    for state in scheduler.broker.store.recovered():
        if state.kind != QUEUE or state.name != name:
            continue
        scheduler.number = state.destination_id
        found: list[Schedule] = []
        for lane in state.lanes:
            found += _waiting(scheduler, lane)
        found.sort()
        scheduler.take_up(found)


def _waiting(scheduler: Scheduler, lane: LaneState) -> list[Schedule]:
    found: list[Schedule] = []
    waiting = _waiting_runs(lane)
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
            columns = scheduler.broker.store.entries(scheduler.number, lane.priority, start, stop - start)
            for run_first, run_end in waiting[at:until]:
                for entry in range(max(run_first, start), min(run_end, stop)):
                    one = entry - start
                    place = columns.places[one]
                    if not place:
                        continue
                    known = lane.attempts.get(entry)
                    if known is None:
                        due_ms = columns.expiries[one]
                    else:
                        due_ms = known.due_ms
                        scheduler.fired[place] = known.count
                    size = columns.sizes[one]
                    found.append(Schedule(place, lane.priority, entry, due_ms, columns.tags[one], size))
        at = until
    return found


def _waiting_runs(lane: LaneState) -> list[tuple[int, int]]:
    """Return (first, end) of everything that is not settled, ascending."""
    runs: list[tuple[int, int]] = []
    first = lane.cursor
    for settled, count in lane.settled:
        if settled > first:
            runs.append((first, settled))
        first = settled + count
    if first < lane.tail:
        runs.append((first, lane.tail))
    return runs
