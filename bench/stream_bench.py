"""Streams of Spark: how fast one catches up, and how late a message is at a steady rate.

    .venv/bin/python -m bench.stream_bench                    1,000,000 messages of 1 KiB; then 2,000 a second for 30 s
    .venv/bin/python -m bench.stream_bench --messages 200000 --seconds 10

*Catching up* reads a store without a gateway with ``trigger(availableNow=True)`` into a sink that drops the rows; the
start of the JVM is not counted, that of the query is.  *At a steady rate* a gateway runs, the load generator sends, and
each batch is collected: a message is as late as the time from its ``store_time`` to when its batch is there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.export_bench import make_store
from bench.processes import Gateway, build_loadgen
from spark_bridge import source
from spark_bridge.spark.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM_UP_S: Final = 5.0  # of the steady rate, not counted: the query starts and plans for the first time


def catch_up(session: SparkSession, directory: Path, checkpoint: Path, columns: list[str]) -> tuple[int, float]:
    """Return the rows and the seconds of one query that reads all there is."""
    messages = session.readStream.format("penstock").option("path", str(directory)).load()
    began = time.monotonic()
    query = (
        messages.select(*columns)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - began
    return sum(progress["numInputRows"] for progress in query.recentProgress), seconds


def lateness_ms(session: SparkSession, work: Path, loadgen: Path, rate: int, seconds: float) -> list[float]:
    """Return how late each message of a steady rate was."""
    found: list[tuple[float, float]] = []

    def take(batch: DataFrame, _: int) -> None:
        times = [row.store_time.replace(tzinfo=UTC).timestamp() for row in batch.select("store_time").collect()]
        now = datetime.now(UTC).timestamp()
        found.extend((time_s, now - time_s) for time_s in times)

    gateway = Gateway(work / "gateway")
    gateway.start()
    try:
        messages = session.readStream.format("penstock").option("path", str(work / "gateway" / "data")).load()
        query = messages.writeStream.foreachBatch(take).option("checkpointLocation", str(work / "steady")).start()
        command = [str(loadgen), "--proto", "stomp", "--url", f"127.0.0.1:{gateway.port}", "--dest", "/queue/steady"]
        command += ["--persistent", "--size", "1024", "--rate", str(rate), "--json"]
        count = int(rate * (WARM_UP_S + seconds))
        subprocess.run([*command, "--messages", str(count)], check=True, stdout=subprocess.DEVNULL)
        query.processAllAvailable()
        query.stop()
    finally:
        gateway.stop()
    first_s = min(time_s for time_s, _ in found) + WARM_UP_S
    return sorted(late_s * 1000 for time_s, late_s in found if time_s >= first_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--loadgen", type=Path, help="an existing build of the load generator")
    parser.add_argument("--work", type=Path, help="directory for the stores meanwhile")
    arguments = parser.parse_args()
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=arguments.work) as name:
        work = Path(name)
        loadgen = arguments.loadgen or build_loadgen(work)
        make_store(work / "data", arguments.messages, arguments.size, "bytes", False)
        (work / "scratch").mkdir()
        session = SparkSession(start("local[2]", work / "scratch"))
        session.conf.set("spark.sql.session.timeZone", "UTC")
        source.register(session)
        result: dict[str, object] = {"messages": arguments.messages, "size": arguments.size}
        for title, columns in (("all columns", ["*"]), ("three columns", ["destination", "message_id", "store_time"])):
            rates = []
            for number in range(arguments.runs):
                rows, seconds = catch_up(session, work / "data", work / f"{title}-{number}", columns)
                assert rows == arguments.messages, f"{rows} rows of {arguments.messages} messages"
                rates.append(round(rows / seconds))
            result[f"availableNow, {title}, rows/s"] = rates
        late = lateness_ms(session, work, loadgen, arguments.rate, arguments.seconds)
        for part in (50, 99):
            result[f"late at {arguments.rate}/s, p{part} ms"] = round(statistics.quantiles(late, n=100)[part - 1])
        session.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
