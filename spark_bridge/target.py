"""The state of a target: manifests with exact ranges, and how files get in exactly once.

    LAKE/destination=.../date=.../<store>-<from>-<to>-<task>.parquet  what readers see; below LAKE/<table>/ if there are
                                                                  other tables than messages; without destination=...
                                                                  in a target by date
    LAKE/_delta_log/                                              the same for readers of Delta, one for each table
    LAKE/_penstock/manifest-<number>.json                         one for each committed range, in order
    LAKE/_penstock/staging/<number>-<token>                       an attempt at a range: see ``attempts``
    LAKE/_penstock/newest                                         where an export has ended: see ``newest``
    LAKE/_penstock/lock                                           in a directory: held by the running export

The manifest of its number commits a range, and is never replaced: of several exports at once one commits, the others
fail.  So readers never see a row of an uncommitted range.  When all files are in their places, the range is published
in the Delta log, in one commit.  A killed export leaves an attempt without a manifest, or one with a manifest.  The
next export publishes the latter.  It deletes the files of an attempt that no manifest can name any more: whoever holds
a directory knows that of all of them, in an object store it is so where another attempt has the manifest of the number.
Workers of a killed Spark may write on for a moment: the token keeps their files out of the next attempt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from spark_bridge.arrow.schema import MESSAGES, SCHEMAS
from spark_bridge.attempts import Attempt, attempts_of, number_of
from spark_bridge.delta.log import DeltaLog
from spark_bridge.errors import LakeError, TargetBusy, TargetError
from spark_bridge.files.choice import files_at
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.manifests import FOLDER, LakeFile, Manifest, read_manifest, table_folder
from spark_bridge.newest import Newest, read_newest, write_newest
from spark_bridge.partitioning import Partitioning

PLACED: Final = re.compile(r"(?:destination=[^/]*/)?date=[^/]*/[^/]*\.parquet")
MANIFEST: Final = re.compile(r"manifest-(\d{8})\.json")
GONE: Final = "{0} names {1}, which is not there; remove and merge files with a tool for Delta{2}"
MADE_AGAIN: Final = ", or delete _delta_log: the next export makes it from the files that are there"

WHOSE: Final = "{0} has {1}, but {2} no manifest of their export; allowed is a directory without a table"


class NextRange(NamedTuple):
    """number: of its manifest.  start: its first offset, None for the oldest kept.  partitioning: () for any."""

    number: int
    start: int | None
    tables: tuple[str, ...]
    partitioning: Partitioning


class Target:
    """A place of exports, held by one process at a time if it is a directory: see ``hold``."""

    def __init__(self, files: LakeFiles) -> None:
        self.files = files
        self._attempts = attempts_of(files)
        self._committing = ""  # the attempt whose manifest may be there, or come to be there
        self._known = 0  # the number of the last manifest that this object has seen
        self._newest: Newest | None = None
        self._logs: dict[str, DeltaLog] = {}

    @contextmanager
    def hold(self) -> Iterator[str]:
        """Keep every other export out where the lake can, and clean up after a killed one; yield the lake's token.

        Raises: TargetBusy if another export is at work here, TargetError if exports are not safe here; LakeError.
        """
        if self._known and self.files.status(_path(self._known)) is None:
            # A disk that is not mounted any more: nobody must begin anew in the empty folder below it.
            raise LakeError(f"{self.files.title} lacks what was exported before ({_path(self._known)})")
        with self.files.hold(FOLDER) as token:
            self._settle()
            self.files.narrow(FOLDER, self._exported)
            yield token

    def _exported(self) -> Iterator[str]:
        for number in self._numbers():
            with suppress(TargetError):
                yield from (file.path for file in self._numbered(number).files)

    def _settle(self) -> None:
        for name in self._attempts.names():
            manifest = self._manifest_at(number_of(name))
            if manifest is not None and manifest.staging == name:
                self._publish(manifest)
            elif manifest is not None or self._attempts.is_sole:
                self._attempts.discard(name)

    def manifests(self) -> list[Manifest]:
        """Return the committed ranges, in order.

        Raises: TargetError for a manifest that this program cannot read.
        """
        return [self._numbered(number) for number in self._numbers()]

    def last(self) -> Manifest | None:
        """Return the last committed range.  Raises: TargetError as ``manifests``."""
        if not self._known:
            noted = self._noted().manifest
            is_there = noted > 0 and self.files.status(_path(noted)) is not None
            self._known = noted if is_there else max(self._numbers(), default=0)
        while self._known and self.files.status(_path(self._known + 1)) is not None:
            self._known += 1  # not listed again: the names may be many
        return self._numbered(self._known) if self._known else None

    def _noted(self) -> Newest:
        if self._newest is None:
            self._newest = read_newest(self.files)
        return self._newest

    def _numbers(self) -> list[int]:
        found = map(MANIFEST.fullmatch, self.files.names(FOLDER))
        return sorted(int(name.group(1)) for name in found if name)

    def _numbered(self, number: int) -> Manifest:
        return read_manifest(self.files, _path(number))

    def _manifest_at(self, number: int) -> Manifest | None:
        with suppress(FileNotFoundError):
            return self._numbered(number)
        return None

    def lake_files(self, tables: Sequence[str], table: str) -> list[LakeFile]:
        """Return the files of a table, without lock: those in their places, and those that are being published.

        tables: those of the target.
        """
        folder = table_folder(tables, table)
        moving = self._moving()  # first, because files leave it
        log = DeltaLog(self.files, folder)
        snapshot = log.snapshot()
        found: dict[str, LakeFile] = {}
        for manifest in moving:
            # One that is published has its files in their places; others may have replaced them since.
            if snapshot is None or snapshot.published.get(manifest.store_id, -1) < manifest.to_offset:
                for file in manifest.files:
                    if _is_in(folder, file.path):
                        found[file.path] = LakeFile(file.path, file.bytes, manifest.staging)
        if snapshot is None:  # of an older build, or about to get its first commit
            for name in self._placed(folder):
                found.setdefault(name, LakeFile(name, self._size(name)))
            return [found[name] for name in sorted(found)]
        there = set(self.files.walk(folder))
        for path, size, destination in snapshot.files():
            name = f"{folder}/{path}".lstrip("/")
            if name not in found and name not in there:
                raise TargetError(GONE.format(log.title, path, MADE_AGAIN if self._attempts.is_sole else ""))
            found.setdefault(name, LakeFile(name, size, "", destination))
        return [found[name] for name in sorted(found)]

    def _size(self, path: str) -> int:
        status = self.files.status(path)
        return 0 if status is None else status.bytes

    def _placed(self, folder: str) -> list[str]:
        """Return what is in its place, of a table without a Delta log."""
        if self._attempts.is_sole:
            start = len(folder) + 1 if folder else 0
            return [path for path in self.files.walk(folder) if PLACED.fullmatch(path[start:])]
        # Among what is there may be files of attempts.
        return [file.path for one in self.manifests() for file in one.files if _is_in(folder, file.path)]

    def _moving(self) -> list[Manifest]:
        """Return the committed ranges that may not be published."""
        found = ((name, self._manifest_at(number_of(name))) for name in self._attempts.names())
        return [manifest for name, manifest in found if manifest is not None and manifest.staging == name]

    def next_range(
        self, store_id: str, destination: str, tables: tuple[str, ...] = (), partitioning: Partitioning = ()
    ) -> NextRange:
        """Return the range that an export adds.

        tables, partitioning: () for those of the target.
        Raises: TargetError if the target belongs to another store, or was begun with another choice.
        """
        last = self.last()
        if last is None:
            chosen = tables or (MESSAGES,)
            whose = self._rows_of_others(store_id, chosen)
            if not whose:
                return NextRange(1, None, chosen, partitioning)
            last = self.last()  # another export to an object store may have begun it meanwhile
            if last is None:
                raise TargetError(whose)
        if last.store_id != store_id:
            raise TargetError(
                f"{self.files.title} holds an export of store {last.store_id}, this is store {store_id}; "
                f"each store needs a directory of its own"
            )
        if last.destination != destination:
            raise TargetError(
                f"{self.files.title} holds an export of destination {last.destination!r}, not {destination!r}; "
                f"each choice of destinations needs a directory of its own"
            )
        if tables and tables != last.tables:
            raise TargetError(
                f"{self.files.title} holds the tables {', '.join(last.tables)}, not {', '.join(tables)}; "
                f"each choice of tables needs a directory of its own"
            )
        if partitioning and partitioning != last.partitioning:
            raise TargetError(
                f"{self.files.title} is partitioned by {', '.join(last.partitioning)}, not by "
                f"{', '.join(partitioning)}; each partitioning needs a directory of its own"
            )
        self._check_delta(store_id, last.tables)
        return NextRange(last.number + 1, last.to_offset, last.tables, last.partitioning)

    def _rows_of_others(self, store_id: str, tables: tuple[str, ...]) -> str:
        """Say whether a new target has rows already, "" if not: they would be twice, or hide those of the export."""
        for folder in (table_folder(tables, table) for table in tables):
            log = self._log(folder)
            if log.head(store_id).version >= 0:
                return WHOSE.format(log.title, "commits", self.files.title)
            if placed := self._placed(folder):
                return WHOSE.format(self.files.title, placed[0], self.files.title)
        return ""

    def log_per_byte(self) -> float:
        """Return the octets of log for each octet of the files of the last export, 1 without one."""
        last = self.last()
        return (last.to_offset - last.from_offset) / last.bytes if last is not None and last.bytes else 1.0

    def _check_delta(self, store_id: str, tables: tuple[str, ...]) -> None:
        """Raise TargetError now if the next range could not be published."""
        for table in tables:
            self._log(table_folder(tables, table)).head(store_id)

    def _log(self, folder: str) -> DeltaLog:
        if folder not in self._logs:
            self._logs[folder] = DeltaLog(self.files, folder, self._noted().commits.get(folder, -1))
        return self._logs[folder]

    @contextmanager
    def attempt(self, number: int) -> Iterator[Attempt]:
        """Yield a new attempt at a range, for ``commit``.  If it fails before, its files are deleted."""
        attempt = self._attempts.begin(number)
        self._committing = ""
        try:
            yield attempt
        finally:
            if self._committing != attempt.name:
                with suppress(LakeError):  # the next export deletes them
                    self._attempts.give_up(attempt.name)

    def commit(self, manifest: Manifest) -> str:
        """Make the files of ``manifest``, whose attempt is complete, part of the target; return its path.

        Raises: TargetBusy if another export has committed a range of this number; LakeError.
        """
        self._attempts.seal(manifest.staging)
        path = _path(manifest.number)
        told = asdict(manifest) | {"rows": manifest.rows, "bytes": manifest.bytes}
        self._committing = manifest.staging
        if not self.files.write_if_absent(path, f"{json.dumps(told, indent=1)}\n".encode()):
            self._committing = ""
            raise TargetBusy(f"another export has written to {self.files.title} meanwhile; this one has added nothing")
        self._known = manifest.number
        self._publish(manifest)
        write_newest(self.files, Newest(manifest.number, {folder: log.ours for folder, log in self._logs.items()}))
        return f"{self.files.title}/{path}"

    def _publish(self, manifest: Manifest) -> None:
        self._attempts.place(manifest.staging, [file.path for file in manifest.files])
        for table in manifest.tables:
            self._publish_table(manifest, table)
        self._attempts.end(manifest.staging)

    def _publish_table(self, manifest: Manifest, table: str) -> None:
        """Publish a range in the table's Delta log, with those that are not in it yet.

        Raises: TargetError.
        """
        folder = table_folder(manifest.tables, table)
        log = self._log(folder)
        head = log.head(manifest.store_id)
        if head.published_to is None:  # a new target, or one of an older build, whose files others may have merged
            paths = self._placed(folder)
        else:
            earlier = 0 if manifest.number == 1 else self._numbered(manifest.number - 1).to_offset
            ranges = [manifest]
            if earlier > head.published_to:
                ranges = [one for one in self.manifests() if one.to_offset > head.published_to]
            paths = [file.path for one in ranges for file in one.files if _is_in(folder, file.path)]
        inside = [path[len(folder) :].lstrip("/") for path in paths]
        schema = pa.schema(sorted(SCHEMAS[table], key=lambda column: column.name not in manifest.partitioning))
        to_offset, now_ms = manifest.to_offset, manifest.created_ms
        log.publish(head, manifest.store_id, table, schema, manifest.partitioning, inside, to_offset, now_ms)


def target_at(place: str | Path) -> Target:
    """Raises: TargetError for a URL of another kind."""
    return Target(files_at(place))


def _path(number: int) -> str:
    return f"{FOLDER}/manifest-{number:08}.json"


def _is_in(folder: str, path: str) -> bool:
    return not folder or path.startswith(f"{folder}/")
