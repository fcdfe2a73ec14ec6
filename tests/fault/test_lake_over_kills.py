"""``kill -9`` of works on a lake and of what they work with: each confirmed message is there once, none twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.cli.shared.blocking_client import ConnectionLost, Refused
from spark_bridge.export import Request, export
from spark_bridge.read.scan import scan
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway
from tests.support.process.lake_works import BACK, COPIED, SENT, SINK_ROWS

pytest.importorskip("pyspark")
deltalake = pytest.importorskip("deltalake")

WORK: Final = "work"  # the process of the work: with Spark, its driver
# Patterns of command lines.  A worker of Spark runs tasks and plans reads; ours has a daemon of its own.
WORKER: Final = r"-m (pyspark|spark_bridge\.spark)\."
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
GATEWAY: Final = "gateway"

HERE: Final = ("directory destination,date",)
EVERYWHERE: Final = (*HERE, "directory date", "bucket destination,date", "bucket date")
KILLS: Final = 1  # of each victim of a case
KILLS_LONG: Final = 5
BEFORE: Final = 4  # exports before the kills begin
AT_ONCE: Final = 500
PAUSE_S: Final = 0.02  # between messages of the traffic beside
LIMIT_S: Final = 240.0
POLL_S: Final = 0.02
MOMENT_S: Final = 0.5


@dataclass(frozen=True)
class Case:
    """works: one is drawn for each run.  span_s: before each kill, at most.

    survives: the gateway's end does not matter to the work.
    """

    works: str
    victims: tuple[str, ...]
    span_s: float
    places: tuple[str, ...] = HERE
    survives: bool = True
    needs_spark: bool = False

    def may_fail(self, victim: str) -> bool:
        """Return whether a run may end with an error; Spark gives up a query whose workers come too late."""
        return victim != GATEWAY or not self.survives or self.needs_spark


CASES: Final = [
    Case("export_alone compact", (WORK, GATEWAY), 0.6, EVERYWHERE),
    Case("export_alone compact expire", (WORK,), 0.6),
    Case("export_by_url", (WORK, GATEWAY), 0.6, survives=False),
    Case("follow", (WORK, GATEWAY), 3.0, EVERYWHERE),
    Case("import_back", (WORK, GATEWAY), 1.5, EVERYWHERE, survives=False),
    Case("export_on_spark", (WORK, WORKER, GATEWAY), 3.0, needs_spark=True),
    Case("export_on_executors", (WORK, EXECUTOR), 5.0, needs_spark=True),
    Case("stream", (WORK, WORKER, GATEWAY), 8.0, needs_spark=True),
    Case("sink", (WORK, WORKER, GATEWAY), 8.0, survives=False, needs_spark=True),
    Case("copy", (WORK, WORKER, GATEWAY), 8.0, survives=False, needs_spark=True),
]


@dataclass(frozen=True)
class Place:
    """url: for us.  table, options: for others.  columns: of its partitioning."""

    url: str
    table: str
    options: dict[str, str]
    columns: str


class Traffic(threading.Thread):
    """Sends to the gateway, in all its lives, until it is told to stop.

    sent: also what was never confirmed, which may have arrived.
    """

    def __init__(self, gateway: GatewayProcess) -> None:
        super().__init__(daemon=True)
        self.confirmed: list[str] = []
        self.sent: list[str] = []
        self._gateway = gateway
        self._stopped = threading.Event()

    def send(self, count: int) -> None:
        first = len(self.sent)
        numbers = [str(first + one) for one in range(count)]
        self.sent += numbers
        client = raw_stomp.client(self._gateway)
        try:
            for at in client.publish([("/queue/sent", number.encode()) for number in numbers]):
                self.confirmed.append(numbers[at])
        finally:
            client.close()

    def run(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            try:
                self.send(1)
            except (ConnectionLost, Refused, OSError):
                pass  # the gateway has been killed

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@dataclass
class Lake:
    """A gateway, its traffic, a lake of it, and what other works make of it.  turn: see ``lake_works``."""

    gateway: GatewayProcess
    traffic: Traffic
    place: Place
    choose: random.Random
    turn: int = 0
    kills: Counter[str] = field(default_factory=Counter)

    def start(self, work: str, errors: Path) -> subprocess.Popen[str]:
        stomp = f"stomp://{self.gateway.stomp_host}:{self.gateway.stomp_port}"
        words = [work, str(self.gateway.data), stomp, self.gateway.http_url, str(self.turn)]
        words += [self.place.url, self.place.table, self.place.columns]
        command = [sys.executable, "-W", "ignore", "-m", "tests.support.process.lake_works", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | self.place.options
        with errors.open("w") as file:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=file, text=True)
        assert process.stdout is not None
        if not process.stdout.readline():
            end(process)
            raise AssertionError(f"{work} has not begun: {errors.read_text()[-4000:]}")
        return process

    def run(self, work: str, victim: str = "", span_s: float = 0.0, kills: int = 0, may_fail: bool = False) -> int:
        """Run a work to its end, with up to so many kills of a victim meanwhile; return how many there were."""
        errors = self.gateway.data.parent / "errors"
        process = self.start(work, errors)
        killed = 0
        try:
            while killed < kills and process.poll() is None:
                time.sleep(self.choose.uniform(0, span_s))
                killed += self._kill(process, victim)
            if work == "follow":
                process.terminate()
            with suppress(subprocess.TimeoutExpired):  # it has failed then
                process.communicate(timeout=LIMIT_S)
        finally:
            end(process)
        self.kills[victim] += killed
        if process.returncode == 0:
            self.turn += 1
        elif victim != WORK:
            assert may_fail, f"{work} after a kill of {victim or 'nothing'}: {errors.read_text()[-4000:]}"
        return killed

    def _kill(self, process: subprocess.Popen[str], victim: str) -> bool:
        """Return whether there was somebody to kill."""
        if victim == GATEWAY:
            self.gateway.kill9()
            self.gateway.restart(same_port=True)
            return True
        found = [process.pid] if victim == WORK else self._below(process, victim)
        if not found or process.poll() is not None:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.choose.choice(found), signal.SIGKILL)
            return True
        return False

    def _below(self, process: subprocess.Popen[str], victim: str) -> list[int]:
        """Return such processes of Spark, at some time after the first one has begun: some live for a moment only."""
        while process.poll() is None and not any(re.search(victim, command) for _, command in below(process.pid)):
            time.sleep(POLL_S)
        time.sleep(self.choose.uniform(0, MOMENT_S))
        return [pid for pid, command in below(process.pid) if re.search(victim, command)]

    def lake(self) -> list[str]:
        table = deltalake.DeltaTable(self.place.table, storage_options=self.place.options)
        return bodies(pa.table(table.to_pyarrow_dataset().to_table(columns=["log_offset", "body_text"])))

    def union(self) -> list[str]:
        return bodies(
            scan(str(self.gateway.data), ["log_offset", "body_text"], destination=SENT, lake=self.place.url).read_all()
        )

    def log(self, destination: str) -> list[str]:
        return bodies(scan(str(self.gateway.data), ["log_offset", "body_text"], destination=destination).read_all())

    def batches(self) -> list[str]:
        return [
            text
            for path in sorted((self.gateway.data.parent / "batches").glob("*.parquet"))
            for text in pq.read_table(path)["body_text"].to_pylist()
        ]

    def check_meanwhile(self, case: Case) -> None:
        confirmed, sent = list(self.traffic.confirmed), self.union()
        assert len(set(sent)) == len(sent), "twice"
        if "expire" not in case.works:
            assert set(confirmed) <= set(sent), "lost"

    def check_end(self, case: Case) -> None:
        sent = self.log(SENT)
        assert len(set(sent)) == len(sent) and set(self.traffic.confirmed) <= set(sent) <= set(self.traffic.sent)
        if case.works == "sink":
            written = [f"{turn}-{number}" for turn in range(self.turn) for number in range(SINK_ROWS)]
            assert sorted(self.log(BACK)) == sorted(written)
        elif case.works == "import_back":
            assert self.log(BACK) == self.lake() * self.turn
        elif case.works == "copy":
            assert sorted(self.log(COPIED)) == sorted(sent)
        elif case.works == "stream":
            assert sorted(self.batches()) == sorted(sent)
        elif "expire" in case.works:
            lake = self.lake()
            assert lake == sent[len(sent) - len(lake) :]
        else:
            assert self.lake() == sent


def bodies(rows: pa.Table) -> list[str]:
    found: list[str] = rows.sort_by("log_offset")["body_text"].to_pylist()
    return found


def end(process: subprocess.Popen[str]) -> None:
    with process:  # closes its output
        process.kill()


def below(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the descendants of a process, and their command lines."""
    try:
        children = [
            int(each)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for each in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        try:
            yield child, Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        yield from below(child)


@pytest.fixture
def choose(pytestconfig: pytest.Config) -> random.Random:
    seed = pytestconfig.getoption("--seed")
    seed = random.randrange(1 << 30) if seed is None else seed
    print(f"--seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize(
    ("case", "where"),
    [pytest.param(case, where, id=f"{case.works}, {where}") for case in CASES for where in case.places],
)
def test_each_message_is_there_once(
    start_gateway: StartGateway,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    case: Case,
    where: str,
    is_long: bool,
    choose: random.Random,
) -> None:
    if case.needs_spark and not is_long:
        pytest.skip("each start of Spark takes seconds; the long form kills here, too")
    kind, columns = where.split()
    place = Place(str(tmp_path / "lake"), str(tmp_path / "lake"), {}, columns)
    if kind == "bucket":
        bucket = request.getfixturevalue("s3_server").lake()
        place = Place(bucket.url, bucket.table, bucket.options, columns)
    gateway = start_gateway(configurations.small_segments())
    lake = Lake(gateway, Traffic(gateway), place, choose)
    for _ in range(BEFORE):
        lake.traffic.send(AT_ONCE)
        export(Request(gateway.data, SENT, place.url, master="none", partitioning=tuple(columns.split(","))))
    lake.traffic.start()
    for victim in case.victims:
        left = KILLS_LONG if is_long else KILLS
        while left > 0:
            left -= lake.run(choose.choice(case.works.split()), victim, case.span_s, left, case.may_fail(victim))
            lake.check_meanwhile(case)
    lake.traffic.stop()
    turn = lake.turn
    while lake.turn == turn:
        lake.run(case.works.split()[0], may_fail=case.needs_spark)
    lake.check_end(case)
    print(f"killed: {dict(lake.kills)}")
