"""Writes by Spark to a real gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.functions import col, lit

from spark_bridge.read.scan import scan
from spark_bridge.write.connection import WriteFailed
from spark_bridge.write.options import write_options
from spark_bridge.write.task import TRANSACTION_ROWS, Written, write_rows
from tests.support.process.gateway_process import GatewayProcess

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]  # pyspark's own warnings

Unique = Callable[[str], str]


def url_of(gateway: GatewayProcess) -> str:
    return f"stomp://{gateway.stomp_host}:{gateway.stomp_port}"


def writing(frame: DataFrame, gateway: GatewayProcess, **options: str) -> DataFrameWriter:
    writer = frame.write.format("penstock").mode("append")
    for name, value in {"url": url_of(gateway), **options}.items():
        writer = writer.option(name, value)
    return writer


def numbers(session: SparkSession, count: int) -> DataFrame:
    return session.range(count, numPartitions=2).select(col("id").cast("string").alias("body_text"))


def sent(gateway: GatewayProcess, queue: str) -> list[dict[str, Any]]:
    """Return the rows of the log for a queue, in order."""
    rows: list[dict[str, Any]] = scan(str(gateway.data), destination=f"queue://{queue}").read_all().to_pylist()
    return rows


def texts(gateway: GatewayProcess, queue: str) -> list[str]:
    return sorted((row["body_text"] for row in sent(gateway, queue)), key=int)


def count_to(number: int) -> list[str]:
    return [str(each) for each in range(number)]


def test_rows_become_messages(session: SparkSession, shared_gateway: GatewayProcess, unique: Unique) -> None:
    queue = unique("q")
    time = datetime(2040, 1, 1, tzinfo=UTC)
    frame = session.createDataFrame(
        [
            (f"queue://{queue}", b"\x00\xff", None, {"colour": "red: a\\b\n", "receipt": "r"}, 7, "c-1", time),
            (f"/queue/{queue}", None, "zwölf", None, None, None, None),
        ],
        "destination string, body binary, body_text string, headers map<string,string>, priority int, "
        "correlation_id string, expires timestamp",
    )
    writing(frame.coalesce(1), shared_gateway).save()
    first, second = sent(shared_gateway, queue)
    assert (first["body"], first["body_text"], first["priority"]) == (b"\x00\xff", None, 7)
    assert (first["correlation_id"], first["expires"]) == ("c-1", time)
    assert dict(first["headers"])["colour"] == "red: a\\b\n"
    assert (second["body"], second["body_text"], second["priority"]) == (None, "zwölf", 4)
    assert first["persistent"] and second["persistent"]


def test_a_write_with_the_same_id_is_written_once(
    session: SparkSession, shared_gateway: GatewayProcess, unique: Unique
) -> None:
    queue = unique("q")
    for write_id, expected in (("a", 1), ("a", 1), ("", 2), ("", 3)):
        asked = {"writeId": queue + write_id} if write_id else {}
        writing(numbers(session, 50), shared_gateway, destination=queue, **asked).save()
        assert texts(shared_gateway, queue) == sorted(count_to(50) * expected, key=int)


def test_a_task_that_fails_in_the_middle_is_run_again(shared_gateway: GatewayProcess, unique: Unique) -> None:
    queue = unique("q")
    options = write_options({"url": url_of(shared_gateway), "destination": queue})
    rows = [{"body_text": text} for text in count_to(TRANSACTION_ROWS + 100)]

    def failing() -> Iterator[dict[str, Any]]:
        yield from rows[:-1]
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        write_rows(options, f"{queue}/0", failing())
    assert texts(shared_gateway, queue) == count_to(TRANSACTION_ROWS)
    for expected in (Written(len(rows), TRANSACTION_ROWS), Written(len(rows), len(rows))):
        assert write_rows(options, f"{queue}/0", rows) == expected
    assert texts(shared_gateway, queue) == count_to(len(rows))


def test_a_kill_of_the_gateway_loses_nothing_and_doubles_nothing(gateway: GatewayProcess) -> None:
    rows = [{"body_text": text} for text in count_to(2 * TRANSACTION_ROWS + 100)]

    def write(rows: Iterable[dict[str, Any]]) -> Written:
        return write_rows(write_options({"url": url_of(gateway), "destination": "q"}), "w/0", rows)

    def killing(at: int) -> Iterator[dict[str, Any]]:
        yield from rows[:at]
        gateway.kill9()
        yield from rows[at:]

    for at in (10, TRANSACTION_ROWS + 10, len(rows)):
        with pytest.raises(WriteFailed):
            write(killing(at))
        gateway.restart()
    assert write(rows).rows == len(rows)
    assert texts(gateway, "q") == count_to(len(rows))


def test_a_dry_run_takes_nothing(session: SparkSession, shared_gateway: GatewayProcess, unique: Unique) -> None:
    queue = unique("q")
    writing(numbers(session, 10), shared_gateway, destination=queue, dryRun="true").save()
    assert sent(shared_gateway, queue) == []
    with pytest.raises(Exception, match="invalid destination: destination name 'a\\.\\.b' has an empty element"):
        writing(numbers(session, 10), shared_gateway, destination="a..b", dryRun="true").save()


def test_a_stream_writes_each_batch_once(
    session: SparkSession, shared_gateway: GatewayProcess, unique: Unique, tmp_path: Path
) -> None:
    queue = unique("q")
    incoming, checkpoint = tmp_path / "incoming", tmp_path / "checkpoint"
    incoming.mkdir()

    def run() -> None:
        lines = session.readStream.format("text").load(str(incoming)).withColumnRenamed("value", "body_text")
        stream = lines.writeStream.format("penstock").option("url", url_of(shared_gateway))
        stream = stream.option("destination", queue).option("checkpointLocation", str(checkpoint))
        stream.trigger(availableNow=True).start().awaitTermination()

    (incoming / "1").write_text("0\n1\n2\n")
    run()
    # The driver stops after the tasks have written, before it notes that.
    for note in (checkpoint / "commits").glob("*0*"):
        note.unlink()
    run()
    assert texts(shared_gateway, queue) == count_to(3)
    (incoming / "2").write_text("3\n4\n")
    run()
    assert texts(shared_gateway, queue) == count_to(5)


def test_rows_of_a_read_are_written_back(session: SparkSession, shared_gateway: GatewayProcess, unique: Unique) -> None:
    queue, again = unique("q"), unique("again")
    writing(numbers(session, 5).withColumn("type", lit("order")), shared_gateway, destination=queue).save()
    read = session.read.format("penstock").options(path=str(shared_gateway.data), payload="variant")
    rows = read.option("destination", queue).load().withColumn("destination", lit(f"queue://{again}"))
    writing(rows, shared_gateway).save()
    old, new = sent(shared_gateway, queue), sent(shared_gateway, again)
    replayed = sorted(dict(row["headers"])["replayed-message-id"] for row in new)
    assert replayed == sorted(row["message_id"] for row in old)
    assert {(row["body_text"], row["type"]) for row in new} == {(row["body_text"], row["type"]) for row in old}


def test_a_row_that_is_no_message_fails_the_write(session: SparkSession, shared_gateway: GatewayProcess) -> None:
    with pytest.raises(Exception, match="a row has no destination"):
        writing(numbers(session, 1), shared_gateway).save()
    with pytest.raises(Exception, match="unknown column 'text'; a write takes destination, body, body_text"):
        writing(numbers(session, 1).withColumnRenamed("body_text", "text"), shared_gateway).save()


def test_a_gateway_that_is_away_fails_the_write() -> None:
    options = write_options({"destination": "q", "url": "stomp://127.0.0.1:1"})
    with pytest.raises(WriteFailed, match="127.0.0.1:1 cannot be reached: .*Connection refused"):
        write_rows(options, "w/0", [{"body_text": "1"}])


def test_nothing_is_overwritten(session: SparkSession, shared_gateway: GatewayProcess) -> None:
    with pytest.raises(Exception, match="mode is overwrite; a destination only takes more messages"):
        writing(numbers(session, 1), shared_gateway, destination="q").mode("overwrite").save()
