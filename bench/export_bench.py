"""Export to Parquet: messages per second, without the start of the JVM.

    .venv/bin/python -m bench.export_bench                            1,000,000 messages of 1 KiB, five exports
    .venv/bin/python -m bench.export_bench --messages 200000 --runs 3
    .venv/bin/python -m bench.export_bench --settled --body text      every message acknowledged singly; text bodies
    .venv/bin/python -m bench.export_bench --spark-writer             data source and Spark's own writer, too
    .venv/bin/python -m bench.export_bench --warm                     more exports, in one session of Spark
    .venv/bin/python -m bench.export_bench --destinations 1000        exports of one queue and of 1,000 in turn

With ``--destinations`` a second store has the messages in so many queues.  Its exports take turns with those of one
queue, because a machine has good and bad moments; then one of its destinations is read from the lake.

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

from bench.in_process import DueTimers, open_store
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
from spark_bridge.read.scan import scan

ROOT = Path(__file__).parent.parent
BATCH_COUNT = 1000
UNACKNOWLEDGED_COUNT = 1000


def make_store(directory: Path, count: int, size: int, body: str, is_settled: bool, destinations: int = 1) -> None:
    """Fill a store, with a message for each destination in turn, and stop it cleanly."""
    clock = SystemClock()
    timers = DueTimers(clock)
    store = open_store(str(directory), timers=timers)
    queues = [store.open_destination(QUEUE, f"bench.orders.{number}") for number in range(destinations)]
    pattern = bytes(97 + number % 26 for number in range(size))  # as in the load generator
    for number in range(count):
        queue = queues[number % destinations]
        if body == "random":
            octets = os.urandom(size)
        else:
            octets = (b"%020d" % number + pattern)[:size]
        headers = b"content-type:application/json\ncorrelation-id:order-%d\ntype:order\n" % number
        flags = PERSISTENT | PLAIN | (TEXT if body == "text" else 0)
        store.append(Message(queue, STOMP, flags, 4, 0, 0, 0, b"", headers, octets))
        if is_settled and number >= UNACKNOWLEDGED_COUNT:
            first = number - UNACKNOWLEDGED_COUNT
            acknowledged = Range(4, first // destinations, 1)
            store.settle(queues[first % destinations], 0, ACKNOWLEDGED, CAUSE_NONE, [acknowledged])
        if number % BATCH_COUNT == 0:
            store.set_time(clock.wall_ms())
            store.write()
            timers.fire()  # consume queues of many destinations are written in several turns
    store.write()
    store.sync()
    timers.fire()
    store.close()


def read_alone(directory: Path) -> float:
    """Return the messages per second of one process that plans, makes record batches and drops them."""
    began = time.monotonic()
    plan = make_plan(StoreReader(directory), parse(">"))
    rows = sum(len(batch) for pieces in plan.partitions for batch in read_pieces(plan, pieces))
    return rows / (time.monotonic() - began)


def export_once(directory: Path, target: Path, master: str, more: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the output of one ``penstock export``."""
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "gateway", "export", "--data", str(directory), "--destination", ">"]
    command += ["--to", str(target), "--json", "--master", master, *more]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def export_warm(stores: list[Path], target: Path, scratch: Path, master: str, runs: int) -> list[list[float]]:
    """Return the rates of each store's exports in one session, without its first: the JVM has a start of its own."""
    from spark_bridge.export import NICE, Request, export
    from spark_bridge.spark.session import start_for_tasks

    rates: list[list[float]] = [[] for _ in stores]
    context = start_for_tasks(master, scratch, "", NICE)
    for run in range(runs + 1):
        for store, of_store in zip(stores, rates, strict=True):
            shutil.rmtree(target, ignore_errors=True)
            done = export(Request(store, ">", target, master), spark=context)
            if run:
                of_store.append(round(done.rows / done.export_seconds))
    context.stop()
    return rates


def read_one(directory: Path, target: Path) -> dict[str, float]:
    """Return the rows of one destination of the lake, and the seconds to read them."""
    began = time.monotonic()
    rows = scan(str(directory), lake=target, destination="bench.orders.1").read_all()
    return {"rows": len(rows), "seconds": round(time.monotonic() - began, 3)}


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


def _told(exports: list[dict[str, float]], messages: int) -> dict[str, object]:
    assert all(export["rows"] == messages for export in exports)
    seconds = [export["export_seconds"] for export in exports]
    return {
        "export_seconds": seconds,
        "jvm_seconds": [export["jvm_seconds"] for export in exports],
        "parquet_bytes": exports[0]["bytes"],
        "files": exports[0]["files"],
        "export_per_s": round(messages / statistics.median(seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--body", choices=("bytes", "text", "random"), default="bytes")
    parser.add_argument("--settled", action="store_true", help="acknowledge all but the last 1000, one by one")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--destinations", type=int, default=1, help="export a second store, with so many queues")
    parser.add_argument("--partition-by", default="", help="of the second store; as in penstock export")
    parser.add_argument("--master", default="local[2]", help="as in penstock export")
    parser.add_argument("--work", type=Path, help="directory for the store and the Parquet files meanwhile")
    more_in_one_jvm = parser.add_mutually_exclusive_group()  # a process has one, with the options of the first use
    more_in_one_jvm.add_argument("--warm", action="store_true", help="measure more exports, in one session of Spark")
    more_in_one_jvm.add_argument("--spark-writer", action="store_true", help="measure Spark's own Parquet writer")
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
        many = Path(work) / "many"
        more = ("--partition-by", arguments.partition_by) if arguments.partition_by else ()
        if arguments.destinations > 1:
            make_store(
                many, arguments.messages, arguments.size, arguments.body, arguments.settled, arguments.destinations
            )
        exports, of_many = [], []
        for _ in range(arguments.runs):
            exports.append(export_once(directory, target, arguments.master))
            if arguments.destinations > 1:
                of_many.append(export_once(many, Path(work) / "lake", arguments.master, more))
        result |= _told(exports, arguments.messages)
        if of_many:
            result["destinations"] = arguments.destinations
            result["of_destinations"] = _told(of_many, arguments.messages)
            result["of_one"] = [read_one(many, Path(work) / "lake") for _ in range(arguments.runs)]
        scratch = Path(work) / "scratch"
        scratch.mkdir()
        if arguments.warm:
            stores = [directory, many] if arguments.destinations > 1 else [directory]
            result["warm_per_s"] = export_warm(stores, target, scratch, arguments.master, arguments.runs)
        if arguments.spark_writer:
            rates = spark_writer(directory, target, scratch, arguments.runs)
            result["spark_writer_per_s"] = [round(rate) for rate in rates]
        print(json.dumps(result))


if __name__ == "__main__":
    main()
