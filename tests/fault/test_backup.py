"""A backup of the real process under load, restored: everything confirmed before it is there, exactly once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import configurations
from tests.support.gateway_process import ROOT, StartGateway
from tests.support.traffic import Consumer, Ledger, Producer, join

PROGRESS_LIMIT_S = 30.0


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
    command = [sys.executable, "-m", "gateway", "store", "backup", str(target), *source]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
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
