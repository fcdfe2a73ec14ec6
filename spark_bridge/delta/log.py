"""The Delta log of a table of an export: what readers of Delta see, commit by commit.

    DIR/_delta_log/<version>.json                  a commit: the files of one range, and up to which log offset it goes
    DIR/_delta_log/<version>.checkpoint.parquet    the state of the table, so that readers need no older commit

A range is published when its files are in their places, in one commit with ``txn`` (appId: the store, version: the log
offset at its end): readers see all of it or nothing, and a range is never published twice.
Others may commit, too: deltalake compacts, deletes old days and vacuums.  An export only adds.
Source: the Delta transaction log protocol, reader version 1 and writer version 2.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from spark_bridge.delta.added_file import Action, add_action
from spark_bridge.delta.checkpoint import checkpoint_path, last_checkpoint, read_checkpoint, write_checkpoint
from spark_bridge.delta.columns import schema_text
from spark_bridge.errors import TargetError
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.partitioning import Partitioning

FOLDER: Final = "_delta_log"
READER_VERSION: Final = 1
WRITER_VERSION: Final = 2
COMMIT: Final = re.compile(r"(\d{20})\.json")
CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
COMMITS_WITHOUT_CHECKPOINT: Final = 100  # at least; a tenth of its actions where they are more
TOMBSTONES_MS: Final = 30 * 24 * 3_600_000  # how long a checkpoint names removed files, for those that vacuum
ATTEMPTS: Final = 100  # to find a free version beside others that commit
FOOTERS_AT_ONCE: Final = 16  # read from another machine


@dataclass(slots=True)
class Snapshot:
    """The state of a table as of ``version``.  published: by store, up to which log offset."""

    version: int = -1
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    added: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, Action] = field(default_factory=dict)

    def take(self, actions: Iterable[Action]) -> None:
        """Apply the actions of the next commit, or of a checkpoint."""
        for action in actions:
            if "add" in action:
                self.added[action["add"]["path"]] = action["add"]
                self.removed.pop(action["add"]["path"], None)
            elif "remove" in action:
                self.added.pop(action["remove"]["path"], None)
                self.removed[action["remove"]["path"]] = action["remove"]
            elif "txn" in action:
                self.published[action["txn"]["appId"]] = action["txn"]["version"]
            elif "metaData" in action:
                self.metadata = action["metaData"]
            elif "protocol" in action:
                self.protocol = action["protocol"]

    def files(self) -> Iterator[tuple[str, int, str]]:
        """Yield path below the table's directory, octets and destination of each file.  Raises: TargetError."""
        for add in self.added.values():
            yield path_of(add), add["size"], add["partitionValues"].get("destination") or ""

    def actions(self, now_ms: int) -> list[Action]:
        """Return the state as actions of a checkpoint."""
        recent = [one for one in self.removed.values() if one.get("deletionTimestamp", 0) > now_ms - TOMBSTONES_MS]
        return [
            {"protocol": self.protocol},
            {"metaData": self.metadata},
            *({"txn": {"appId": store, "version": offset}} for store, offset in self.published.items()),
            *({"add": add} for add in self.added.values()),
            *({"remove": remove} for remove in recent),
        ]


@dataclass(frozen=True, slots=True)
class Head:
    """version: the newest one.  published_to, columns: of the store's last commit, None and "" if there is none."""

    version: int
    published_to: int | None
    columns: str


class DeltaLog:
    """The log of the table in a folder of a lake.

    ours: a commit of ours, the last one that this object knows, -1 for none.  It need not be there any more.
    """

    def __init__(self, files: LakeFiles, table_folder: str = "", ours: int = -1) -> None:
        self._files = files
        self._table_folder = table_folder
        self._folder = f"{table_folder}/{FOLDER}".lstrip("/")
        self.title = f"{files.title}/{self._folder}"
        self.ours = ours

    def publish(
        self,
        head: Head,
        store_id: str,
        table: str,
        schema: pa.Schema,
        partitioning: Partitioning,
        paths: Sequence[str],
        to_offset: int,
        now_ms: int,
    ) -> None:
        """Commit files, by their paths below the table's folder, unless messages up to ``to_offset`` are published.

        head: as ``head`` has found it.
        Raises: TargetError.
        """
        if head.published_to is not None and head.published_to >= to_offset:
            return
        adds = self._adds(paths)
        digest = f"{zlib.crc32(schema_text(schema).encode()):08x}"
        for _ in range(ATTEMPTS):
            if head.published_to is not None and head.published_to >= to_offset:
                return
            actions: list[Action] = [{"commitInfo": _commit_info(now_ms, partitioning, digest)}]
            if head.columns != digest:
                actions += self._table(head, table, schema, partitioning, now_ms)
            actions.append({"txn": {"appId": store_id, "version": to_offset, "lastUpdated": now_ms}})
            actions += ({"add": add} for add in adds)
            if self._commit(head.version + 1, actions):
                self.ours = head.version + 1
                self._keep_short(head.version + 1, now_ms)
                return
            head = self.head(store_id)
        raise TargetError(f"others commit to {self.title} all the time")

    def _adds(self, paths: Sequence[str]) -> list[Action]:
        if self._files.is_remote:
            with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
                found = list(threads.map(lambda path: add_action(self._files, self._table_folder, path), paths))
        else:
            found = [add_action(self._files, self._table_folder, path) for path in paths]
        return [add for add in found if add is not None]

    def snapshot(self) -> Snapshot | None:
        """Return the newest state, None without a log.  Raises: TargetError."""
        return self._snapshot(self._files.names(self._folder))

    def _snapshot(self, names: Sequence[str]) -> Snapshot | None:
        """Return the state by the names that are in the log."""
        versions = _numbers(COMMIT, names)
        found = Snapshot()
        checkpoints = [version for version in _numbers(CHECKPOINT, names) if not versions or version <= versions[-1]]
        if not versions and not checkpoints:
            return None
        if checkpoints:
            found.version = checkpoints[-1]
            found.take(read_checkpoint(self._files, checkpoint_path(self._folder, found.version)))
        for version in versions:
            if version > found.version:
                if version != found.version + 1:
                    raise TargetError(f"{self.title} lacks commit {found.version + 1}")
                found.take(self._read(version))
                found.version = version
        if not found.metadata:
            raise TargetError(f"{self.title} lacks its first commits, and has no checkpoint that this program reads")
        self._check(found.protocol, "minReaderVersion", READER_VERSION)
        return found

    def head(self, store_id: str) -> Head:
        """Return the newest state that a commit of a store has to know.

        Reads back from the newest commit to ours, normally one.  Raises: TargetError if no commit may be added.
        """
        newest = self.ours
        while newest >= 0 and self._has(newest + 1):
            newest += 1  # not listed again: the names may be many
        if newest >= 0 and self._has(self.ours):  # others delete old commits
            known = self._head_of(range(self.ours, newest + 1), store_id)
            if known is not None:
                return known
        names = self._files.names(self._folder)
        versions = _numbers(COMMIT, names)
        listed = self._head_of(versions, store_id)
        if listed is not None:
            return listed
        found = self._snapshot(names)
        if found is None:
            return Head(-1, None, "")
        self._check(found.protocol, "minWriterVersion", WRITER_VERSION)
        return Head(found.version, found.published.get(store_id), "")

    def _has(self, version: int) -> bool:
        return self._files.status(self._commit_path(version)) is not None

    def _head_of(self, versions: Sequence[int], store_id: str) -> Head | None:
        """Return the state by these commits, the newest ones; None if none of them is ours."""
        columns = ""
        for version in reversed(versions):
            for action in self._read(version):
                if "protocol" in action:
                    self._check(action["protocol"], "minWriterVersion", WRITER_VERSION)
                if "commitInfo" in action:
                    columns = str(action["commitInfo"].get("penstockColumns", ""))
                if "txn" in action and action["txn"]["appId"] == store_id:
                    self.ours = version
                    return Head(versions[-1], action["txn"]["version"], columns)
        return None

    def _check(self, protocol: Action, name: str, known: int) -> None:
        if protocol.get(name, 1) > known:
            raise TargetError(f"{self.title} has {name} {protocol[name]}; this program knows up to {known}")

    def _table(
        self, head: Head, table: str, schema: pa.Schema, partitioning: Partitioning, now_ms: int
    ) -> list[Action]:
        """Return the actions that make the table, or give it new columns."""
        found = None if head.version < 0 else self.snapshot()
        if found is None:
            protocol = {"minReaderVersion": READER_VERSION, "minWriterVersion": WRITER_VERSION}
            metadata = {
                "id": str(uuid.uuid4()),
                "name": table,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_text(schema),
                "partitionColumns": list(partitioning),
                "configuration": {},
                "createdTime": now_ms,
            }
            return [{"protocol": protocol}, {"metaData": metadata}]
        columns = schema_text(schema, found.metadata["schemaString"])
        return [{"metaData": found.metadata | {"schemaString": columns}}]

    def _commit(self, version: int, actions: list[Action]) -> bool:
        """Write a commit; return False if somebody else has just made this version."""
        lines = "".join(f"{json.dumps(action)}\n" for action in actions)
        return self._files.write_if_absent(self._commit_path(version), lines.encode())

    def _commit_path(self, version: int) -> str:
        return f"{self._folder}/{version:020}.json"

    def _keep_short(self, version: int, now_ms: int) -> None:
        """Write a checkpoint where readers have many commits to read."""
        at, size = last_checkpoint(self._files, self._folder)
        if version - at >= max(COMMITS_WITHOUT_CHECKPOINT, size // 10):
            found = self.snapshot()
            if found is not None:
                write_checkpoint(self._files, self._folder, found.version, found.actions(now_ms))

    def octets(self, version: int) -> bytes | None:
        """Return a commit as it is written, None if there is none."""
        try:
            return self._files.read(self._commit_path(version))
        except FileNotFoundError:
            return None

    def actions(self, version: int, octets: bytes) -> list[Action]:
        """Parse a commit.  Raises: TargetError."""
        title = f"{self.title}/{version:020}.json"
        try:
            actions = [json.loads(line) for line in octets.splitlines() if line.strip()]
        except ValueError as error:
            raise TargetError(f"{title} is no commit of a Delta log: {error}") from None
        for action in actions:
            if not isinstance(action, dict):
                raise TargetError(f"{title} is no commit of a Delta log: {action!r} is no action")
        return actions

    def _read(self, version: int) -> list[Action]:
        return self.actions(version, self._files.read(self._commit_path(version)))


def path_of(add: Action) -> str:
    """Return the path of a file below the table's directory.  Raises: TargetError."""
    path = unquote(add["path"])
    if urlsplit(add["path"]).scheme or path.startswith("/") or ".." in path.split("/"):
        raise TargetError(f"the Delta log names {path!r}, which is outside of the table")
    return path


def _numbers(pattern: re.Pattern[str], names: Sequence[str]) -> list[int]:
    return [int(found.group(1)) for found in map(pattern.fullmatch, names) if found]


def _commit_info(now_ms: int, partitioning: Partitioning, columns: str) -> dict[str, Any]:
    return {
        "timestamp": now_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": json.dumps(partitioning)},
        "isBlindAppend": True,
        "engineInfo": "penstock",
        "penstockColumns": columns,
    }
