"""A Parquet file of an export -> the action that adds it to a Delta table (protocol, "Add File and Remove File")."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

PARTITION_COLUMNS: Final = ("destination", "date")
# What queries of a log filter by; bounds of more columns would make each commit larger.
BOUNDED: Final = ("log_offset", "message_offset", "store_time")
DESTINATION: Final = b"penstock.destination"  # in a file's metadata, because the name of a long one's directory is cut

Action = dict[str, Any]


def add_action(directory: Path, path: str) -> Action | None:
    """Return the action for the file at ``path`` below the table's directory, None if somebody has removed it.

    A file that is no Parquet is added without statistics: its readers must find the damage.
    """
    place = directory / path
    try:
        status = place.stat()
        metadata = pq.read_metadata(place)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        metadata = None
    values = dict(part.partition("=")[::2] for part in PurePosixPath(path).parts[:-1])
    partition = {name: unquote(values[name]) for name in PARTITION_COLUMNS}
    if metadata is not None and DESTINATION in (metadata.metadata or {}):
        partition["destination"] = metadata.metadata[DESTINATION].decode()
    action = {
        "path": quote(path, safe="/=~"),
        "partitionValues": partition,
        "size": status.st_size,
        "modificationTime": status.st_mtime_ns // 1_000_000,
        "dataChange": True,
    }
    return action if metadata is None else action | {"stats": json.dumps(_statistics(metadata))}


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        found = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
        if name in BOUNDED and found and all(one is not None and one.has_min_max for one in found):
            least[name] = _text(min(one.min for one in found))
            most[name] = _text(max(one.max for one in found))
    return {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most}


def _text(value: Any) -> Any:
    """Return a bound as JSON takes it; store times are whole milliseconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value
