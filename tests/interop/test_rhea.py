"""rhea, the AMQP 1.0 client in JavaScript, against the real process: one Node process runs all scenarios."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.process.gateway_process import GatewayProcess, StartGateway
from tests.support.process.scenarios import run_scenarios

PROJECT = Path(__file__).with_name("javascript")
# ``reconnect``, which takes no client, is run by a test of its own.
SCENARIOS = tuple(re.findall(r"^  async (\w+)\(client", (PROJECT / "scenarios.js").read_text(), re.MULTILINE))
INSTALL_LIMIT_S = 300
RUN_LIMIT_S = 200


@pytest.fixture(scope="module")
def home(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the scenarios and the library."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm on the PATH")
    home = tmp_path_factory.mktemp("javascript")
    shutil.copytree(PROJECT, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund"],
        cwd=home,
        capture_output=True,
        timeout=INSTALL_LIMIT_S,
        check=False,
    )
    if installed.returncode != 0:
        pytest.skip("npm could not bring rhea")
    return home


@pytest.fixture(scope="module")
def outcomes(node: str, home: Path, shared_gateway: GatewayProcess) -> dict[str, str]:
    return run_scenarios([node, "scenarios.js", str(shared_gateway.stomp_port)], SCENARIOS, RUN_LIMIT_S, home)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""


def test_reconnect_after_kill_9(node: str, home: Path, start_gateway: StartGateway) -> None:
    gateway = start_gateway()
    port = gateway.stomp_port
    process = subprocess.Popen(
        [node, "scenarios.js", str(port), "reconnect"], cwd=home, stdout=subprocess.PIPE, text=True
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
