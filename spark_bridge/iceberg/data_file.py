"""A file that a Delta log adds -> a data file of an Iceberg table, whose partition has the columns the file lacks."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from spark_bridge.delta.added_file import Action
from spark_bridge.delta.log import path_of
from spark_bridge.errors import TargetError
from spark_bridge.files.lake_files import LakeFiles

EPOCH: Final = date(1970, 1, 1)


def data_file(table: TableMetadata, files: LakeFiles, folder: str, location: str, add: Action) -> DataFile:
    """folder: of the table in the lake.  location: of the folder, for readers.

    Raises: TargetError, LakeError; FileNotFoundError.
    """
    path = path_of(add)
    place = f"{folder}/{path}".lstrip("/")
    with files.told(f"read {place}"), files.open(place) as source:
        footer = pq.read_metadata(source)
    columns = parquet_path_to_id_mapping(table.schema())
    unknown = sorted({footer.schema.column(at).path for at in range(footer.num_columns)} - columns.keys())
    if unknown:
        raise TargetError(f"{files.title}/{place} has a column {unknown[0]!r}, which the Iceberg table lacks")
    plan = compute_statistics_plan(table.schema(), table.properties)
    statistics = data_file_statistics_from_parquet_metadata(footer, plan, columns)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location}/{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*(_value(field.name, add["partitionValues"][field.name]) for field in table.spec().fields)),
        file_size_in_bytes=add["size"],
        sort_order_id=None,
        spec_id=table.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _value(column: str, text: str) -> Any:
    """Return the value of a partition column as Iceberg keeps it: a date as its days since 1970."""
    return (date.fromisoformat(text) - EPOCH).days if column == "date" else text
