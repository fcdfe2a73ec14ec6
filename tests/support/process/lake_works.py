"""What is killed over a lake: each work a process of its own, which says on standard output when it has begun.

    python -m tests.support.process.lake_works WORK DATA STOMP HTTP TURN LAKE TABLE COLUMNS

DATA: the directory of a store, beside which streams keep what is theirs.  TURN: number of the write; one that is
killed is run again with the same.  LAKE: where exports are.  TABLE: the same for deltalake.  COLUMNS: of partitions.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_bridge.export import HOUR_MS, Request, export

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

SENT: Final = "queue://sent"
BACK: Final = "queue://back"
COPIED: Final = "queue://copied"
BEGUN: Final = "begun"
SINK_ROWS: Final = 40_000
SINK_TASKS: Final = 2  # each of three transactions
BATCH_ROWS: Final = 1_000
TASK_BYTES: Final = 64 * 1024  # several tasks a batch
LEASE_MS: Final = 3_000
LOCAL: Final = "local[2,4]"  # a task whose Python worker is killed is tried again
EXECUTORS: Final = "local-cluster[2,1,1024]"  # processes of their own


@dataclass(frozen=True)
class Places:
    data: Path
    stomp: str
    http: str
    turn: str
    lake: str
    table: str
    columns: str

    def request(self, data: Path | str, lease_ms: int = HOUR_MS) -> Request:
        partitioning = tuple(self.columns.split(","))
        return Request(data, SENT, self.lake, master="none", nice=0, lease_ms=lease_ms, partitioning=partitioning)


def begun() -> None:
    print(BEGUN, flush=True)


@contextmanager
def spark(master: str = LOCAL) -> Iterator[SparkContext]:
    from spark_bridge.spark.session import start

    with tempfile.TemporaryDirectory() as scratch:
        context = start(master, Path(scratch), "127.0.0.1")
        begun()
        yield context
        context.stop()


@contextmanager
def session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from spark_bridge.source import register

    with spark() as context:
        made = SparkSession(context)
        register(made)
        yield made


def export_alone(places: Places) -> None:
    begun()
    export(places.request(places.data))


def export_by_url(places: Places) -> None:
    begun()
    export(places.request(places.http, LEASE_MS))


def export_on_spark(places: Places, master: str = LOCAL) -> None:
    with spark(master) as context:
        export(replace(places.request(places.data), master=master), spark=context)


def export_on_executors(places: Places) -> None:
    export_on_spark(places, EXECUTORS)


def follow(places: Places) -> None:
    from gateway.__main__ import main  # its first line tells of its first export

    words = ["export", "--follow", "--interval", "1s", "--new-bytes", "1", "--data", str(places.data)]
    sys.exit(main([*words, "--destination", SENT, "--to", places.lake, "--partition-by", places.columns]))


def compact(places: Places) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(places.table)
    begun()
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def expire(places: Places) -> None:
    """Delete the older half of the lake's rows."""
    from deltalake import DeltaTable

    table = DeltaTable(places.table)
    offsets = sorted(table.to_pyarrow_table(columns=["log_offset"])["log_offset"].to_pylist())
    begun()
    table.delete(f"log_offset < {offsets[len(offsets) // 2]}")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def import_back(places: Places) -> None:
    from spark_bridge import lake_import
    from spark_bridge.write.options import write_options

    begun()
    options = write_options({"url": places.stomp})
    lake_import.import_lake(lake_import.Request(places.lake, options, to=BACK, write_id=f"back-{places.turn}"))


def sink(places: Places) -> None:
    with session() as made:
        numbers = made.range(0, SINK_ROWS, 1, SINK_TASKS)
        rows = numbers.selectExpr(f"concat('{places.turn}-', id) AS body_text")
        write = rows.write.format("penstock").mode("append").option("url", places.stomp)
        write.option("destination", BACK).option("write-id", f"back-{places.turn}").save()


def stream(places: Places) -> None:
    """Write each batch to a file with its number, whose rows must be the same if the batch is run again."""
    import pyarrow.parquet as pq

    batches = places.data.parent / "batches"
    batches.mkdir(exist_ok=True)

    def take(batch: DataFrame, number: int) -> None:
        place = batches / f"{number:06}.parquet"
        rows = batch.select("body_text").toArrow()
        if place.exists():
            before = sorted(pq.read_table(place)["body_text"].to_pylist())
            assert sorted(rows["body_text"].to_pylist()) == before, f"batch {number} has other rows than before"
        pq.write_table(rows, place.with_suffix(".tmp"))
        os.replace(place.with_suffix(".tmp"), place)

    with session() as made:
        _run(_sent(made, places).writeStream.foreachBatch(take), places.data.parent / "stream")


def copy(places: Places) -> None:
    with session() as made:
        write = _sent(made, places).select("body_text").writeStream.format("penstock")
        _run(write.option("url", places.stomp).option("destination", COPIED), places.data.parent / "copy")


def _sent(made: SparkSession, places: Places) -> DataFrame:
    from pyspark.sql.datasource import DataSourceStreamReader

    reader = made.readStream.format("penstock").option("path", str(places.data)).option("destination", SENT)
    if hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
        reader = reader.option("maxMessagesPerTrigger", BATCH_ROWS)
    return reader.option("partitionBytes", TASK_BYTES).load()


def _run(write: Any, checkpoint: Path) -> None:
    write.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


WORKS: Final[dict[str, Callable[[Places], None]]] = {
    work.__name__: work
    for work in (
        export_alone,
        export_by_url,
        export_on_spark,
        export_on_executors,
        follow,
        compact,
        expire,
        import_back,
        sink,
        stream,
        copy,
    )
}

if __name__ == "__main__":
    WORKS[sys.argv[1]](Places(Path(sys.argv[2]), *sys.argv[3:]))
