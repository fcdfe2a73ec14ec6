"""A Parquet file of an export -> the action that adds it to a Delta table (protocol, "Add File and Remove File")."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_bridge.files.lake_files import LakeFiles

# What queries of a log filter by; bounds of more columns would make each commit larger.
BOUNDED: Final = ("destination", "log_offset", "message_offset", "store_time")
DESTINATION: Final = b"penstock.destination"  # in a file's metadata, because the name of a long one's directory is cut

Action = dict[str, Any]


def add_action(files: LakeFiles, folder: str, path: str) -> Action | None:
    """Return the action for the file at ``path`` below the table's folder, None if somebody has removed it.

    A file that is no Parquet is added without statistics: its readers must find the damage.
    """
    place = f"{folder}/{path}".lstrip("/")
    status = files.status(place)
    if status is None:
        return None
    metadata: pq.FileMetaData | None = None
    try:
        with files.told(f"read {place}"), files.open(place) as source:
            metadata = pq.read_metadata(source)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        pass
    values = (part.partition("=")[::2] for part in PurePosixPath(path).parts[:-1])
    partition = {name: unquote(value) for name, value in values}
    if metadata is not None and DESTINATION in (metadata.metadata or {}):
        partition["destination"] = metadata.metadata[DESTINATION].decode()
    action = {
        "path": quote(path, safe="/=~"),
        "partitionValues": partition,
        "size": status.bytes,
        "modificationTime": status.modified_ms,
        "dataChange": True,
    }
    return action if metadata is None else action | {"stats": json.dumps(_statistics(metadata))}


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        if name not in BOUNDED:
            continue
        found = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
        if found and all(one is not None and one.has_min_max for one in found):
            least[name] = _text(min(one.min for one in found))
            most[name] = _text(max(one.max for one in found))
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most}


def _text(value: Any) -> Any:
    """Return a bound as JSON takes it; store times are whole milliseconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
