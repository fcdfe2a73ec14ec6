"""Triage of dead letters: group them by cause and origin, repair them, try a dry run, write them back, follow them.

.venv/bin/python examples/dead_letter_triage/pipeline.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, lit, regexp_replace, when

from examples.dead_letter_triage.orders import CONFIGURATION, begin_work, send_orders, work
from examples.shared import chart
from examples.shared.local_spark import local_spark
from examples.shared.morning import Morning

ORDERS = 100  # in each queue
REPLAYED = "replayed-message-id"  # the header that a row of a read has after it was written back


def read(spark: SparkSession, data: Path, table: str) -> DataFrame:
    """Return a table of the store, which it reads as it is now."""
    return spark.read.format("penstock").options(path=str(data), table=table).load()


def replays(spark: SparkSession, data: Path) -> DataFrame:
    """Return the messages that were sent for dead letters (``message_id``), with their own ids (``replay_id``)."""
    replayed = col("headers")[REPLAYED]
    messages = read(spark, data, "messages").where(replayed.isNotNull())
    return messages.select(replayed.alias("message_id"), col("message_id").alias("replay_id"))


def open_dead_letters(spark: SparkSession, data: Path) -> DataFrame:
    """Return the dead letters that wait, without those that were replayed: they wait until they are purged."""
    dead = read(spark, data, "dead_letters").where("delivery_state = 'pending'")
    return dead.join(replays(spark, data), "message_id", "left_anti")


def by_cause(dead: DataFrame) -> DataFrame:
    """Return how many dead letters there are, by origin and cause."""
    return dead.groupBy("original_destination", "cause").agg(count(lit(1)).alias("messages"))


def repaired(dead: DataFrame) -> DataFrame:
    """Return the dead letters that can be handled after all, with the places where they failed as destinations."""
    amount = regexp_replace("body_text", r'"amount": (\d+),(\d\d)', '"amount": $1.$2')
    readable = from_json("body_text", "number int, amount double").amount.isNotNull()
    fixed = dead.withColumn("body_text", amount).where(readable)
    # Whoever sent an order that has expired still wants it: this time it may take as long as it takes.
    return fixed.withColumn("destination", col("original_destination")).withColumn(
        "expires", lit(None).cast("timestamp")
    )


def write_back(rows: DataFrame, url: str, write_id: str) -> None:
    """Send rows to the gateway.  The dry run fails if it would refuse one; a write id is never written twice."""
    for is_dry in ("true", "false"):
        sink = rows.write.format("penstock").mode("append").options(url=url, writeId=write_id, dryRun=is_dry)
        sink.save()


def fates(spark: SparkSession, data: Path) -> DataFrame:
    """Return each dead letter with its replay and how that ended; both are null for one that is left."""
    dead = read(spark, data, "dead_letters").select(
        "message_id", "original_message_id", "original_destination", "cause"
    )
    ends = read(spark, data, "deliveries").where("outcome <> 'failed'")
    ends = ends.select(col("message_id").alias("replay_id"), "outcome", "client_id")
    return dead.join(replays(spark, data), "message_id", "left").join(ends, "replay_id", "left")


def draw(path: Path, followed: DataFrame) -> None:
    """Draw the dead letters by origin and cause: those that were replayed, and those that are left."""
    counted = followed.groupBy("original_destination", "cause").agg(
        count("replay_id").alias("replayed"), count(when(col("replay_id").isNull(), 1)).alias("left")
    )
    rows = counted.orderBy("original_destination", "cause").collect()
    labels = [f"{row.original_destination.removeprefix('queue://')}: {row.cause}" for row in rows]
    series = {"replayed": [row.replayed for row in rows], "left": [row.left for row in rows]}
    chart.columns(path, "Dead letters by origin and cause", "messages", labels, series)


def run(spark: SparkSession, home: Path, orders: int) -> DataFrame:
    """Make dead letters, triage them, let the worker take the replays; return the fate of each."""
    data = home / "data"
    with Morning(home, CONFIGURATION) as morning:
        deliveries = send_orders(morning, orders)
        worker = begin_work(morning)
        work(morning, worker, deliveries)
        dead = open_dead_letters(spark, data)
        by_cause(dead).orderBy("original_destination", "cause").show(truncate=False)
        fixed = repaired(dead).orderBy("log_offset").cache()  # the dry run and the write see the same rows
        count_fixed = fixed.count()
        write_back(fixed, morning.url, "triage-2026-11-24")
        work(morning, worker, count_fixed)
        return fates(spark, data)


def main() -> None:
    """Run it, show the fates of some, draw all."""
    home = Path(tempfile.mkdtemp(prefix="penstock-dead-letter-triage-"))
    with local_spark() as spark:
        followed = run(spark, home, ORDERS)
        followed.where("outcome IS NOT NULL").orderBy("message_id").show(5, truncate=False)
        draw(home / "chart.svg", followed)
    print(f"The store and chart.svg are in {home}")


if __name__ == "__main__":
    main()
