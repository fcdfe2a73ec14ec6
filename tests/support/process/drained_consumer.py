"""A consumer in another language that goes on while the gateway stops."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from typing import Final

from gateway.process import exit_codes
from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.waiting import wait_until

CONFIG: Final = "stop: {drain-time-ms: 10m}\n"
SENT: Final = 20


def taken_in_a_drain(command: Sequence[str], gateway: GatewayProcess, limit_s: float) -> int:
    """Return how many of its messages the scenario ``drained`` took before its connection ended.

    It says "ready" when it has the first one, waits for a line, and takes what it is given.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, "drained"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        gateway.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping: up to" in gateway.log.read_text(), "the stop waits")
        out, _ = process.communicate("\n", timeout=limit_s)
    finally:
        process.kill()
        process.communicate()
    assert gateway.wait() == exit_codes.OK
    assert "stopping: consumers hold nothing any more" in gateway.log.read_text()
    took, ok = out.splitlines()
    assert ok == "ok drained"
    return int(took.removeprefix("took "))


def left_after(gateway: GatewayProcess, queue: str) -> int:
    """Return how many messages the next start finds."""
    gateway.start()
    return next(int(one["depth"]) for one in gateway.get_json("/api/stat")["destinations"] if one["name"] == queue)
