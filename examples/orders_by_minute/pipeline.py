"""Orders by minute, as a stream: the log of a running gateway -> sums by minute -> a Parquet table and a chart.

.venv/bin/python examples/orders_by_minute/pipeline.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, lit, sum, window

from examples.orders_by_minute.orders import MINUTES, REGIONS, orders_between, send
from examples.shared import chart
from examples.shared.local_spark import local_spark
from examples.shared.morning import Morning


def add_new_minutes(spark: SparkSession, home: Path) -> None:
    """Add the minutes to the table that are complete since the last run: once each, whatever is killed meanwhile."""
    stream = spark.readStream.format("penstock").options(path=str(home / "data"), destination="orders.>")
    messages = stream.option("reader", "orders-by-minute").load()  # the name lets retention wait for it
    orders = messages.select(
        "store_time", col("destination_name").alias("queue"), from_json("body_text", "amount double").alias("order")
    )
    by_minute = (
        orders.withWatermark("store_time", "1 minute")  # a minute is complete when the log is a minute further
        .groupBy(window("store_time", "1 minute"), "queue")
        .agg(count(lit(1)).alias("orders"), sum("order.amount").alias("amount"))
        .select(col("window.start").alias("minute"), "queue", "orders", "amount")
    )
    table = by_minute.writeStream.format("parquet").option("path", str(home / "by_minute"))
    table = table.option("checkpointLocation", str(home / "checkpoint")).outputMode("append")
    table.trigger(availableNow=True).start().awaitTermination()


def draw(path: Path, table: DataFrame) -> None:
    """Draw the orders of each minute, a colour for each region."""
    found = {(row.queue, f"{row.minute:%H:%M}"): row.orders for row in table.collect()}
    minutes = sorted({minute for _, minute in found})
    series = {each: [found.get((f"orders.{each}", minute), 0) for minute in minutes] for each in REGIONS}
    chart.columns(path, "Orders by minute", "orders", minutes, series)


def run(spark: SparkSession, home: Path, minutes: int) -> DataFrame:
    """Let the morning pass; the pipeline runs in its middle and at its end.  Return the table."""
    with Morning(home) as morning:
        shop = morning.connect("shop")
        send(morning, shop, orders_between(0, minutes // 2))
        add_new_minutes(spark, home)
        send(morning, shop, orders_between(minutes // 2, minutes))
        add_new_minutes(spark, home)
    return spark.read.parquet(str(home / "by_minute")).orderBy("minute", "queue")


def main() -> None:
    """Run it, show the table, draw it."""
    home = Path(tempfile.mkdtemp(prefix="penstock-orders-by-minute-"))
    with local_spark() as spark:
        table = run(spark, home, MINUTES)
        table.groupBy("queue").agg(sum("orders"), sum("amount")).orderBy("queue").show()
        draw(home / "chart.svg", table)
    print(f"The store, the table by_minute and chart.svg are in {home}")


if __name__ == "__main__":
    main()
