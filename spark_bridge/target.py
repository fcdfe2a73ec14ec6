"""The state of a target directory: manifests with exact ranges, and how files get in exactly once.

    DIR/destination=.../date=.../<store>-<from>-<to>-<task>.parquet   what readers see; below DIR/<table>/ if there are
                                                                  other tables than messages
    DIR/_delta_log/                                               the same for readers of Delta, one for each table
    DIR/_penstock/manifest-<number>.json                          one for each committed range, in order
    DIR/_penstock/staging/<number>-<token>/                       files of a range that is not committed yet
    DIR/_penstock/lock                                            held by the running export

The rename of its manifest commits a range, before its files leave the staging directory.  So readers never see a row
of an uncommitted range.  When all files are in their places, the range is published in the Delta log, in one commit.
A killed export leaves a staging directory without a manifest, or one with a manifest.  The next export first deletes
the former and exports the range again, or moves the remaining files of the latter and publishes them.  Workers of a
killed Spark may write on for a moment: the token keeps their files out of the next attempt, and only files in a
manifest move.  Directories and files get the modes of the store's, as they hold the same bodies; a target that exists
keeps its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pyarrow as pa

from engine.store.disk.modes import is_wider, make_directory, narrow, open_as_store
from spark_bridge.arrow.schema import MESSAGES, SCHEMAS
from spark_bridge.delta.added_file import PARTITION_COLUMNS
from spark_bridge.delta.log import DeltaLog
from spark_bridge.errors import TargetError
from spark_bridge.manifests import FOLDER, STAGING, LakeFile, Manifest, read_manifest, table_folder

SYNCS_AT_ONCE: Final = 32
PUBLISHED: Final = "destination=*/date=*/*.parquet"
GONE: Final = (
    "{0} names {1}, which is not there; remove and merge files with a tool for Delta, or delete _delta_log: "
    "the next export makes it from the files that are there"
)
MANIFEST: Final = re.compile(r"manifest-(\d{8})\.json")


class Target:
    """A directory of exports, held by one process at a time: see ``hold``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._folder = directory / FOLDER
        self._staging = self._folder / STAGING

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep every other export out, and clean up after a killed one.

        Raises: TargetError if another export is at work here.
        """
        make_directory(str(self._folder))
        with open(self._folder / "lock", "a+b", opener=open_as_store) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TargetError(f"another export is writing to {self.directory}") from None
            self._settle()
            if is_wider(str(self._folder)):
                self._narrow()
            yield

    def _narrow(self) -> None:
        """Narrow what an older build made readable for everybody; the directory of the target is its owner's."""
        places: dict[Path, None] = {}
        for path in self._paths():
            with suppress(TargetError):
                for file in read_manifest(path).files:
                    place = self.directory / file.path
                    parents = (one for one in place.parents if self.directory in one.parents)
                    places |= dict.fromkeys([place, *parents])
        for one in places:
            with suppress(FileNotFoundError):  # the owner may have moved it
                narrow(str(one))
        narrow(str(self._folder))  # last: until then the next export would go on

    def _settle(self) -> None:
        for path in self._folder.glob("*.tmp"):
            path.unlink()
        if self._staging.exists():
            for path in sorted(self._staging.iterdir()):
                manifest = self._manifest_of(path.name)
                if manifest is not None:
                    self._move(manifest)
                else:
                    shutil.rmtree(path, ignore_errors=True)

    def _manifest_of(self, staging: str) -> Manifest | None:
        """Return the manifest that committed the files of a staging directory, None without one."""
        path = self._folder / f"manifest-{staging[:8]}.json"
        if not path.exists():
            return None
        manifest = read_manifest(path)
        return manifest if manifest.staging == staging else None

    def manifests(self) -> list[Manifest]:
        """Return the committed ranges, in order.

        Raises: TargetError for a manifest that this program cannot read.
        """
        return [read_manifest(path) for path in self._paths()]

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("manifest-*.json") if MANIFEST.fullmatch(path.name))

    def last(self) -> Manifest | None:
        """Return the last committed range.  Raises: TargetError as ``manifests``."""
        paths = self._paths()
        return read_manifest(paths[-1]) if paths else None

    def files(self, tables: Sequence[str], table: str) -> list[LakeFile]:
        """Return the files of a table, without lock: those in their places, and those of ranges that are being moved.

        tables: those of the directory.
        """
        folder = table_folder(tables, table)
        moving = self._moving()  # first, because files leave it
        snapshot = DeltaLog(self.directory / folder).snapshot()
        found: dict[str, LakeFile] = {}
        for manifest in moving:
            # One that is published has its files in their places; others may have replaced them since.
            if snapshot is None or snapshot.published.get(manifest.store_id, -1) < manifest.to_offset:
                for file in manifest.files:
                    if not folder or file.path.startswith(f"{folder}/"):
                        found[file.path] = LakeFile(file.path, file.bytes, manifest.staging)
        if snapshot is not None:
            for path, size, destination in snapshot.files():
                name = f"{folder}/{path}".lstrip("/")
                if name not in found and not (self.directory / name).exists():
                    raise TargetError(GONE.format(f"{self.directory / folder}/_delta_log", path))
                found.setdefault(name, LakeFile(name, size, "", destination))
        else:  # of an older build
            for name in self._places(folder):
                found.setdefault(name, LakeFile(name, (self.directory / name).stat().st_size))
        return [found[name] for name in sorted(found)]

    def _places(self, folder: str) -> list[str]:
        """Return what is in its place, of a table without a Delta log."""
        return [str(place.relative_to(self.directory)) for place in sorted((self.directory / folder).glob(PUBLISHED))]

    def _moving(self) -> list[Manifest]:
        """Return the committed ranges whose files may not have left the staging directory."""
        staged = sorted(self._staging.iterdir()) if self._staging.exists() else []
        return [manifest for manifest in map(self._manifest_of, (path.name for path in staged)) if manifest is not None]

    def next_range(
        self, store_id: str, destination: str, tables: tuple[str, ...] = ()
    ) -> tuple[int, int | None, tuple[str, ...]]:
        """Return the number of the next manifest, its first offset (None for the oldest kept) and its tables.

        tables: () for those of the directory.
        Raises: TargetError if the directory belongs to another store or another choice of destinations or tables.
        """
        last = self.last()
        if last is None:
            chosen = tables or (MESSAGES,)
            self._check_delta(store_id, chosen)
            return 1, None, chosen
        if last.store_id != store_id:
            raise TargetError(
                f"{self.directory} holds an export of store {last.store_id}, this is store {store_id}; "
                f"each store needs a directory of its own"
            )
        if last.destination != destination:
            raise TargetError(
                f"{self.directory} holds an export of destination {last.destination!r}, not {destination!r}; "
                f"each choice of destinations needs a directory of its own"
            )
        if tables and tables != last.tables:
            raise TargetError(
                f"{self.directory} holds the tables {', '.join(last.tables)}, not {', '.join(tables)}; "
                f"each choice of tables needs a directory of its own"
            )
        self._check_delta(store_id, last.tables)
        return last.number + 1, last.to_offset, last.tables

    def _check_delta(self, store_id: str, tables: tuple[str, ...]) -> None:
        """Raise TargetError now if the next range could not be published."""
        for table in tables:
            DeltaLog(self.directory / table_folder(tables, table)).published_to(store_id)

    def staging(self, number: int) -> Path:
        """Return a new directory whose files ``commit`` will move: paths in it are paths in the target."""
        path = self._staging / f"{number:08}-{secrets.token_hex(4)}"
        make_directory(str(path))
        return path

    def commit(self, manifest: Manifest) -> Path:
        """Make the files of ``manifest``, synced and in its staging directory, part of the target; return its path."""
        _sync_all(Path(folder) for folder, _, _ in os.walk(self._staging / manifest.staging))
        path = self._folder / f"manifest-{manifest.number:08}.json"
        temporary = path.with_suffix(".tmp")
        with open(temporary, "w", encoding="utf-8", opener=open_as_store) as output:
            json.dump(asdict(manifest) | {"rows": manifest.rows, "bytes": manifest.bytes}, output, indent=1)
            output.write("\n")
            output.flush()
            os.fsync(output.fileno())
        os.rename(temporary, path)
        _sync(self._folder)
        self._move(manifest)
        return path

    def _move(self, manifest: Manifest) -> None:
        staging = self._staging / manifest.staging
        touched = {self.directory}
        for file in manifest.files:
            staged, place = staging / file.path, self.directory / file.path
            if staged.exists():  # otherwise an earlier attempt has moved it
                make_directory(str(place.parent))
                os.rename(staged, place)
                touched.update(parent for parent in place.parents if parent.is_relative_to(self.directory))
        _sync_all(touched)
        for table in manifest.tables:
            self._publish(manifest, table)
        shutil.rmtree(staging, ignore_errors=True)

    def _publish(self, manifest: Manifest, table: str) -> None:
        """Publish a range in the table's Delta log, with those that are not in it yet.

        Raises: TargetError.
        """
        folder = table_folder(manifest.tables, table)
        log = DeltaLog(self.directory / folder)
        published_to = log.published_to(manifest.store_id)
        if published_to is None:  # a new directory, or one of an older build, whose files others may have merged
            paths = self._places(folder)
        else:
            earlier = 0 if manifest.number == 1 else self._numbered(manifest.number - 1).to_offset
            ranges = [manifest]
            if earlier > published_to:
                ranges = [one for one in self.manifests() if one.to_offset > published_to]
            paths = [file.path for one in ranges for file in one.files]
        inside = [path.removeprefix(f"{folder}/") for path in paths if not folder or path.startswith(f"{folder}/")]
        columns = pa.schema([column for column in SCHEMAS[table] if column.name not in PARTITION_COLUMNS])
        schema = pa.schema([*(SCHEMAS[table].field(name) for name in PARTITION_COLUMNS), *columns])
        log.publish(manifest.store_id, table, schema, inside, manifest.to_offset, manifest.created_ms)

    def _numbered(self, number: int) -> Manifest:
        return read_manifest(self._folder / f"manifest-{number:08}.json")


def _sync_all(folders: Iterable[Path]) -> None:
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as threads:  # a disk syncs several in the time of one
        list(threads.map(_sync, folders))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
