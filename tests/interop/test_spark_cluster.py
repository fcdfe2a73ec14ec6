"""A Spark of several machines: exports, reads and writes through a cluster whose workers have no Penstock.

``tests.support.process.spark_cluster`` makes the machines.  All tests here use one cluster and one store; each has
destinations, and directories for exports, of its own.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset as ds

from spark_bridge.read.scan import scan
from spark_bridge.spark.jvm import JavaNotFound, find_java_home, packaged_java
from tests.support.config import configurations
from tests.support.process.containers import Program, why_not
from tests.support.process.spark_cluster import BARE, HTTP_PORT, INSTALLED, STOMP_PORT, STORE, SparkCluster, result
from tests.support.process.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

USER, PASSWORD = "ann", "se:cr@t"
QUOTED: Final = f"{USER}:se%3Acr%40t"
BODY: Final = 2000

FILL: Final = """
import json, sys
from gateway.cli.shared.blocking_client import BlockingClient
queue, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = BlockingClient("127.0.0.1", int(sys.argv[4]), sys.argv[5], sys.argv[6])
print(json.dumps(len(list(client.publish((f"/queue/{queue}", b"%d " % n + b"x" * size) for n in range(count))))))
"""

SESSION: Final = """
import json, sys
from pyspark.sql import SparkSession
master, host, path = sys.argv[1:4]
builder = SparkSession.builder.master(master).config("spark.driver.host", host).config("spark.task.maxFailures", "1")
session = builder.config("spark.driver.bindAddress", "0.0.0.0").getOrCreate()

def rows(path, **options):
    found = session.read.format("penstock").options(path=path, columns="destination,body_text", **options).load()
    return sorted(row.body_text.partition(" ")[0] for row in found.collect())
"""

# The worker has no Penstock: it gets the modules, and crc32c is none of them.
REGISTERED: Final = f"""{SESSION}
from spark_bridge.source import register
http, stomp, user, password, queue, again = sys.argv[4:]

def origins(_):
    import importlib.util
    import spark_bridge
    yield spark_bridge.__file__, importlib.util.find_spec("crc32c") is None, importlib.util.find_spec("gateway") is None

told = {{}}
try:
    rows(path)
except Exception as error:
    told["unregistered"] = str(error)
register(session)
told["origins"] = session.sparkContext.parallelize([0], 1).mapPartitions(origins).collect()[0]
told["rows"] = rows(path, where=f"destination = 'queue://{{queue}}' AND log_offset > 0", partitionBytes="20000")
told["http"] = rows(http, destination=queue)
read = session.read.format("penstock").options(path=path, destination=queue).load().select("body_text")
write = read.repartition(4).sort("body_text").write.format("penstock").mode("append").option("url", stomp)
for _ in range(2):
    write.options(user=user, password=password, destination=again, writeId=again).save()
print(json.dumps(told))
"""

INSTALLED_JOB: Final = f"""{SESSION}
print(json.dumps(rows(path, destination=sys.argv[4])))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, is_long: bool) -> Iterator[SparkCluster]:
    if not is_long:
        pytest.skip("starts eight JVMs, with --long")
    if reason := why_not():
        pytest.skip(reason)
    try:
        java_home = find_java_home(os.environ, packaged_java())
    except JavaNotFound as error:
        pytest.skip(str(error))
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"), java_home, configurations.with_user(USER, PASSWORD))
    yield cluster
    cluster.stop()


def fill(cluster: SparkCluster, queue: str, count: int, size: int = BODY) -> list[str]:
    words = (queue, str(count), str(size), str(STOMP_PORT), USER, PASSWORD)
    assert cluster.run_job(f"fill-{queue}", FILL, *words) == count
    return sorted(map(str, range(count)))


def exported(cluster: SparkCluster, what: str) -> list[dict[str, Any]]:
    table = ds.dataset(cluster.lake / what, partitioning="hive").to_table(["log_offset", "body_text", "delivery_state"])
    return sorted(table.to_pylist(), key=lambda row: row["log_offset"])


def expect_all(cluster: SparkCluster, what: str, told: dict[str, Any]) -> None:
    """The rows of an export are those of the log, each once."""
    columns = ["log_offset", "body_text", "delivery_state"]
    rows = scan(str(cluster.store), columns, to_offset=told["to_offset"]).read_all().to_pylist()
    assert exported(cluster, what) == sorted(rows, key=lambda row: row["log_offset"])
    assert told["rows"] == len(rows)


def test_an_export_has_the_rows_of_the_store(cluster: SparkCluster) -> None:
    fill(cluster, "exported", 300)
    told = result(cluster.start_export("exported", "--driver-host", cluster.driver.address).result())
    expect_all(cluster, "exported", told)


def test_a_killed_executor_costs_no_row_and_doubles_none(cluster: SparkCluster) -> None:
    fill(cluster, "killed", 200, 4 * BODY)
    words = ("--driver-host", cluster.driver.address, "--rate", "512KiB")
    export = cluster.start_export("killed", *words, PYSPARK_PYTHON=f"{BARE}/bin/python")
    wait_until(lambda: reads(cluster, export), "an executor reads the log", 240.0)
    for executor in cluster.executors():
        os.kill(executor, signal.SIGKILL)
    told = result(export.result())
    expect_all(cluster, "killed", told)
    assert len(cluster.started_executors()) > 1


def reads(cluster: SparkCluster, export: Program) -> bool:
    """Return whether a task has loaded all that it needs, and waits for the time of its next read."""
    assert export.is_running(), export.told()[-4000:]
    for process in cluster.worker.processes("pyspark.daemon"):
        try:
            has_arrow = "libarrow" in Path(f"/proc/{process}/maps").read_text()
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        if has_arrow and state == "S":
            return True
    return False


def test_an_address_that_executors_do_not_reach_is_an_error(cluster: SparkCluster) -> None:
    """Spark takes that of the host's name, which the worker has no way to."""
    fill(cluster, "unreached", 1)
    done = cluster.start_export("unreached", "--executor-wait", "3s").result()
    assert done.returncode == 1, done.stderr
    assert "Spark has had no executor for 3 seconds: the cluster has no free worker, or" in done.stderr
    assert "(--driver-host)" in done.stderr and "Traceback" not in done.stderr
    assert not list((cluster.lake / "unreached").glob("destination=*"))


@pytest.mark.parametrize(
    ("master", "reason"),
    [("spark://10.77.0.99:7077", "No route to host"), ("spark://10.77.0.2:1", "Connection refused")],
)
def test_a_master_that_is_away_is_an_error(cluster: SparkCluster, master: str, reason: str) -> None:
    fill(cluster, "away", 1)
    done = cluster.start_export("away", master=master).result()
    assert done.returncode == 1, done.stderr
    assert f"the Spark master cannot be reached: {master.removeprefix('spark://')}: " in done.stderr
    assert reason in done.stderr and "Traceback" not in done.stderr


def test_a_session_reads_and_writes_with_workers_that_have_no_penstock(cluster: SparkCluster) -> None:
    count = 200
    bodies = fill(cluster, "job", count, 100)
    address = cluster.driver.address
    http, stomp = f"http://{QUOTED}@{address}:{HTTP_PORT}", f"stomp://{address}:{STOMP_PORT}"
    words = (cluster.url, address, STORE, http, stomp, USER, PASSWORD, "job", "again")
    told = cluster.run_job("job", REGISTERED, *words)
    assert "No module named 'spark_bridge'" in told["unregistered"]
    module, is_slow, is_without_gateway = told["origins"]
    assert ".zip/" in module and is_slow and is_without_gateway
    assert told["rows"] == told["http"] == bodies
    written = scan(str(cluster.store), ["body_text"], destination="queue://again").read_all()["body_text"]
    assert Counter(body.partition(" ")[0] for body in written.to_pylist()) == Counter(bodies)


def test_a_session_reads_where_penstock_is_installed(cluster: SparkCluster) -> None:
    bodies = fill(cluster, "installed", 100, 100)
    words = (cluster.url, cluster.driver.address, STORE, "installed")
    told = cluster.run_job("installed", INSTALLED_JOB, *words, worker_python=INSTALLED)
    assert told == bodies
