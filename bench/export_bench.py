"""Export to Parquet: messages per second, without the start of the JVM.

    .venv/bin/python -m bench.export_bench                            1,000,000 messages of 1 KiB, five exports
    .venv/bin/python -m bench.export_bench --messages 200000 --runs 3
    .venv/bin/python -m bench.export_bench --settled --body text      every message acknowledged singly; text bodies
    .venv/bin/python -m bench.export_bench --spark-writer             data source and Spark's own writer, too

The benchmark makes a store with the gateway's own ``FileStore`` in a temporary directory (``--work DIR`` chooses the
disk).  Then it runs ``penstock export`` on it with ``local[2]``, each time in a separate process and into a fresh
directory.  It counts ``export_seconds``: reading the checkpoint, planning, Spark's first job, Parquet files synced and
committed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.in_process import open_store
from engine.store.read.reader import StoreReader
from engine.store.read.selection import parse
from engine.values.destination import QUEUE
from engine.values.message import PERSISTENT, PLAIN, STOMP, TEXT, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from gateway.process.clock import SystemClock
from spark_bridge import source
from spark_bridge.read.pieces import read_pieces
from spark_bridge.read.plan import make_plan

ROOT = Path(__file__).parent.parent
BATCH_COUNT = 1000
UNACKNOWLEDGED_COUNT = 1000


def make_store(directory: Path, count: int, size: int, body: str, is_settled: bool) -> None:
    """Fill a store and stop it cleanly."""
    clock = SystemClock()
    store = open_store(str(directory))
    queue = store.open_destination(QUEUE, "bench.orders")
    pattern = bytes(97 + number % 26 for number in range(size))  # as in the load generator
    for number in range(count):
        if body == "random":
            octets = os.urandom(size)
        else:
            octets = (b"%020d" % number + pattern)[:size]
        headers = b"content-type:application/json\ncorrelation-id:order-%d\ntype:order\n" % number
        flags = PERSISTENT | PLAIN | (TEXT if body == "text" else 0)
        store.append(Message(queue, STOMP, flags, 4, 0, 0, 0, b"", headers, octets))
        if is_settled and number >= UNACKNOWLEDGED_COUNT:
            acknowledged = Range(4, number - UNACKNOWLEDGED_COUNT, 1)
            store.settle(queue, 0, ACKNOWLEDGED, CAUSE_NONE, [acknowledged])
        if number % BATCH_COUNT == 0:
            store.set_time(clock.wall_ms())
            store.write()
    store.write()
    store.sync()
    store.close()


def read_alone(directory: Path) -> float:
    """Return the messages per second of one process that plans, makes record batches and drops them."""
    began = time.monotonic()
    plan = make_plan(StoreReader(directory), parse(">"))
    rows = sum(len(batch) for pieces in plan.partitions for batch in read_pieces(plan, pieces))
    return rows / (time.monotonic() - began)


def export_once(directory: Path, target: Path) -> dict[str, float]:
    """Return the output of one ``penstock export``."""
    command = [sys.executable, "-m", "gateway", "export", "--data", str(directory), "--destination", ">"]
    done = subprocess.run(
        [*command, "--to", str(target), "--json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    shutil.rmtree(target)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def spark_writer(directory: Path, target: Path, scratch: Path, runs: int) -> list[float]:
    """Return messages per second through ``read.format("penstock")`` and ``write.parquet``, the first run cold."""
    from pyspark.sql import SparkSession

    from spark_bridge.spark.session import start

    session = SparkSession(start("local[2]", scratch))
    source.register(session)
    messages = session.read.format("penstock").option("path", str(directory)).load()
    rates = []
    for _ in range(runs):
        began = time.monotonic()
        messages.write.mode("overwrite").option("compression", "zstd").parquet(target.as_uri())
        elapsed = time.monotonic() - began
        rates.append(session.read.parquet(target.as_uri()).count() / elapsed)
    session.stop()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--body", choices=("bytes", "text", "random"), default="bytes")
    parser.add_argument("--settled", action="store_true", help="acknowledge all but the last 1000, one by one")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", type=Path, help="directory for the store and the Parquet files meanwhile")
    parser.add_argument("--spark-writer", action="store_true", help="measure Spark's own Parquet writer as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.work) as work:
        directory, target = Path(work) / "data", Path(work) / "parquet"
        make_store(directory, arguments.messages, arguments.size, arguments.body, arguments.settled)
        result: dict[str, object] = {
            "messages": arguments.messages,
            "size": arguments.size,
            "body": arguments.body,
            "settled": arguments.settled,
            "read_alone_per_s": round(statistics.median(read_alone(directory) for _ in range(3))),
        }
        exports = [export_once(directory, target) for _ in range(arguments.runs)]
        assert all(export["rows"] == arguments.messages for export in exports)
        result["export_seconds"] = [export["export_seconds"] for export in exports]
        result["jvm_seconds"] = [export["jvm_seconds"] for export in exports]
        result["parquet_bytes"] = exports[0]["bytes"]
        seconds = statistics.median(export["export_seconds"] for export in exports)
        result["export_per_s"] = round(arguments.messages / seconds)
        if arguments.spark_writer:
            scratch = Path(work) / "scratch"
            scratch.mkdir()
            rates = spark_writer(directory, target, scratch, arguments.runs)
            result["spark_writer_per_s"] = [round(rate) for rate in rates]
        print(json.dumps(result))


if __name__ == "__main__":
    main()
