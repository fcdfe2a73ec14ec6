"""``penstock store`` over HTTP: each command on a running gateway, which continues meanwhile."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.process.command import penstock
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.stomp_py import Client

CONFIG = "store:\n  segment-bytes: 64 KiB\n"
COUNT = 300


def _store(gateway: GatewayProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return penstock("store", *words, "--http", gateway.http_url, "--json")


def _lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_command(start_gateway: StartGateway, unique: Callable[[str], str], tmp_path: Path) -> None:
    gateway = start_gateway(CONFIG)
    name = unique("q")
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1000"})
    for number in range(COUNT):
        client.send(f"/queue/{name}", f"{number:03}" + "x" * 1000, keys=f"k{number % 10}")
    for _ in range(100):
        client.ack(client.message())

    *segments, total = _lines(_store(gateway, "du", "--why"))
    assert len(segments) > 3 and total["log_disk_bytes"] > 300_000
    dumped = _lines(_store(gateway, "dump"))
    assert sum(each["type"] == "message" for each in dumped) == COUNT
    assert [each["sequence"] for each in dumped] == list(range(1, len(dumped) + 1))
    (summary,) = _lines(_store(gateway, "verify"))
    assert summary["findings"] == 0 and summary["message_count"] >= COUNT
    assert not list(gateway.data.glob("verifying-*"))
    left_behind = gateway.data / "verifying-4194305"  # by somebody who was killed; no process has that number
    left_behind.mkdir()
    client.close()
    gateway.restart()
    assert not left_behind.exists()
    client = Client(gateway, "1.2").connect()
    client.subscribe(f"/queue/{name}", "client-individual", **{"activemq.prefetchSize": "1000"})

    for path in (gateway.data / "index").iterdir():
        path.unlink()
    shutil.rmtree(gateway.data / "consumequeue")
    (made,) = _lines(_store(gateway, "rebuild"))
    assert made["records"] > COUNT / 2
    client.send(f"/queue/{name}", "after", keys="k3")
    for _ in range(COUNT - 100 + 1):
        client.ack(client.message())
    assert len(_lines(_store(gateway, "query", "--key", "k3", "--limit", "100"))) == COUNT // 10 + 1
    (summary,) = _lines(_store(gateway, "verify"))
    assert summary["findings"] == 0 and summary["entry_count"] > 0
    (copy,) = _lines(_store(gateway, "backup", str(tmp_path / "copy")))
    assert copy["linked_files"] > 0

    wrong = _store(gateway, "dump", "--from", "x")
    assert (wrong.returncode, "allowed is a whole number" in wrong.stderr) == (2, True)
    again = _store(gateway, "backup", str(tmp_path / "copy"))
    assert (again.returncode, "not empty" in again.stderr) == (1, True)
    client.close()
