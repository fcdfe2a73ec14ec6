"""Checkpoints of a Delta log: the state of a table in one Parquet file (protocol, "Checkpoints", V1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.files.lake_files import LakeFiles

LAST: Final = "_last_checkpoint"
MAPS: Final = ("partitionValues", "tags", "configuration", "options")
TEXTS: Final = pa.map_(pa.string(), pa.string())
SCHEMA: Final = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", TEXTS),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", TEXTS),
                    ("size", pa.int64()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)


def checkpoint_path(folder: str, version: int) -> str:
    """Return the path of a checkpoint of one part."""
    return f"{folder}/{version:020}.checkpoint.parquet"


def read_checkpoint(files: LakeFiles, path: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint, as a commit has them."""
    with files.open(path) as source:
        rows = pq.read_table(source).to_pylist()
    for row in rows:
        for name, action in row.items():
            if action is not None:
                for holder in (action, action.get("format") or {}):
                    for field in MAPS:
                        if holder.get(field) is not None:
                            holder[field] = dict(holder[field])
                yield {name: action}


def write_checkpoint(files: LakeFiles, folder: str, version: int, actions: list[dict[str, Any]]) -> None:
    """Write the state of a table as of ``version``, and name it as the last."""
    rows = pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | action for action in actions], SCHEMA)
    octets = BytesIO()
    pq.write_table(rows, octets)
    files.write(checkpoint_path(folder, version), octets.getvalue())
    files.write(f"{folder}/{LAST}", json.dumps({"version": version, "size": len(actions)}).encode())


def last_checkpoint(files: LakeFiles, folder: str) -> tuple[int, int]:
    """Return the version of the last checkpoint and the number of its actions; -1 and 0 without one."""
    try:
        found = json.loads(files.read(f"{folder}/{LAST}"))
        return int(found["version"]), int(found["size"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return -1, 0
