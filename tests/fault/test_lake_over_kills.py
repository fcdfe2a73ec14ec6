"""``kill -9`` of exports, compactions, imports and the gateway: a lake has what was confirmed, each message once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from gateway.cli.shared.blocking_client import ConnectionLost
from spark_bridge.read.scan import scan
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway

pytest.importorskip("pyspark")
deltalake = pytest.importorskip("deltalake")

KILLS: Final = 5
KILLS_LONG: Final = 200
KILLS_IN_BUCKET: Final = 2
AT_ONCE: Final = 150
DELAYS_S: Final = {"export": 2.5, "compact": 1.5, "gateway": 0.3, "import": 1.5}  # the longest wait before a kill
EXPORTS_BETWEEN: Final = 0.3
GATEWAYS_AMONG_IMPORTS: Final = 0.2
GATEWAYS_AMONG_ROUNDS: Final = 0.4
FILES: Final = 4
LIMIT_S: Final = 120.0

EXPORT: Final = """
import sys
from pathlib import Path
from spark_bridge.export import Request, export
from tests.support.store.one_process_spark import OneProcessSpark
partitioning = tuple(sys.argv[5].split(","))
export(Request(Path(sys.argv[1]), "queue://sent", sys.argv[2], partitioning=partitioning), spark=OneProcessSpark())
"""
COMPACT: Final = """
import sys
from deltalake import DeltaTable
table = DeltaTable(sys.argv[4])
table.optimize.compact()
table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
"""
IMPORT: Final = """
import sys
from spark_bridge.lake_import import Request, import_lake
from spark_bridge.write.options import write_options
import_lake(Request(sys.argv[2], write_options({"url": sys.argv[3]}), to="back", write_id="back"))
"""


@dataclass(frozen=True)
class Place:
    """url: for us.  table, options: for others.  columns: of its partitioning."""

    url: str
    table: str
    options: dict[str, str]
    columns: str

    def kills(self, is_long: bool) -> int:
        if is_long:
            return KILLS_LONG
        return KILLS_IN_BUCKET if self.options else KILLS


@pytest.fixture(params=["directory destination,date", "directory date", "bucket destination,date", "bucket date"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind, columns = request.param.split()
    if kind == "directory":
        return Place(str(tmp_path / "lake"), str(tmp_path / "lake"), {}, columns)
    lake = request.getfixturevalue("s3_server").lake()
    return Place(lake.url, lake.table, lake.options, columns)


class Lake:
    """A gateway, what it has confirmed, and a lake of it."""

    def __init__(self, gateway: GatewayProcess, place: Place) -> None:
        self.gateway = gateway
        self.place = place
        self.confirmed: list[str] = []
        self.number = 0

    def url(self) -> str:
        return f"stomp://{self.gateway.stomp_host}:{self.gateway.stomp_port}"

    def send(self) -> None:
        client = raw_stomp.client(self.gateway)
        numbers = [str(self.number + one) for one in range(AT_ONCE)]
        self.number += AT_ONCE
        list(client.publish([("/queue/sent", number.encode()) for number in numbers]))
        client.close()
        self.confirmed += numbers

    def run(self, program: str, kill_after_s: float | None = None) -> None:
        """Run a program to its end, or kill it after some time."""
        command = [sys.executable, "-W", "ignore", "-c", program, str(self.gateway.data), self.place.url, self.url()]
        command += [self.place.table, self.place.columns]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | self.place.options
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            if kill_after_s is not None:
                time.sleep(kill_after_s)
                process.send_signal(signal.SIGKILL)
            _, told = process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
            process.wait()
        assert process.returncode in (0, -signal.SIGKILL), told

    def follow(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gateway", "export", "--follow", "--interval", "1s", "--new-bytes", "1"]
        command += ["--data", str(self.gateway.data), "--destination", "queue://sent", "--to", self.place.url]
        command += ["--partition-by", self.place.columns]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | self.place.options
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill_gateway(self, after_s: float) -> None:
        client = raw_stomp.client(self.gateway)
        end = time.monotonic() + after_s
        try:
            while time.monotonic() < end:
                (number,) = (str(self.number),)
                self.number += 1
                list(client.publish([("/queue/sent", number.encode())]))
                self.confirmed.append(number)
        except ConnectionLost:
            raise AssertionError("the gateway has closed the connection") from None
        self.gateway.kill9()
        client.close()
        self.gateway.restart(same_port=True)

    def delta(self) -> list[str]:
        table = pa.table(
            deltalake.DeltaTable(self.place.table, storage_options=self.place.options)
            .to_pyarrow_dataset()
            .to_table(columns=["body_text"])
        )
        found: list[str] = table["body_text"].to_pylist()
        return found

    def union(self) -> list[str]:
        read = scan(str(self.gateway.data), ["body_text"], destination="queue://sent", lake=self.place.url).read_all()
        found: list[str] = read["body_text"].to_pylist()
        return found


@pytest.fixture
def choose(pytestconfig: pytest.Config) -> random.Random:
    seed = pytestconfig.getoption("--seed")
    seed = random.randrange(1 << 30) if seed is None else seed
    print(f"--seed {seed}")
    return random.Random(seed)


def test_a_lake_has_each_message_once(
    start_gateway: StartGateway, place: Place, is_long: bool, choose: random.Random
) -> None:
    lake = Lake(start_gateway(configurations.small_segments()), place)
    lake.send()
    lake.run(EXPORT)
    for _ in range(place.kills(is_long)):
        lake.send()
        what = choose.choice(["export", "compact", "gateway"])
        after_s = choose.uniform(0, DELAYS_S[what])
        if what == "gateway":
            lake.kill_gateway(after_s)
        else:
            lake.run(EXPORT if what == "export" else COMPACT, after_s)
        assert sorted(lake.union()) == sorted(lake.confirmed), f"after a kill of {what}"
        if choose.random() < EXPORTS_BETWEEN:
            lake.run(EXPORT)
            assert sorted(lake.delta()) == sorted(lake.confirmed), f"after a kill of {what}"
    lake.run(EXPORT)
    assert sorted(lake.delta()) == sorted(lake.confirmed)


def test_a_lake_that_is_followed_has_each_message_once(
    start_gateway: StartGateway, place: Place, is_long: bool, choose: random.Random
) -> None:
    lake = Lake(start_gateway(configurations.small_segments()), place)
    lake.send()
    lake.run(EXPORT)
    follower = lake.follow()
    try:
        for _ in range(place.kills(is_long)):
            lake.send()
            after_s = choose.uniform(0, DELAYS_S["export"])
            if choose.random() < GATEWAYS_AMONG_ROUNDS:
                lake.kill_gateway(after_s)
            else:
                time.sleep(after_s)
                follower.kill()
                follower.communicate()
                follower = lake.follow()
            assert sorted(lake.union()) == sorted(lake.confirmed)
        lake.send()
        end = time.monotonic() + LIMIT_S
        while sorted(lake.delta()) != sorted(lake.confirmed) and follower.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        follower.terminate()
        _, told = follower.communicate(timeout=LIMIT_S)
        assert follower.returncode == 0, told
    finally:
        follower.kill()
        follower.wait()
    assert sorted(lake.delta()) == sorted(lake.confirmed), told


def test_an_import_writes_each_message_once_and_in_order(
    start_gateway: StartGateway, place: Place, is_long: bool, choose: random.Random
) -> None:
    lake = Lake(start_gateway(configurations.small_segments()), place)
    for _ in range(FILES):
        lake.send()
        lake.run(EXPORT)
    for _ in range(place.kills(is_long)):
        if choose.random() < GATEWAYS_AMONG_IMPORTS:
            lake.kill_gateway(0)
        else:
            lake.run(IMPORT, choose.uniform(DELAYS_S["import"] / 3, DELAYS_S["import"]))
    lake.run(IMPORT)
    back = scan(str(lake.gateway.data), ["body_text"], destination="queue://back").read_all()["body_text"].to_pylist()
    assert back == [str(number) for number in range(FILES * AT_ONCE)]
