"""Lets a reader keep what it is about to read: a small file in the store's directory, valid until a deadline.

``readers/<hash of the reader and its key>.json`` says from which log offset on segments must stay as they are, and
until when.  The reader writes the whole file under another name, renames it, and only then decides what to read.  The
gateway reads the files right before it drops or thins a segment.  The lease of a killed reader remains and ends at its
deadline.  Where a gateway writes the file for a reader elsewhere, ``holder`` and ``since_ms`` say whose lease it is and
when it began, so that a restarted gateway can go on with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from engine.store.disk.files import Files, read_fully
from engine.store.disk.modes import DIRECTORY_MODE, narrow, open_as_store

FOLDER: Final = "readers"
FORMAT: Final = 1
SIZE_MAX: Final = 1 << 16  # of one file
READER_CHARACTERS: Final = 200  # of the name of a stream, and of any reader elsewhere
HASH_CHARACTERS: Final = 16  # of the hash in a name that is longer
# Over HTTP, of the request that begins a lease or renews it.
LEASE_LEAST_MS: Final = 1_000
LEASE_MOST_MS: Final = 60_000  # a reader that is gone holds the log no longer
KEPT_S: Final = 30 * 24 * 3_600  # a file of a killed reader: longer than any lease, whoever's clock is wrong


@dataclass(frozen=True, slots=True)
class Lease:
    """``reader`` keeps everything at ``from_offset`` and above until ``until_ms``, wall clock."""

    reader: str
    from_offset: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class ServedLease:
    """That of a reader elsewhere.  name: of its file.  since_ms: when it began, wall clock."""

    name: str
    holder: str
    lease: Lease
    since_ms: int


def reader_elsewhere(name: str) -> str:
    """Return the name that a reader elsewhere has at a gateway: of a long one its end, which tells people most.

    A hash of the whole goes before that, so that two long names remain two readers.
    """
    if len(name) <= READER_CHARACTERS:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:HASH_CHARACTERS]
    return f"{digest}...{name[len(digest) + 3 - READER_CHARACTERS :]}"


def write_lease(data: Path, store_id: str, lease: Lease, now_ms: int, key: str = "") -> None:
    """Ask the gateway of ``data`` to keep segments; a lease of the same reader and key is replaced.

    key: tells readers of one name apart that may read at the same time.
    Raises: OSError if the store's directory cannot be written to.
    """
    _write(data, lease_name(lease.reader, key), _described(store_id, lease, now_ms))


def write_served_lease(data: Path, store_id: str, served: ServedLease, now_ms: int) -> None:
    """Do the same for a reader elsewhere."""
    more = {"holder": served.holder, "since_ms": served.since_ms}
    _write(data, served.name, _described(store_id, served.lease, now_ms) | more)


def _described(store_id: str, lease: Lease, now_ms: int) -> dict[str, object]:
    return {
        "format": FORMAT,
        "store_id": store_id,
        "reader": lease.reader,
        "from_offset": lease.from_offset,
        "written_ms": now_ms,
        "until_ms": lease.until_ms,
    }


def _write(data: Path, name: str, described: dict[str, object]) -> None:
    folder = data / FOLDER
    folder.mkdir(DIRECTORY_MODE, exist_ok=True)
    narrow(str(folder))
    path = folder / name
    temporary = path.with_name(f"{path.stem}.{token_hex(8)}.tmp")
    with open(temporary, "w", encoding="utf-8", opener=open_as_store) as file:
        file.write(json.dumps(described) + "\n")
    os.rename(temporary, path)
    _remove_old(folder, path.stat().st_mtime)


def _remove_old(folder: Path, now_s: float) -> None:
    """Remove the files of readers that were killed long ago.  now_s: by the clock that dates files."""
    for path in folder.iterdir():
        try:
            if now_s - path.stat().st_mtime > KEPT_S:
                path.unlink()
        except OSError:
            pass  # it has ended, or is another user's


def end_lease(data: Path, reader: str, key: str = "") -> None:
    """Release the segments.  If that fails, the lease ends at its deadline."""
    remove_lease(data, lease_name(reader, key))


def remove_lease(data: Path, name: str) -> None:
    """Do the same by the name of the file."""
    try:
        (data / FOLDER / name).unlink(missing_ok=True)
    except OSError:
        pass


def lease_name(reader: str, key: str = "") -> str:
    """Return the name of a lease's file, which tells nobody the key."""
    return f"{sha256((reader + key).encode()).hexdigest()[:16]}.json"


def served_leases(data: Path, store_id: str) -> list[ServedLease]:
    """Return the leases of readers elsewhere whose files are there, also those that are over.  Raises: OSError."""
    found = []
    for path in sorted((data / FOLDER).glob("*.json")):
        try:
            described = json.loads(path.read_bytes())
            lease, _ = _parsed(described, store_id)
            found.append(ServedLease(path.name, str(described["holder"]), lease, int(described["since_ms"])))
        except (FileNotFoundError, PermissionError, KeyError, TypeError, ValueError):
            continue  # it has ended, or is none of these
    return found


def read_leases(files: Files, directory: str, store_id: str, now_ms: int, max_ms: int) -> list[Lease]:
    """Return the valid leases.

    max_ms: a lease is valid for at most this long after it was written, whatever it says; nor is it valid if its time
    of writing is further than this in the future.  Invalid and unreadable files are ignored.
    Raises: OSError.
    """
    found: list[Lease] = []
    for name in files.list_directory(f"{directory}/{FOLDER}"):
        if not name.endswith(".json"):
            continue
        try:
            file = files.open_to_read(f"{directory}/{FOLDER}/{name}")
        except (FileNotFoundError, PermissionError):
            continue  # it has ended
        try:
            octets = read_fully(file, min(file.size(), SIZE_MAX), 0)
        finally:
            file.close()
        try:
            lease, written_ms = _parsed(json.loads(octets), store_id)
        except (KeyError, TypeError, ValueError):
            continue
        lease = replace(lease, until_ms=min(lease.until_ms, written_ms + max_ms))
        if now_ms < lease.until_ms and written_ms <= now_ms + max_ms:
            found.append(lease)
    return found


def _parsed(described: Any, store_id: str) -> tuple[Lease, int]:
    """Return a lease and when it was written.  Raises: KeyError, TypeError, ValueError for what is none."""
    if described["format"] != FORMAT or described["store_id"] != store_id:
        raise ValueError("a lease of another format or store")
    lease = Lease(str(described["reader"]), int(described["from_offset"]), int(described["until_ms"]))
    return lease, int(described["written_ms"])


def leased(leases: Iterable[Lease], end: int) -> Lease | None:
    """Return the lease that keeps what is below log offset ``end`` longest, None if there is none."""
    return max((lease for lease in leases if lease.from_offset < end), key=lambda lease: lease.until_ms, default=None)
