"""Exports and streams that follow a gateway by its URL, over restarts and kills: each message once, and known to it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from pyarrow.dataset import dataset

from engine.store.read.catalog import read_catalog
from engine.store.read.reader import StoreReader
from engine.values.errors import StoreError
from gateway.cli.shared.blocking_client import BlockingClient
from spark_bridge.errors import LakeError
from spark_bridge.files.choice import store_at
from spark_bridge.read.scan import plan_read, scan
from spark_bridge.stream.micro_batches import LogStream, Place
from tests.support.config.configurations import with_user
from tests.support.process import raw_stomp
from tests.support.process.command import answer, penstock
from tests.support.process.gateway_process import ROOT, GatewayProcess, StartGateway
from tests.support.process.request_proxy import request_proxy
from tests.support.process.waiting import wait_until

CONFIG: Final = """\
store:
  segment-bytes: 64 KiB
  retention: {time: 1s}
permissions:
  - {match: ">", read: [readers, guests, clerks], write: clerks, create: clerks, export: readers}
addresses:
  - {match: ">", retention: {until-exported: true}}
"""
BODIES: Final = pa.schema([("body_text", pa.string())])
TURNS: Final = 4
TURNS_LONG: Final = 60
AT_ONCE: Final = 120
KILLS: Final = 3
LIMIT_S: Final = 240.0


class Followed:
    """A gateway, what it has confirmed, and who follows it from elsewhere."""

    def __init__(self, gateway: GatewayProcess, lake: Path) -> None:
        self.gateway = gateway
        self.lake = lake
        self.confirmed: list[str] = []

    def url(self, user: str = "lake") -> str:
        return with_login(self.gateway.http_url, user)

    def send(self) -> None:
        gateway = self.gateway
        client = BlockingClient(gateway.stomp_host, gateway.stomp_port, "clerk", "secret", limit_s=LIMIT_S)
        bodies = [f"{len(self.confirmed) + number:05}" + "x" * 500 for number in range(AT_ONCE)]
        list(client.publish([("/queue/sent", body.encode()) for body in bodies]))
        client.close()
        self.confirmed += bodies

    def follow(self) -> subprocess.Popen[str]:
        return self.start_export(self.lake, "--follow", "--interval", "1s")

    def start_export(self, lake: Path, *options: str, url: str = "") -> subprocess.Popen[str]:
        """url: that of a proxy; "" for the gateway's."""
        command = [sys.executable, "-m", "gateway", "export", "--master", "none", *options]
        command += ["--data", with_login(url) or self.url(), "--destination", "queue://sent", "--to", str(lake)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def in_lake(self) -> list[str]:
        return bodies_of(self.lake)

    def in_log(self) -> list[str]:
        found: list[str] = (
            scan(str(self.gateway.data), ["body_text"], destination="queue://sent").read_all()[0].to_pylist()
        )
        return found

    def oldest(self) -> int:
        return StoreReader(self.gateway.data).oldest_offset

    def take(self, count: int) -> None:
        """Consume so many messages."""
        client = BlockingClient(self.gateway.stomp_host, self.gateway.stomp_port, "clerk", "secret", limit_s=LIMIT_S)
        raw_stomp.subscribe(client, "/queue/sent", count)
        for number, message in enumerate([raw_stomp.message(client) for _ in range(count)]):
            raw_stomp.send_ack(client, message, str(number))
        client.flush()
        for number in range(count):
            assert client.next_frame().head.headers["receipt-id"] == str(number)
        client.close()

    def readers(self) -> dict[str, dict[str, Any]]:
        words = ["store", "readers", "--http", self.gateway.http_url, "--user", "lake", "--json"]
        told = answer(*words, PENSTOCK_PASSWORD="secret")
        return {each["kind"]: each for each in map(json.loads, told.splitlines())}

    def lag(self) -> dict[str, int]:
        """Return the octets of log that each kind of reader lacks, as its gateway knows them."""
        return {kind: each["lag_bytes"] for kind, each in self.readers().items()}


class Stream(threading.Thread):
    """A named stream, as Spark runs it: a query that fails begins again at its checkpoint."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.bodies: list[str] = []
        self.failures: list[str] = []
        self.is_ending = threading.Event()
        self._place: Place | None = None

    def run(self) -> None:
        while not self.is_ending.is_set():
            try:
                self._query()
            except (LakeError, StoreError) as error:
                self.failures.append(str(error))

    def _query(self) -> None:
        options = {"path": self.url, "destination": "queue://sent", "reader": "billing", "from-offset": "earliest"}
        stream = LogStream(options, ["body_text"])
        self._place = self._place or stream.first()
        stream.has_read(self._place)
        while not self.is_ending.wait(0.05):
            end = stream.batch_end(self._place, stream.last())
            if end != self._place:
                tasks = stream.tasks(self._place, end)
                found = [text for task in tasks for batch in task.rows() for text in batch.column(0).to_pylist()]
                self.bodies += found
                self._place = end
                stream.has_read(end)


def with_login(url: str, user: str = "lake") -> str:
    return url.replace("http://", f"http://{user}:secret@")


def bodies_of(lake: Path) -> list[str]:
    """Return what readers of the lake see: not what an export is writing."""
    if not (lake / "_delta_log").exists():
        return []
    table = dataset(str(lake), format="parquet", schema=BODIES).to_table()
    return sorted(table["body_text"].to_pylist())


def users() -> str:
    """Return the users clerk, lake and guest, each with a group of its own."""
    groups = {"clerk": "clerks", "lake": "readers", "guest": "guests"}
    found = "".join(
        with_user(name, "secret").partition("\n")[2] + f"    groups: {group}\n" for name, group in groups.items()
    )
    return f"users:\n{found}"


@pytest.fixture
def followed(start_gateway: StartGateway, tmp_path: Path) -> Followed:
    gateway = start_gateway(users() + CONFIG)
    gateway.http_login = ("lake", "secret")
    return Followed(gateway, tmp_path / "lake")


def test_each_message_once_over_restarts_and_kills(followed: Followed, is_long: bool, seed: int) -> None:
    print(f"--seed {seed}")
    choose = random.Random(seed)
    gateway = followed.gateway
    followed.send()
    stream = Stream(followed.url())
    stream.start()
    follower = followed.follow()
    try:
        for _ in range(TURNS_LONG if is_long else TURNS):
            time.sleep(choose.uniform(0, 2))
            what = choose.choice(["kill", "restart", "follower"])
            if what == "kill":
                gateway.kill9()
            if what == "follower":
                follower.kill()
                follower.communicate()
                follower = followed.follow()
            else:
                gateway.restart(same_port=True)
            followed.send()

        def has_everything() -> bool:
            assert stream.is_alive(), stream.failures
            assert follower.poll() is None, follower.communicate()[1]
            return len(stream.bodies) >= len(followed.confirmed) <= len(followed.in_lake())

        wait_until(has_everything, "all messages at both", LIMIT_S)
        assert followed.in_lake() == followed.confirmed
        assert stream.bodies == followed.confirmed == followed.in_log()
        # A lake has the messages before its gateway learns of them.
        no_lag = {"export": 0, "stream": 0}
        wait_until(lambda: followed.lag() == no_lag, "both readers without lag", LIMIT_S, 0.5)
        assert followed.readers()["stream"]["reader"] == "billing"
        assert followed.readers()["export"]["reader"].endswith(f":{followed.lake}")
        metrics = gateway.get("/metrics")[1]
        assert "penstock_log_reader_lag_bytes{" in metrics and 'reader="billing"' in metrics
    finally:
        stream.is_ending.set()
        follower.terminate()
        _, told = follower.communicate(timeout=LIMIT_S)
        stream.join(LIMIT_S)
    assert follower.returncode == 0, told


def test_retention_waits_for_a_stream_elsewhere(followed: Followed) -> None:
    gateway = followed.gateway
    with pytest.raises(StoreError, match="needs the permission read and export for all destinations"):
        stream_of(followed.url("guest"))
    slow = stream_of(followed.url())
    for _ in range(4):
        followed.send()
    followed.take(4 * AT_ONCE)
    held = "queue://sent is read by stream 'billing' up to log offset 0 of "
    wait_until(lambda: held in gateway.get("/api/overview")[1], "the alarm", LIMIT_S, 0.2)
    assert "penstock_retention_held 1.0\n" in gateway.get("/metrics")[1]
    words = ["store", "du", "--why", "--http", gateway.http_url, "--user", "lake"]
    assert "waits for stream 'billing', which is at log offset 0" in answer(*words, PENSTOCK_PASSWORD="secret")
    words = ["why", "reader", "billing", "--http", gateway.http_url, "--user", "lake"]
    told = answer(*words, PENSTOCK_PASSWORD="secret").splitlines()
    assert told[0].startswith("stream billing of") and held in told[1]
    assert (
        "no export and no named stream is 'x'; there are: 'billing'"
        in penstock("why", "reader", "x", "--data", str(gateway.data)).stderr
    )
    gateway.kill9()
    gateway.restart(same_port=True)
    assert followed.oldest() == 0
    slow.has_read(slow.last())
    wait_until(lambda: followed.oldest() > 0, "retention", LIMIT_S, 0.2)
    words = ["store", "readers", "--forget", "billing", "--http", gateway.http_url, "--user"]
    for user, status in (("guest", 1), ("lake", 0), ("lake", 1)):
        assert penstock(*words, user, PENSTOCK_PASSWORD="secret").returncode == status
    assert followed.readers() == {}


@pytest.mark.slow
def test_retention_goes_on_after_the_lease_of_a_killed_export(followed: Followed, tmp_path: Path) -> None:
    gateway = followed.gateway
    for _ in range(4):
        followed.send()
    followed.take(4 * AT_ONCE)
    killed = followed.start_export(tmp_path / "slow", "--rate", "1KiB")
    words = ["store", "du", "--why", "--http", gateway.http_url, "--user", "lake"]
    try:
        wait_until(lambda: any((gateway.data / "readers").glob("*.json")), "the lease", LIMIT_S, 0.2)
        done = followed.start_export(tmp_path / "fast")
        _, told = done.communicate(timeout=LIMIT_S)
        assert done.returncode == 0, told
        held = f"the export to {tmp_path / 'slow'} of user 'lake' over HTTP reads it"
        wait_until(lambda: held in answer(*words, PENSTOCK_PASSWORD="secret"), "retention to wait", LIMIT_S, 1.0)
        assert killed.poll() is None and followed.oldest() == 0
    finally:
        killed.kill()
        killed.communicate()
    wait_until(lambda: followed.oldest() > 0, "retention", LIMIT_S, 0.5)


def test_a_lease_goes_on_after_a_restart(followed: Followed, tmp_path: Path) -> None:
    gateway = followed.gateway
    asked = {"reader": "a slow read", "from_offset": 0, "lease_ms": 60_000}
    begun = json.loads(gateway.get("/api/store/leases", asked)[1])
    for _ in range(4):
        followed.send()
    followed.take(4 * AT_ONCE)
    _, told = followed.start_export(tmp_path / "fast").communicate(timeout=LIMIT_S)
    assert told == ""
    gateway.kill9()
    gateway.restart(same_port=True)
    place = f"/api/store/leases/{begun['lease']}"
    renewed = json.loads(gateway.get(place, {})[1])
    assert renewed["lease"] == begun["lease"] and renewed["until_ms"] > begun["until_ms"]
    words = ["store", "du", "--why", "--http", gateway.http_url, "--user", "lake"]

    def is_waiting() -> bool:
        assert gateway.get(place, {})[0] == 200
        return "a slow read of user 'lake' over HTTP reads it" in answer(*words, PENSTOCK_PASSWORD="secret")

    wait_until(is_waiting, "retention to wait", LIMIT_S, 0.5)
    assert followed.oldest() == 0
    assert gateway.get(place, {"lease_ms": 1_000})[0] == 200
    wait_until(lambda: followed.oldest() > 0, "retention", LIMIT_S, 0.5)


def test_a_kill_before_any_request_of_an_export(followed: Followed, tmp_path: Path, is_long: bool, seed: int) -> None:
    """Default: before a few requests of an export, chosen at random; long: before each."""
    print(f"--seed {seed}")
    gateway = followed.gateway
    for _ in range(3):
        followed.send()

    def kill() -> None:
        gateway.kill9()
        gateway.restart(same_port=True)

    def requests_of_export(place: int | None) -> int:
        lake = tmp_path / f"lake-{place}"
        with request_proxy(gateway.http_url, kill, place) as proxy:
            _, told = followed.start_export(lake, url=proxy.url).communicate(timeout=LIMIT_S)
        assert told == "" and bodies_of(lake) == followed.confirmed, f"killed before request {place}: {told}"
        return proxy.count

    places, pid = range(requests_of_export(None)), gateway.pid
    for place in places if is_long else random.Random(seed).sample(places, KILLS):
        requests_of_export(place)
    assert gateway.pid != pid, "a kill"


@pytest.mark.parametrize("stop", ["kill", "restart"])
def test_a_read_goes_on_over_a_restart(followed: Followed, stop: str) -> None:
    gateway = followed.gateway
    for _ in range(3):
        followed.send()
    read = plan_read({"path": followed.url(), "verify": "true"})
    listed = store_at(followed.url())
    gateway.kill9() if stop == "kill" else None
    gateway.restart(same_port=True)
    followed.send()
    rows = sum(len(batch) for task in range(read.tasks()) for batch in read.rows(task))
    assert rows == 3 * AT_ONCE
    names = [each.name for each in read_catalog(StoreReader(listed), checks_entries=True).destinations.values()]
    assert "sent" in names


def stream_of(url: str) -> LogStream:
    stream = LogStream({"path": url, "reader": "billing"}, ["body_text"])
    stream.has_read(stream.first())
    return stream
