"""Scheduled messages of a stopped store, cancelled: where one of them keeps a gateway from starting."""

from __future__ import annotations

from dataclasses import dataclass

from engine.features.scheduler.pending_schedules import merged
from engine.ports.clock import Clock
from engine.store.disk.files import Files
from engine.store.file_store import FileStore
from engine.store.offline.stopped_store import NoTimers, WorkersInTurn
from engine.store.read.scheduled_messages import entries_of
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, SCHEDULE_QUEUE
from engine.values.outcomes import CAUSE_CANCELLED, DROPPED
from engine.values.stored import LaneState, Range


@dataclass(frozen=True, slots=True)
class Cancelled:
    """unknown: ids of nothing that is scheduled."""

    count: int
    unknown: list[str]


def cancel_scheduled(
    directory: str, ids: list[str], destination: str, files: Files, clock: Clock, settings: StoreSettings
) -> Cancelled:
    """Cancel some by their ids, or all that are for ``destination``, a URI.

    Raises: StoreLocked while a gateway has the store; StoreCorrupt, StoreError.
    """
    entries = entries_of(directory, destination)
    wanted = dict.fromkeys(ids) if ids else dict.fromkeys(entries)
    workers = WorkersInTurn()
    store = FileStore(directory, files, workers, clock, NoTimers(), settings)
    try:
        number, lanes = _waiting(store)
        found = {name: entries[name] for name in wanted if name in entries and _waits(lanes, entries[name])}
        if found:
            store.settle(number, 0, DROPPED, CAUSE_CANCELLED, merged(list(found.values())))
            store.write()
        workers.run_all()
    finally:
        store.close()
    return Cancelled(len(found), [name for name in ids if name not in found])


def _waiting(store: FileStore) -> tuple[int, dict[int, LaneState]]:
    for state in store.recovered():
        if state.kind == QUEUE and state.name == SCHEDULE_QUEUE:
            return state.destination_id, {lane.priority: lane for lane in state.lanes}
    return 0, {}


def _waits(lanes: dict[int, LaneState], entry: Range) -> bool:
    """Say whether it is there still, now that nobody else writes."""
    lane = lanes.get(entry.priority)
    if lane is None or not lane.cursor <= entry.first < lane.tail:
        return False
    return not any(first <= entry.first < first + count for first, count in lane.settled)
