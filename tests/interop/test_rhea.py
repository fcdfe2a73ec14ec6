"""rhea, the AMQP 1.0 client in JavaScript, against the real process: one Node process runs all scenarios."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess

PROJECT = Path(__file__).with_name("javascript")
SCENARIOS = tuple(re.findall(r"^  async (\w+)\(client", (PROJECT / "scenarios.js").read_text(), re.MULTILINE))
INSTALL_LIMIT_S = 300
RUN_LIMIT_S = 200


@pytest.fixture(scope="module")
def outcomes(node: str, shared_gateway: GatewayProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of each scenario, "" for one that went well."""
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
    done = subprocess.run(
        [node, "scenarios.js", str(shared_gateway.stomp_port), *SCENARIOS],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    outcomes: dict[str, str] = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ok", "failed"):
            name, _, why = rest.partition(": ")
            outcomes[name] = why if word == "failed" else ""
    assert set(outcomes) == set(SCENARIOS), done.stdout[-2000:] + done.stderr[-2000:]
    return outcomes


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""
