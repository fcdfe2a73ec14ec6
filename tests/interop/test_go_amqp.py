"""go-amqp, Azure's AMQP 1.0 client in Go, against the real process: one program runs all scenarios."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.process.gateway_process import GatewayProcess
from tests.support.process.scenarios import run_scenarios

PROJECT = Path(__file__).with_name("go")
SCENARIOS = tuple(re.findall(r'^\t"(\w+)": func', (PROJECT / "main.go").read_text(), re.MULTILINE))
LEAST_VERSION = (1, 18)
BUILD_LIMIT_S = 300
RUN_LIMIT_S = 200


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go on the PATH")
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < LEAST_VERSION:
        pytest.skip(f"needs Go {LEAST_VERSION[0]}.{LEAST_VERSION[1]} or newer, found {said.strip() or 'none'}")
    fetched = subprocess.run(
        [go, "mod", "download"], cwd=PROJECT, capture_output=True, timeout=BUILD_LIMIT_S, check=False
    )
    if fetched.returncode != 0:
        pytest.skip("Go could not bring go-amqp")
    program = tmp_path_factory.mktemp("go") / "scenarios"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return program


@pytest.fixture(scope="session")  # once a gateway: the scenarios leave messages behind
def outcomes(program: Path, shared_gateway: GatewayProcess) -> dict[str, str]:
    return run_scenarios([str(program), str(shared_gateway.stomp_port)], SCENARIOS, RUN_LIMIT_S)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""
