"""What an export has written: its committed ranges, and the files of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from engine.values.errors import StoreError
from spark_bridge.arrow.schema import MESSAGES
from spark_bridge.errors import TargetError
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.log.lost import Damaged
from spark_bridge.log.removed import Removed
from spark_bridge.partitioning import BY_DESTINATION, Partitioning

FORMAT: Final = 1
STAGING: Final = "staging"
FOLDER: Final = "_penstock"  # Spark and Arrow skip names that begin with an underscore


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """``path`` is relative to the target directory."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A committed file.

    staging: name of the directory that it may not have left yet, "" if it has.  destination: of all its rows, "" where
    only the name of its directory tells it.
    """

    path: str
    bytes: int
    staging: str = ""
    destination: str = ""

    def open(self, files: LakeFiles) -> pa.NativeFile:
        """Open the file.  Raises: FileNotFoundError if somebody has removed it."""
        if self.staging:
            # An export moves the file only from here to its place.
            with suppress(FileNotFoundError):
                return files.open(f"{FOLDER}/{STAGING}/{self.staging}/{self.path}")
        return files.open(self.path)


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
    partitioning: Partitioning = BY_DESTINATION
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


def table_folder(tables: Sequence[str], table: str) -> str:
    """Return the path of a table in the target; messages alone have no folder of their own."""
    return "" if tuple(tables) == (MESSAGES,) else table


def read_manifest(from_files: LakeFiles, path: str) -> Manifest:
    """Raises: TargetError; FileNotFoundError."""
    title = f"{from_files.title}/{path}"
    try:
        read = json.loads(from_files.read(path))
        if read["format"] != FORMAT:
            raise TargetError(f"{title} has format {read['format']}, this program reads {FORMAT}")
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
            tuple(read.get("partitioning", BY_DESTINATION)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise TargetError(f"{title} is not a manifest: {error!r}") from None


def check_continues(start: int, end: int) -> None:
    """Raise StoreError if the store ends before the exported offset, because an older copy was restored."""
    if start > end:
        raise StoreError(
            f"this directory holds the store up to log offset {start}, but the store ends at {end}: "
            f"it is an older copy; export it to another directory"
        )
