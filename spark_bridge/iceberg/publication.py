"""Where an export's tables are published besides their Delta logs: nowhere, or in a catalogue of Iceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_bridge.files.lake_files import LakeFiles
from spark_bridge.partitioning import Partitioning


class Publication:
    """Publishes nowhere."""

    def publish(self, partitioning: Partitioning) -> str:
        """Publish what the Delta logs have; return why that failed, "" if it did not: the next export does it, too."""
        return ""


@contextmanager
def publication(
    name: str, files: LakeFiles, tables: tuple[str, ...], partitioning: Partitioning, is_rehearsal: bool
) -> Iterator[Publication]:
    """Open the catalogue and namespace of this name, "" for none, and look whether they take the tables of a lake.

    partitioning: () if it is still open.
    Raises: TargetError, LakeError; ModuleNotFoundError without pyiceberg.
    """
    if not name:
        yield Publication()
        return
    from spark_bridge.iceberg.catalogue import open_catalogue  # with pyiceberg, which few need

    with open_catalogue(name, files, tables) as catalogue:
        catalogue.check(partitioning)
        yield Publication() if is_rehearsal else catalogue
