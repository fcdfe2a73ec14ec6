"""The state of a target directory: manifests with exact ranges, and how files get in exactly once.

    DIR/destination=.../date=.../<store>-<from>-<to>-<task>.parquet   what readers see; below DIR/<table>/ if there are
                                                                  other tables than messages
    DIR/_penstock/manifest-<number>.json                          one for each committed range, in order
    DIR/_penstock/staging/<number>-<token>/                       files of a range that is not committed yet
    DIR/_penstock/lock                                            held by the running export

The rename of its manifest commits a range, before its files leave the staging directory.  So readers never see a row
of an uncommitted range.  A killed export leaves a staging directory without a manifest, or one with a manifest.  The
next export first deletes the former and exports the range again, or moves the remaining files of the latter.  Workers
of a killed Spark may write on for a moment: the token keeps their files out of the next attempt, and only files in a
manifest move.  Directories and files get the modes of the store's, as they hold the same bodies; a target that
exists keeps its own.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

from engine.store.disk.modes import is_wider, make_directory, narrow, open_as_store
from engine.values.errors import PenstockError, StoreError
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.log.lost import Damaged
from spark_bridge.log.removed import Removed

FORMAT: Final = 1
SYNCS_AT_ONCE: Final = 32
STAGING: Final = "staging"
FOLDER: Final = "_penstock"  # Spark and Arrow skip names that begin with an underscore
PUBLISHED: Final = "destination=*/date=*/*.parquet"
MANIFEST: Final = re.compile(r"manifest-(\d{8})\.json")


class TargetError(PenstockError):
    """This export may not add to the target directory; the text says why."""

    condition: ClassVar[str] = "invalid-target"
    scope: ClassVar[str] = "request"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """``path`` is relative to the target directory."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A committed file.  staging: name of the directory that it may not have left yet, "" if it has."""

    path: str
    bytes: int
    staging: str = ""

    def open(self, directory: Path) -> BinaryIO:
        """Open the file in a target directory.  Raises: FileNotFoundError if somebody has removed it."""
        if self.staging:
            # An export moves the file only from here to its place.
            with suppress(FileNotFoundError):
                return open(directory / FOLDER / STAGING / self.staging / self.path, "rb")
        return open(directory / self.path, "rb")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One committed range: every row of ``tables`` and ``destination`` from ``from_offset`` up to below ``to_offset``.

    to_time_ms: store time of the last readable record.  gone_offset: where the range would have begun without the drops
    of retention; normally the same as ``from_offset``.  staging: name of the directory from which the files move.
    gone: ranges that retention dropped during the export.
    """

    number: int
    store_id: str
    destination: str
    from_offset: int
    to_offset: int
    to_time_ms: int
    gone_offset: int
    created_ms: int
    staging: str
    files: tuple[ExportedFile, ...]
    removed: tuple[Removed, ...] = ()
    gone: tuple[tuple[int, int], ...] = ()
    damaged: tuple[Damaged, ...] = ()
    tables: tuple[str, ...] = (MESSAGES,)
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for file in self.files)

    def rows_by_table(self) -> dict[str, int]:
        """Return the rows of each table."""
        if len(self.tables) == 1:
            return {self.tables[0]: self.rows}
        return {
            table: sum(file.rows for file in self.files if file.path.startswith(f"{table}/")) for table in self.tables
        }

    @property
    def bytes(self) -> int:
        """Octets in all files."""
        return sum(file.bytes for file in self.files)


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
                for file in _manifest(path).files:
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
        manifest = _manifest(path)
        return manifest if manifest.staging == staging else None

    def manifests(self) -> list[Manifest]:
        """Return the committed ranges, in order.

        Raises: TargetError for a manifest that this program cannot read.
        """
        return [_manifest(path) for path in self._paths()]

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("manifest-*.json") if MANIFEST.fullmatch(path.name))

    def last(self) -> Manifest | None:
        """Return the last committed range.  Raises: TargetError as ``manifests``."""
        paths = self._paths()
        return _manifest(paths[-1]) if paths else None

    def files(self, tables: Sequence[str], table: str) -> list[LakeFile]:
        """Return the files of a table, without lock: those in their places, and those of ranges that are being moved.

        tables: those of the directory.
        """
        folder = table_folder(tables, table)
        found: dict[str, LakeFile] = {}
        # First, because files leave it.
        for staging in sorted(self._staging.iterdir()) if self._staging.exists() else ():
            manifest = self._manifest_of(staging.name)
            for file in () if manifest is None else manifest.files:
                if not folder or file.path.startswith(f"{folder}/"):
                    found[file.path] = LakeFile(file.path, file.bytes, staging.name)
        for path in (self.directory / folder).glob(PUBLISHED):
            name = str(path.relative_to(self.directory))
            if name not in found:
                found[name] = LakeFile(name, path.stat().st_size)
        return [found[name] for name in sorted(found)]

    def next_range(
        self, store_id: str, destination: str, tables: tuple[str, ...] = ()
    ) -> tuple[int, int | None, tuple[str, ...]]:
        """Return the number of the next manifest, its first offset (None for the oldest kept) and its tables.

        tables: () for those of the directory.
        Raises: TargetError if the directory belongs to another store or another choice of destinations or tables.
        """
        last = self.last()
        if last is None:
            return 1, None, tables or (MESSAGES,)
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
        return last.number + 1, last.to_offset, last.tables

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
        shutil.rmtree(staging, ignore_errors=True)


def table_folder(tables: Sequence[str], table: str) -> str:
    """Return the path of a table in the target; messages alone have no folder of their own."""
    return "" if tuple(tables) == (MESSAGES,) else table


def _manifest(path: Path) -> Manifest:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        if read["format"] != FORMAT:
            raise TargetError(f"{path} has format {read['format']}, this program reads {FORMAT}")
        files = tuple(ExportedFile(file["path"], file["rows"], file["bytes"]) for file in read["files"])
        return Manifest(
            read["number"],
            read["store_id"],
            read["destination"],
            read["from_offset"],
            read["to_offset"],
            read["to_time_ms"],
            read["gone_offset"],
            read["created_ms"],
            read["staging"],
            files,
            tuple(Removed(**each) for each in read.get("removed", [])),
            tuple((first, end) for first, end in read.get("gone", [])),
            tuple(Damaged(**each) for each in read.get("damaged", [])),
            tuple(read.get("tables", [MESSAGES])),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TargetError(f"{path} is not a manifest: {error!r}") from None


def _sync_all(folders: Iterable[Path]) -> None:
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as threads:  # a disk syncs several in the time of one
        list(threads.map(_sync, folders))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_continues(start: int, end: int) -> None:
    """Raise StoreError if the store ends before the exported offset, because an older copy was restored."""
    if start > end:
        raise StoreError(
            f"this directory holds the store up to log offset {start}, but the store ends at {end}: "
            f"it is an older copy; export it to another directory"
        )
