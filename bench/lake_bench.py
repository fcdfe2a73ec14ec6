"""Reads of parts of a store: what filters read beside what they return, and how fast counts are.

    .venv/bin/python -m bench.lake_bench                      1,000,000 messages of 1 KiB in ten queues, in turn
    .venv/bin/python -m bench.lake_bench --spark              counts by Spark, too

"read" counts the octets that the process gets by ``read`` and its like (``rchar`` of /proc/self/io), so it has consume
queues and settlements, too.  The tail, which no consume queue covers, is left out once.  "returned" counts those of
the records of the returned messages.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from bench.in_process import open_store
from engine.store.format import layout
from engine.store.read.reader import StoreReader
from engine.values.destination import QUEUE
from engine.values.message import PERSISTENT, PLAIN, STOMP, TEXT, Message
from engine.values.outcomes import ACKNOWLEDGED, CAUSE_NONE
from engine.values.stored import Range
from gateway.process.clock import SystemClock
from spark_bridge.read.scan import plan_read, scan

QUEUES = 10
BATCH_COUNT = 1000
HEADERS = b"content-type:application/json\ntype:order\n"
COUNTED = ["destination", "delivery_state", "store_time"]


def make_store(directory: Path, count: int, size: int, burst: int) -> None:
    """Fill queues in turn, ``burst`` messages each; when nine tenths are sent, acknowledge them."""
    store = open_store(str(directory))
    queues = [store.open_destination(QUEUE, f"bench.q{number}") for number in range(QUEUES)]
    clock = SystemClock()
    body = b"x" * size
    for number in range(count):
        queue = queues[number // burst % QUEUES]
        store.append(Message(queue, STOMP, PERSISTENT | PLAIN | TEXT, 4, 0, 0, 0, b"", HEADERS, body))
        if number == count * 9 // 10:
            for each in queues:
                store.settle(each, 0, ACKNOWLEDGED, CAUSE_NONE, [Range(4, 0, number // QUEUES)])
        if number % BATCH_COUNT == 0:
            store.set_time(clock.wall_ms())
            store.write()
    store.write()
    store.sync()
    store.close()


def octets_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def measured(directory: Path, columns: list[str], where: str, size: int, stop: int) -> dict[str, float]:
    before, began = octets_read(), time.monotonic()
    read = plan_read({"path": str(directory), "to-offset": str(stop), "where": where}, columns)
    rows = sum(len(batch) for task in range(read.tasks()) for batch in read.rows(task))
    seconds, octets = time.monotonic() - began, octets_read() - before
    returned = rows * layout.padded(layout.MESSAGE_HEAD_BYTES + len(HEADERS) + size)
    return {
        "rows": rows,
        "rows_per_s": round(rows / seconds),
        "seconds": round(seconds, 3),
        "read_bytes": octets,
        "read_of_returned": round(octets / returned, 3) if returned else 0,
    }


def by_spark(directory: Path, scratch: Path, rows: int) -> dict[str, int]:
    """Return the rows per second that a count by destination and state takes, best of three, the JVM warm."""
    from pyspark.sql import SparkSession

    from spark_bridge import source
    from spark_bridge.spark.session import start

    session = SparkSession(start("local[2]", scratch))
    session.conf.set("spark.sql.shuffle.partitions", 2)
    source.register(session)
    found = {}
    for name, ddl in (("spark_count_all_columns", ""), ("spark_count", "destination string, delivery_state string")):
        reader = session.read.format("penstock").option("path", str(directory))
        seconds = []
        for _ in range(3):
            began = time.monotonic()
            frame = (reader.schema(ddl) if ddl else reader).load()
            counted = frame.groupBy("destination", "delivery_state").count().collect()
            seconds.append(time.monotonic() - began)
            assert sum(row[2] for row in counted) == rows
        found[name] = round(rows / min(seconds))
    session.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--burst", type=int, default=1, help="consecutive messages of one queue")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--work", type=Path, help="directory for the store meanwhile")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.work) as work:
        directory = Path(work) / "data"
        make_store(directory, arguments.messages, arguments.size, arguments.burst)
        times = scan(str(directory), ["store_time"]).read_all()["store_time"]
        early = f"store_time < '{times[len(times) // 10].as_py()}'"
        contents = ["log_offset", "store_time", "destination", "delivery_state", "headers", "body_text"]
        result: dict[str, object] = {"messages": arguments.messages, "size": arguments.size, "burst": arguments.burst}
        reader = StoreReader(directory)
        for name, columns, where in (
            ("count", COUNTED, ""),
            ("everything", contents, ""),
            ("a tenth by time", contents, early),
            ("a tenth by destination", contents, "destination = 'queue://bench.q3'"),
            ("a tenth by state", contents, "delivery_state = 'pending'"),
        ):
            result[name] = measured(directory, columns, where, arguments.size, reader.entries_offset)
            result[f"{name}, with the tail"] = measured(directory, columns, where, arguments.size, reader.end().offset)
        if arguments.spark:
            scratch = Path(work) / "scratch"
            scratch.mkdir()
            result |= by_spark(directory, scratch, arguments.messages)
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
