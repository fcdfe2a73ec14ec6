"""Consume queues and key index of a stopped store, made again from its log."""

from __future__ import annotations

from dataclasses import dataclass

from engine.ports.clock import Clock
from engine.store.disk.files import Files, describe
from engine.store.file_store import FileStore
from engine.store.index.index_file import INDEX_DIRECTORY
from engine.store.log.store_directory import QUEUE_DIRECTORY, STORE_FILE, lock_directory
from engine.store.offline.stopped_store import NoTimers, WorkersInTurn
from engine.store.settings import StoreSettings
from engine.values.errors import StoreError
from engine.values.message_keys import Keys


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """records: of the log that were gone through.  end: log offset."""

    records: int
    end: int


def rebuild(directory: str, files: Files, clock: Clock, settings: StoreSettings, keys: Keys) -> Rebuilt:
    """Raises: StoreLocked while a gateway has it; StoreCorrupt, StoreError."""
    if not files.exists(f"{directory}/{STORE_FILE}"):
        raise StoreError(f"{directory} is not a store: it has no {STORE_FILE}")
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
