"""rhea, the AMQP 1.0 client in JavaScript, against the real process: one Node process runs all scenarios."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import JAVASCRIPT
from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.scenarios import run_scenarios

# ``reconnect``, which takes no client, is run by a test of its own.
SCENARIOS = tuple(re.findall(r"^  async (\w+)\(client", (JAVASCRIPT / "rhea.js").read_text(), re.MULTILINE))
RUN_LIMIT_S = 200


@pytest.fixture(scope="session")  # once a gateway: the scenarios leave messages behind
def outcomes(node: str, javascript: Path, shared_gateway: GatewayProcess) -> dict[str, str]:
    return run_scenarios([node, "rhea.js", str(shared_gateway.stomp_port)], SCENARIOS, RUN_LIMIT_S, javascript)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""


def test_reconnect_after_kill_9(node: str, javascript: Path, start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    port = gateway.stomp_port
    process = subprocess.Popen(
        [node, "rhea.js", str(port), "reconnect"], cwd=javascript, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        gateway.kill9()
        gateway.start(port)
        out, _ = process.communicate(timeout=RUN_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert out == "ok reconnect\n"
