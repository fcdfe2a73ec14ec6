"""What slowed at nine o'clock?  Time in queue by minute and consumer, and what waited then, from the log alone.

.venv/bin/python examples/slow_at_nine/pipeline.py
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, date_trunc, lit, max, median

from examples.shared import chart
from examples.shared.local_spark import local_spark
from examples.shared.morning import Morning
from examples.slow_at_nine.orders import bill_orders

ASKED = datetime(2026, 11, 24, 9, 6, tzinfo=UTC)


def read(spark: SparkSession, data: Path, **options: str) -> DataFrame:
    """Return a table of the store.  It reads files: the gateway may run, be stopped, or have crashed."""
    return spark.read.format("penstock").options(path=str(data), destination="queue://orders", **options).load()


def time_in_queue(spark: SparkSession, data: Path) -> DataFrame:
    """Return how long orders took, by the minute in which they were done and by their consumer."""
    done = read(spark, data, table="deliveries").where("outcome = 'acknowledged'")
    seconds = col("time_in_queue_ms") / 1000
    by_minute = done.groupBy(date_trunc("minute", "store_time").alias("minute"), "client_id")
    figures = count(lit(1)).alias("orders"), median(seconds).alias("median_s"), max(seconds).alias("longest_s")
    return by_minute.agg(*figures).orderBy("minute", "client_id")


def waiting_at(spark: SparkSession, data: Path, time: datetime) -> DataFrame:
    """Return what waited at that time, by the consumer that had it in the end."""
    waiting = read(spark, data, asOf=time.isoformat()).where("delivery_state = 'pending'").select("message_id")
    ends = read(spark, data, table="deliveries").where("outcome <> 'failed'")
    by_consumer = waiting.join(ends, "message_id", "left").groupBy("client_id")
    longest = (max("time_in_queue_ms") / 1000).alias("longest_s")
    return by_consumer.agg(count(lit(1)).alias("orders"), longest).orderBy("client_id")


def draw(path: Path, rows: DataFrame) -> None:
    """Draw the longest time in queue by minute, a line for each consumer."""
    found = {(row.client_id, f"{row.minute:%H:%M}"): row.longest_s for row in rows.collect()}
    minutes = sorted({minute for _, minute in found})
    consumers = sorted({consumer for consumer, _ in found})
    series = {each: [found.get((each, minute), 0.0) for minute in minutes] for each in consumers}
    chart.lines(path, "Longest time in queue, by consumer", "s", minutes, series)


def main() -> None:
    """Make the morning, ask about it, draw it."""
    home = Path(tempfile.mkdtemp(prefix="penstock-slow-at-nine-"))
    with Morning(home) as morning:
        billed = bill_orders(morning)
    print(f"{len(billed)} orders were billed between 08:50 and 09:25")
    with local_spark() as spark:
        rows = time_in_queue(spark, home / "data")
        rows.where("longest_s > 60").show(100)
        print(f"Orders that waited at {ASKED:%H:%M}:")
        waiting_at(spark, home / "data", ASKED).show()
        draw(home / "chart.svg", rows)
    print(f"The store and chart.svg are in {home}")


if __name__ == "__main__":
    main()
