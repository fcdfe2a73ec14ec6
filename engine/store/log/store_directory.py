"""The directory of a store: its lock, its id, and what opening it has found."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from engine.store.disk.files import File, Files, read_file, read_fully, write_fully
from engine.store.format import layout
from engine.store.format.file_heads import is_known_version, other_version
from engine.store.log.segment import SUFFIX, load_segment
from engine.values.errors import StoreCorrupt, StoreLocked

LOCK_FILE = "lock"
STORE_FILE = "store.json"
LOG_DIRECTORY = "commitlog"
QUEUE_DIRECTORY = "consumequeue"

PID_DIGITS_MAX = 20


def lock_directory(files: Files, directory: str) -> File:
    """Make the directory if needed and lock it until the returned file is closed.

    Raises: StoreLocked with the holder's pid.
    """
    files.make_directory(directory)
    path = f"{directory}/{LOCK_FILE}"
    lock = files.lock(path)
    if lock is None:
        pid = read_file(files, path, PID_DIGITS_MAX).decode("ascii", "replace").strip()
        raise StoreLocked(f"{directory} is in use by process {pid or 'unknown'}, which holds {path}")
    try:
        lock.truncate(0)
        write_fully(lock, f"{files.process_id()}\n".encode("ascii"), 0)
    except OSError:
        lock.close()
        raise
    return lock


def open_store_file(files: Files, directory: str, now_ms: int) -> str:
    """Return the store's id; a new store gets one, and its directories.

    Raises: StoreCorrupt for a store of another version.
    """
    for name in (LOG_DIRECTORY, QUEUE_DIRECTORY):
        files.make_directory(f"{directory}/{name}")
    path = f"{directory}/{STORE_FILE}"
    if files.exists(path):
        return read_store_id(files, directory)
    store_id = _id_in_segments(files, f"{directory}/{LOG_DIRECTORY}") or files.random_bytes(4).hex()
    described = {"format": layout.FORMAT_VERSION, "store_id": store_id, "created_ms": now_ms}
    file = files.create(path + ".new")
    try:
        write_fully(file, json.dumps(described).encode() + b"\n", 0)
        file.fsync()
    finally:
        file.close()
    files.rename(path + ".new", path)
    files.sync_directory(directory)
    files.sync_directory(directory.rpartition("/")[0] or ("/" if directory.startswith("/") else "."))
    return store_id


def read_store_id(files: Files, directory: str) -> str:
    """Return the id of the store in ``directory``.

    Raises: StoreCorrupt for a store of another version, OSError if there is none.
    """
    path = f"{directory}/{STORE_FILE}"
    file = files.open_to_read(path)
    try:
        octets = read_fully(file, file.size(), 0)
    finally:
        file.close()
    try:
        described = json.loads(octets)
        version = described["format"]
        store_id = str(described["store_id"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreCorrupt(
            f"{path} cannot be read ({error}); move it away and the next start makes it again from the segments"
        ) from None
    if not is_known_version(version):
        raise other_version(path, -1, version)
    return store_id


def _id_in_segments(files: Files, directory: str) -> str:
    """Return the store id in the segments, for a store that has lost its describing file; "" if there are none."""
    for name in files.list_directory(directory):
        if name.endswith(SUFFIX):
            return load_segment(files, directory, name)[1]
    return ""


@dataclass(frozen=True, slots=True)
class LogRange:
    """A place in the log: from ``offset`` to ``end``, at ``position`` of the file ``path``, and what is wrong there."""

    offset: int
    end: int
    path: str
    position: int
    reason: str


@dataclass(slots=True)
class RecoveryReport:
    """What opening a store has found.

    is_clean: the store was closed properly.  replayed_from, replayed_to: the tail, as log offsets.
    rebuilt: why the consume queues, or entries of them, were rebuilt from the log, "" if they were not.
    cut: the torn end that was cut off, None if the log ended with a whole record.
    skipped: ranges lost to corruption and skipped, as the operator has allowed.
    """

    is_clean: bool = False
    is_new: bool = False
    replayed_from: int = 0
    replayed_to: int = 0
    replayed_records: int = 0
    rebuilt: str = ""
    cut: LogRange | None = None
    skipped: list[LogRange] = field(default_factory=list)
