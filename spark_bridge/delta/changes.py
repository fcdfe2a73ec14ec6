"""What has happened in a Delta log since a follower of it noted a mark: ``<version> <CRC-32 of that commit>``.

The checksum tells a log that was made anew from the one that was followed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from spark_bridge.delta.added_file import Action
from spark_bridge.delta.log import DeltaLog, Snapshot


@dataclass(frozen=True, slots=True)
class Changes:
    """mark: to note.  is_whole: ``added`` are all files of the table; else only new ones, and none has gone."""

    mark: str
    is_whole: bool
    added: list[Action]


def changes_since(log: DeltaLog, mark: str) -> Changes | None:
    """Return what to do, None without a log.

    Reads the commits from the mark on.  Only where one of them removes files, or the mark is of no commit of this log,
    is the whole log read.
    Raises: TargetError.
    """
    return _new_files(log, mark) or _all_files(log)


def _new_files(log: DeltaLog, mark: str) -> Changes | None:
    number, _, digest = mark.partition(" ")
    version = int(number) if number.isdecimal() else -1
    octets = log.octets(version) if version >= 0 else None
    if octets is None or _digest(octets) != digest:
        return None
    found = Snapshot()
    while (following := log.octets(version + 1)) is not None:
        version, octets = version + 1, following
        actions = log.actions(version, octets)
        if any("remove" in action for action in actions):
            return None
        found.take(actions)
    return Changes(f"{version} {_digest(octets)}", False, list(found.added.values()))


def _all_files(log: DeltaLog) -> Changes | None:
    found = log.snapshot()
    if found is None:
        return None
    octets = log.octets(found.version)  # others delete old commits
    digest = "" if octets is None else _digest(octets)
    return Changes(f"{found.version} {digest}", True, list(found.added.values()))


def _digest(octets: bytes) -> str:
    return f"{zlib.crc32(octets):08x}"
