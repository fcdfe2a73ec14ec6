"""Commands that change a stopped store: rebuild its consume queues, cancel scheduled messages."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engine.features.scheduler.pending_schedules import merged
from engine.ports.clock import Clock
from engine.ports.timers import Timers, TimerTarget
from engine.ports.workers import Job, Workers
from engine.store.disk.files import Files, describe
from engine.store.file_store import FileStore
from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.log.store_directory import QUEUE_DIRECTORY, STORE_FILE, lock_directory
from engine.store.read.scheduled_messages import entries_of
from engine.store.settings import StoreSettings
from engine.values.destination import QUEUE, SCHEDULE_QUEUE
from engine.values.errors import NoStore, StoreError
from engine.values.message_keys import Keys
from engine.values.outcomes import CAUSE_CANCELLED, DROPPED
from engine.values.stored import LaneState, Range


class WorkersInTurn(Workers):
    """Runs jobs on request, in order."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job, lane: int) -> None:
        self._jobs.append(job)

    def run_all(self) -> bool:
        """Run all jobs, and those that they submit; return whether there were any."""
        had_any = bool(self._jobs)
        while self._jobs:
            job = self._jobs.popleft()
            job.run()
            job.finish()
        return had_any


class NoTimers(Timers):
    """Sets no timers: the store is closed before any could fire."""

    def call_at(self, when_ms: int, target: TimerTarget, key: int) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """records: number of records read from the log.  end: log offset."""

    records: int
    end: int


def rebuild(directory: str, files: Files, clock: Clock, settings: StoreSettings, keys: Keys) -> Rebuilt:
    """Rebuild the consume queues and the key index of a stopped store from its log.

    Raises: NoStore; StoreLocked while a gateway has it; StoreCorrupt, StoreError.
    """
    if not files.exists(f"{directory}/{STORE_FILE}"):
        raise NoStore(f"{directory} is not a store: it has no {STORE_FILE}")
    try:
        lock = lock_directory(files, directory)
        try:
            _remove_tree(files, f"{directory}/{INDEX_DIRECTORY}")
            _remove_tree(files, f"{directory}/{QUEUE_DIRECTORY}")
        finally:
            lock.close()
    except OSError as error:
        raise StoreError(describe(error, str(error.filename or directory))) from error
    workers = WorkersInTurn()
    store = FileStore(directory, files, workers, clock, NoTimers(), settings, keys=keys)
    workers.run_all()
    store.wind_down()
    store.catch_up_index()
    end = store.durable_offset()
    store.close()
    return Rebuilt(store.report.replayed_records, end)


def _remove_tree(files: Files, path: str) -> None:
    for name in files.list_directory(path):
        below = f"{path}/{name}"
        try:
            is_directory = bool(files.list_directory(below))
        except NotADirectoryError:
            is_directory = False
        if is_directory:
            _remove_tree(files, below)
            files.remove_directory(below)
        else:
            files.unlink(below)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """unknown: ids that name no scheduled message."""

    count: int
    unknown: list[str]


def cancel_scheduled(
    directory: str, ids: list[str], destination: str, files: Files, clock: Clock, settings: StoreSettings
) -> Cancelled:
    """Cancel scheduled messages by their ids, or all for ``destination``, a URI.

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
    """Say whether it is still there, now that no other process writes."""
    lane = lanes.get(entry.priority)
    if lane is None or not lane.cursor <= entry.first < lane.tail:
        return False
    return not any(first <= entry.first < first + count for first, count in lane.settled)
