"""A backup of the real process under load, restored: everything confirmed before it is there, exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from os import urandom
from pathlib import Path
from typing import Any

import pytest

from engine.store.log.store_directory import LOG_DIRECTORY
from gateway.process.exit_codes import FAILED
from protocols.stomp.codec.frames import SEND
from tests.support.config import configurations
from tests.support.process import raw_stomp
from tests.support.process.command import answer, penstock
from tests.support.process.gateway_process import StartGateway
from tests.support.process.traffic import Consumer, Ledger, Producer, join
from tests.support.process.waiting import wait_until

PROGRESS_LIMIT_S = 60.0
LIMIT_KIB = 500
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("way", ["of the directory", "over HTTP"])
def test_backup_under_load(start_gateway: StartGateway, unique: Callable[[str], str], tmp_path: Path, way: str) -> None:
    destination = f"/queue/{unique('backup')}"
    gateway = start_gateway(configurations.small_segments())
    ledger = Ledger()
    producer = Producer(gateway, destination, ledger)
    consumer = Consumer(gateway, destination, ledger)
    with ledger.changed:
        assert ledger.changed.wait_for(
            lambda: len(ledger.confirmed) > 6_000 and len(ledger.settled) > 1_000, PROGRESS_LIMIT_S
        )
        confirmed, settled = set(ledger.confirmed), set(ledger.settled)
    target = tmp_path / "backup"
    source = ["--http", gateway.http_url] if way == "over HTTP" else ["--data", str(gateway.data)]
    made = penstock("store", "backup", str(target), *source)
    assert (made.returncode, made.stderr) == (0, "")
    assert f"{target}: everything up to log offset" in made.stdout
    with ledger.changed:
        more = len(ledger.confirmed) + 2_000
        assert ledger.changed.wait_for(lambda: len(ledger.confirmed) > more, PROGRESS_LIMIT_S), "the load goes on"
    gateway.kill9()
    join(producer)
    join(consumer)
    later = {number for number in ledger.confirmed if number > max(confirmed) + 10_000}

    restored = start_gateway(configurations.small_segments(), target)
    found = Ledger()
    found.next_number = ledger.next_number
    join(Producer(restored, destination, found, count=1))
    last = found.next_number - 1
    join(Consumer(restored, destination, found, until=last), limit_s=120.0)
    assert not found.violations, "; ".join(found.violations[:5])
    lacking = confirmed - found.delivered - ledger.ack_sent
    assert not lacking, f"confirmed before the backup and not in it: {sorted(lacking)[:10]} of {len(lacking)}"
    back = settled & found.delivered
    assert not back, f"settled before the backup and back in it: {sorted(back)[:10]} of {len(back)}"
    assert len(found.delivered & later) < len(later) or not later, "the backup ends where it was made"


def test_a_file_that_takes_a_part_of_a_write_ends_a_backup_with_its_name(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    gateway = start_gateway()
    answer("send", "orders", "x" * 1_000_000, "--url", f"tcp://127.0.0.1:{gateway.stomp_port}")
    target = tmp_path / "backup"
    limited = f"ulimit -f {LIMIT_KIB} && exec {sys.executable} -m gateway store backup {target} --data {gateway.data}"
    done = subprocess.run(["bash", "-c", limited], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == FAILED, done.stdout
    assert "File too large" in done.stderr and f"{target}.making/{LOG_DIRECTORY}/" in done.stderr
    assert not list(tmp_path.glob("backup*"))


def test_a_full_disk_ends_a_backup_and_an_export_with_the_file(
    start_gateway: StartGateway, mount_tmpfs: Callable[[str], Path]
) -> None:
    gateway = start_gateway()
    answer("send", "orders", urandom(600_000).hex(), "--url", f"tcp://127.0.0.1:{gateway.stomp_port}")
    small_disk = mount_tmpfs("size=256k")
    for source in (["--data", str(gateway.data)], ["--http", gateway.http_url]):
        done = penstock("store", "backup", str(small_disk / "backup"), *source)
        assert done.returncode == FAILED
        assert "No space left on device" in done.stderr
        assert f"{small_disk}/backup.making/{LOG_DIRECTORY}/" in done.stderr
    lake = small_disk / "lake"
    done = penstock(
        *("export", "--data", str(gateway.data), "--destination", "orders", "--to", str(lake), "--master", "none")
    )
    assert done.returncode == FAILED
    assert "No space left on device" in done.stderr and ".parquet" in done.stderr and str(lake) in done.stderr
    assert not list(lake.rglob("*.tmp"))


def test_a_backup_with_a_schedule_fires_what_was_pending_once(
    start_gateway: StartGateway, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("due")
    gateway = start_gateway(configurations.small_segments())
    client = raw_stomp.client(gateway)
    for number in range(200):
        headers = [("destination", f"/queue/{name}"), ("receipt", str(number)), ("persistent", "true")]
        # Some fire before the backup, some after it, the last two are cancelled before and after it.
        delay_ms = 3_600_000 if number >= 198 else number * 40 + 1
        client.send(SEND, [*headers, ("AMQ_SCHEDULED_DELAY", str(delay_ms))], b"%d" % number)
    client.flush()
    for _ in range(200):
        client.next_frame()
    client.close()
    before, after = [one["id"] for one in gateway.get_json("/api/schedule?limit=200")["schedules"]][-2:]
    answer("schedule", "cancel", before, "--http", gateway.http_url)
    target = tmp_path / "backup"
    answer("store", "backup", str(target), "--http", gateway.http_url)
    pending = {one["id"] for one in listed("--data", str(target))}
    assert after in pending
    assert before not in pending
    answer("schedule", "cancel", after, "--http", gateway.http_url)
    gateway.kill9()

    restored = start_gateway(configurations.small_segments(), target)
    assert {one["id"] for one in listed("--http", restored.http_url)} <= pending
    wait_until(lambda: restored.get_json("/api/schedule")["pending"] == 1, "all but the last one to fire", 60)
    consumer = raw_stomp.client(restored)
    raw_stomp.subscribe(consumer, f"/queue/{name}", prefetch=1_000)
    bodies = [int(raw_stomp.message(consumer).body) for _ in range(198)]
    consumer.close()
    assert bodies == list(range(198))


def listed(*words: str) -> list[dict[str, Any]]:
    found = json.loads(answer("schedule", "list", "--json", "--limit", "1000", *words))["schedules"]
    assert isinstance(found, list)
    return found
