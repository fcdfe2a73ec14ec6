"""Modules for Spark's workers, as a zip: of an export the readers of a store, without the gateway."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from pyspark import SparkContext

ROOT: Final = Path(__file__).parents[2]
# By room, "*" for all of its modules, "**/*" for those of the rooms in it, too; each room has its ``__init__``, and so
# have the rooms above it.
WORKER_MODULES: Final[Mapping[str, str]] = {
    "config": "reserved_names",
    "engine/values": "message destination errors outcomes",
    "engine/store/disk": "directory_lock files modes named_errors",
    "engine/store/format": "checksum file_heads layout record record_cursor sparse_runs",
    "engine/store": "plain_words",
    "engine/store/read": "catalog entry_files export_watermarks leases reader segment_files selection store_files",
    "protocols/amqp/v1_0/mapping": "contents jms_ids jms_types property_types stomp_content stomp_headers",
    "protocols/amqp/v1_0/wire": "errors",
    "protocols/amqp/v1_0/wire/messages": "sections",
    "protocols/amqp/v1_0/wire/types": "value_decoder value_encoder values",
    "protocols": "broker_headers errors map_message message_lines",
    "protocols/openwire/mapping": "contents stomp_content stored_form",
    "protocols/openwire/wire": "commands identities layouts messages modified_utf8 property_map reader writer",
    "spark_bridge": "attempts errors manifests newest parquet parquet_file partitioning source target",
    "spark_bridge/arrow": "*",
    "spark_bridge/delta": "*",
    "spark_bridge/files": "*",
    "spark_bridge/log": "*",
    "spark_bridge/read": "*",
    "spark_bridge/spark": "workers",
    "spark_bridge/stream": "*",
    "spark_bridge/write": "*",
}


def worker_files(modules_by_room: Mapping[str, str] = WORKER_MODULES) -> list[str]:
    """Return the paths of the modules, from the root."""
    patterns = [f"{room}/{name}.py" for room, names in modules_by_room.items() for name in names.split()]
    modules = {path.relative_to(ROOT) for pattern in patterns for path in ROOT.glob(pattern)}
    rooms = {parent for module in modules for parent in module.parents if parent.name}
    return sorted(str(path) for path in modules | {room / "__init__.py" for room in rooms})


def ship(context: SparkContext, modules: Mapping[str, str]) -> None:
    """Give the workers their modules, wherever they run and whatever their working directory is."""
    context.addPyFile(str(new_worker_zip(modules)))


def new_worker_zip(modules: Mapping[str, str] = WORKER_MODULES) -> Path:
    """Return a zip for workers that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    # Executors fetch the file from this place when they start.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # A unique name, because Spark refuses another file of the same name.
    return worker_zip(folder / f"{folder.name}.zip", modules)


def worker_zip(path: Path, modules: Mapping[str, str] = WORKER_MODULES) -> Path:
    """Write the modules that a worker needs into a zip, compiled ones if they are there: not each worker need do it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in worker_files(modules):
            archive.write(ROOT / name, name)
            compiled = Path(cache_from_source(str(ROOT / name)))
            if compiled.exists():  # Python takes it if it is of this module and of the worker's version
                archive.write(compiled, f"{name}c")
    return path
