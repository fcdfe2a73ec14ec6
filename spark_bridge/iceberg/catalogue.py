"""A namespace of a catalogue that pyiceberg knows by its name, from its own configuration and environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from engine.values.errors import PenstockError
from spark_bridge.errors import LakeError, TargetError
from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.iceberg.publication import Publication
from spark_bridge.iceberg.table import IcebergTable
from spark_bridge.manifests import table_folder
from spark_bridge.partitioning import Partitioning


class IcebergCatalogue(Publication):
    """Takes the tables of a lake, each under its own name."""

    def __init__(self, catalogue: Catalog, title: str, files: LakeFiles, tables: tuple[str, ...]) -> None:
        self._catalogue = catalogue
        self._title = title
        self._files = files
        self._tables = tables

    def check(self, partitioning: Partitioning) -> None:
        """Raise now what would keep ``publish`` from its work: TargetError, LakeError."""
        for table in self._each(partitioning):
            with _told(f"read {table.title}"):
                table.check()

    def publish(self, partitioning: Partitioning) -> str:
        for table in self._each(partitioning):
            try:
                with _told(f"publish {table.title}"):
                    table.follow()
            except PenstockError as error:
                return f"the export is complete, but Iceberg does not have all of it yet: {error}"
        return ""

    def _each(self, partitioning: Partitioning) -> Iterator[IcebergTable]:
        for table in self._tables:
            folder = table_folder(self._tables, table)
            yield IcebergTable(self._catalogue, f"{self._title}.{table}", self._files, folder, partitioning)


@contextmanager
def open_catalogue(name: str, files: LakeFiles, tables: tuple[str, ...]) -> Iterator[IcebergCatalogue]:
    """name: of the catalogue and of the namespace in it, ``prod.sales``.  Raises: TargetError, LakeError."""
    catalogue_name, *namespace = name.split(".")
    if not namespace or not all((catalogue_name, *namespace)):
        raise TargetError(f"--iceberg is {name!r}; allowed is CATALOGUE.NAMESPACE")
    with _told(f"open the Iceberg catalogue {catalogue_name!r}"):
        try:
            # Read here: pyiceberg itself reads it when it is imported.
            catalogue = load_catalog(catalogue_name, **Config().get_catalog_config(catalogue_name) or {})
        except ValueError as error:
            raise TargetError(f"the Iceberg catalogue {catalogue_name!r} is not configured: {error}") from None
    with catalogue:
        yield IcebergCatalogue(catalogue, name, files, tables)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # each kind of catalogue has a client with errors of its own
        reason = (str(error).splitlines() or [""])[0]
        raise LakeError(f"cannot {what}: {type(error).__name__}: {reason}") from error
