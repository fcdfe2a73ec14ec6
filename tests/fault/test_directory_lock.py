"""Two gateways on one data directory: the second refuses and says who holds it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.process.gateway_process import ROOT, START_LIMIT_S, GatewayProcess

IN_USE = 3


def second_gateway(gateway: GatewayProcess) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gateway", "run", "--json", "--data", str(gateway.data)]
    command += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_LIMIT_S, check=False)


def test_second_gateway_refuses_and_names_the_first(gateway: GatewayProcess) -> None:
    refused = second_gateway(gateway)
    assert refused.returncode == IN_USE, refused.stderr
    assert str(gateway.pid) in refused.stderr
    assert refused.stdout == ""
    assert "Traceback" not in refused.stderr
    assert gateway.get("/healthz")[0] == 200


@pytest.mark.parametrize("end", [GatewayProcess.kill9, GatewayProcess.terminate])
def test_lock_ends_with_its_holder(end: object, gateway: GatewayProcess) -> None:
    assert end in (GatewayProcess.kill9, GatewayProcess.terminate)
    if end is GatewayProcess.kill9:
        gateway.kill9()
    else:
        assert gateway.terminate() == 0
    gateway.restart()
    assert gateway.get("/healthz")[0] == 200


def test_a_reader_in_another_pid_namespace_sees_that_the_gateway_runs(gateway: GatewayProcess) -> None:
    """It would take the store for a crashed one otherwise, and read what is not confirmed yet."""
    namespace = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a PID namespace")
    program = """
import sys
from engine.store.read.reader import StoreReader
print(StoreReader(sys.argv[1]).end().is_published)
"""
    for is_running in (True, False):
        if not is_running:
            gateway.kill9()
        command = [*namespace, sys.executable, "-c", program, str(gateway.data)]
        asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=START_LIMIT_S, check=True)
        assert asked.stdout.strip() == str(is_running)
