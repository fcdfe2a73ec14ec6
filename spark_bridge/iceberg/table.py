"""A table of Iceberg that follows the Delta log of a table of an export; its data files are those of the lake.

A commit to it has the files that are new and, as the table's property ``penstock.delta-commit``, how far it follows.
It holds only if no other commit has come since the property was read.  So a killed export, or two at once, add no file
twice.  Where the Delta log has removed files, the table's files are made those of the log, in one commit.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate

from spark_bridge.arrow.schema import SCHEMAS
from spark_bridge.delta.added_file import BOUNDED, Action
from spark_bridge.delta.changes import Changes, changes_since
from spark_bridge.delta.log import DeltaLog, path_of
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.iceberg.data_file import data_file
from spark_bridge.iceberg.snapshots import forget_old
from spark_bridge.partitioning import Partitioning

LAKE: Final = "penstock.lake"
FOLLOWED: Final = "penstock.delta-commit"
NAME_MAPPING: Final = "schema.name-mapping.default"  # because the files have no field ids
RETRIES: Final = "commit.retry.num-retries"
PROPERTIES: Final = {
    "gc.enabled": "false",  # the files are the lake's: no maintenance of Iceberg may delete them
    "commit.manifest-merge.enabled": "true",  # so that a commit costs as much after many
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.metrics.default": "none",  # bounds of more columns would make each commit larger
    **{f"write.metadata.metrics.column.{column}": "full" for column in BOUNDED},
}
ATTEMPTS: Final = 10  # to commit beside others
FOOTERS_AT_ONCE: Final = 16


class IcebergTable:
    """title: CATALOGUE.NAMESPACE.TABLE.  folder: of the table in the lake.  partitioning: () if it is still open."""

    def __init__(
        self,
        catalogue: Catalog,
        title: str,
        files: LakeFiles,
        folder: str,
        partitioning: Partitioning,
    ) -> None:
        self._catalogue = catalogue
        self._identifier = tuple(title.split(".")[1:])
        self.title = title
        self._files = files
        self._folder = folder
        self._log = DeltaLog(files, folder)
        self._partitioning = partitioning
        place = files.title if files.is_remote else f"file://{files.title}"
        self._location = f"{place}/{folder}".rstrip("/")
        self._schema: pa.Schema = SCHEMAS[self._identifier[-1]]

    def check(self) -> None:
        """Raise TargetError if the table is there and is none of this lake."""
        if any(mark in self._location for mark in "?#"):
            raise TargetError(f"{self._location} has a '?' or '#', which readers of Iceberg do not find")
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            self._add_columns(self._loaded().transaction())

    def follow(self) -> None:
        """Commit what the Delta log has and the table has not.

        Raises: TargetError, LakeError, and what a catalogue raises.
        """
        for _ in range(ATTEMPTS):
            with suppress(CommitFailedException, TableAlreadyExistsError):  # read again what others have done
                try:
                    table = self._loaded()
                except (NoSuchTableError, NoSuchNamespaceError):
                    if self._log.snapshot() is None:
                        return  # the first range will decide about the partitions
                    table = self._created()
                changes = changes_since(self._log, table.properties.get(FOLLOWED, ""))
                if changes is not None and changes.mark != table.properties.get(FOLLOWED):
                    self._commit(table, changes)
                    forget_old(table)
                return
        raise LakeError(f"others commit to {self.title} all the time")

    def _loaded(self) -> Table:
        table = self._catalogue.load_table(self._identifier)
        lake = table.properties.get(LAKE, "")
        if lake != self._location:
            whose = f"publishes {lake}" if lake else "is of no export"
            raise TargetError(f"the Iceberg table {self.title} {whose}; choose another namespace for {self._location}")
        fields = [(table.schema().find_column_name(one.source_id), str(one.transform)) for one in table.spec().fields]
        if self._partitioning and fields != [(column, "identity") for column in self._partitioning]:
            told = ", ".join(f"{transform} of {column}" for column, transform in fields) or "nothing"
            raise TargetError(
                f"the Iceberg table {self.title} is partitioned by {told}, the lake by "
                f"{', '.join(self._partitioning)}; drop the table, then the next export makes it again"
            )
        # Not again by itself: what others have committed decides what is new.
        properties = {**table.properties, RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

    def _add_columns(self, transaction: Transaction) -> None:
        """Give the table the columns that it lacks.  Raises: TargetError if it has others of their names."""
        try:
            with transaction.update_schema() as update:
                update.union_by_name(self._schema)
        except (ValueError, ValidationError) as error:
            raise TargetError(
                f"the Iceberg table {self.title} has other columns than the lake ({error}); drop the table, then the "
                f"next export makes it again"
            ) from None

    def _created(self) -> Table:
        for length in range(1, len(self._identifier)):
            if not self._catalogue.namespace_exists(self._identifier[:length]):
                with suppress(NamespaceAlreadyExistsError):
                    self._catalogue.create_namespace(self._identifier[:length])
        properties = {**PROPERTIES, LAKE: self._location}
        with self._catalogue.create_table_transaction(self._identifier, self._schema, properties=properties) as new:
            with new.update_spec() as spec:
                for column in self._partitioning:
                    spec.add_identity(column)
            new.set_properties({NAME_MAPPING: new.table_metadata.schema().name_mapping.model_dump_json()})
        return self._loaded()

    def _commit(self, table: Table, changes: Changes) -> None:
        transaction = table.transaction()
        self._add_columns(transaction)
        present = {task.file.file_path: task.file for task in table.scan().plan_files()} if changes.is_whole else {}
        wanted = {f"{self._location}/{path_of(add)}": add for add in changes.added}
        added = [add for location, add in wanted.items() if location not in present]
        gone = [file for location, file in present.items() if location not in wanted]
        if not added and not gone:
            self._note(table, changes.mark)
            return
        transaction.set_properties({FOLLOWED: changes.mark})
        update = transaction.update_snapshot()
        with update.overwrite() if gone else update.merge_append() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for file in self._data_files(transaction, added):
                snapshot.append_data_file(file)
        transaction.commit_transaction()

    def _data_files(self, transaction: Transaction, adds: list[Action]) -> list[DataFile]:
        read = partial(data_file, transaction.table_metadata, self._files, self._folder, self._location)
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
            return list(threads.map(read, adds))

    def _note(self, table: Table, mark: str) -> None:
        """Commit that there is nothing new up to a mark."""
        snapshot = table.current_snapshot()
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot.snapshot_id if snapshot else None),
        )
        self._catalogue.commit_table(table, requirements, (SetPropertiesUpdate(updates={FOLLOWED: mark}),))
