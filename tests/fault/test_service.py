"""The gateway as a service: what systemd, probes and collectors of logs see from its start to its end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from argparse import ArgumentParser
from configparser import RawConfigParser
from pathlib import Path

import pytest

from config.model import ServerConfig
from gateway.app import DISK_PATIENCE_S, STOP_PATIENCE_S
from gateway.cli import run
from gateway.process.request_threads import THREADS_PATIENCE_S
from gateway.web.server import STOP_TIME_S
from tests.support.process.gateway_process import ROOT, StartGateway
from tests.support.process.waiting import wait_until

UNIT = ROOT / "examples" / "penstock.service"
LIMIT_S = 60.0


def test_from_start_to_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(LIMIT_S)
        command = [sys.executable, "-m", "gateway", "run", "--json", "--log-format", "json", "--data", "data"]
        command += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
        environment = {"NOTIFY_SOCKET": "notify", "WATCHDOG_USEC": "60000000", "PYTHONPATH": str(ROOT)}
        log = tmp_path / "log"
        with (
            log.open("wb") as lines,
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=lines) as gateway,
        ):
            try:
                assert gateway.stdout is not None
                listeners = json.loads(gateway.stdout.readline())["listeners"]
                states = [manager.recv(100)]
                while b"READY=1" not in states:
                    states.append(manager.recv(100))
                for path in ("livez", "readyz", "healthz"):
                    with urllib.request.urlopen(f"{listeners['http']}/{path}", timeout=LIMIT_S) as response:
                        assert (response.status, response.read()) == (200, b"ok\n")
                while states.count(b"WATCHDOG=1") < 2:
                    states.append(manager.recv(100))
                gateway.send_signal(signal.SIGTERM)
                while states[-1] != b"STOPPING=1":
                    states.append(manager.recv(100))
                assert gateway.wait(LIMIT_S) == 0
            finally:
                gateway.kill()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(entry["level"], entry["logger"], entry["message"]) for entry in entries] == [
        ("INFO", "penstock", "stopping")
    ], "a new store has nothing to warn of"


@pytest.mark.parametrize("closing", ["<&-", "2>&-"])
def test_a_starter_may_have_closed_the_standard_streams(tmp_path: Path, closing: str) -> None:
    """Otherwise the next file gets their number, and libuv aborts the process when it closes it."""
    words = [sys.executable, "-m", "gateway", "run", "--json", "--data", "data"]
    words += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
    with subprocess.Popen(
        ["bash", "-c", f'exec "$@" {closing}', "bash", *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
    ) as gateway:
        try:
            assert gateway.stdout is not None and json.loads(gateway.stdout.readline())["pid"] == gateway.pid
            for number in ("0", "2"):
                assert os.readlink(f"/proc/{gateway.pid}/fd/{number}").startswith(("/", "pipe:"))
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(LIMIT_S) == 0
        finally:
            gateway.kill()


def test_clients_that_come_while_it_restarts_wait_for_it(tmp_path: Path) -> None:
    """The sockets are passed as systemd does: from descriptor 3 on, with the number of the process."""
    with socket.create_server(("127.0.0.1", 0)) as stomp:
        port = stomp.getsockname()[1]
        words = [sys.executable, "-m", "gateway", "run", "--json", "--data", "data"]
        words += ["--stomp", f"tcp://127.0.0.1:{port}", "--http", "http://127.0.0.1:0"]
        activated = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{stomp.fileno()}'
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:  # the gateway does not run
                client.sendall(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
                with subprocess.Popen(
                    ["bash", "-c", activated, "bash", *words],
                    cwd=tmp_path,
                    env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[stomp.fileno()],
                ) as gateway:
                    try:
                        assert gateway.stdout is not None and gateway.stderr is not None
                        described = gateway.stdout.readline()
                        assert described, gateway.stderr.read()
                        assert json.loads(described)["listeners"]["stomp"] == f"tcp://127.0.0.1:{port}"
                        client.settimeout(LIMIT_S)
                        assert client.recv(9) == b"CONNECTED"
                        gateway.send_signal(signal.SIGTERM)
                        assert gateway.wait(LIMIT_S) == 0
                    finally:
                        gateway.kill()


def test_a_passed_socket_of_no_listener_is_an_error_of_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        words = [sys.executable, "-m", "gateway", "run", "--data", str(tmp_path / "data")]
        words += ["--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0"]
        activated = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3<&{other.fileno()}'
        done = subprocess.run(
            ["bash", "-c", activated, "bash", *words],
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
            capture_output=True,
            pass_fds=[other.fileno()],
            timeout=LIMIT_S,
            check=False,
            text=True,
        )
        address = f"127.0.0.1:{other.getsockname()[1]}"
    assert (done.returncode, done.stdout) == (1, "")
    assert f"passes a socket of {address}, which is the address of no listener" in done.stderr


def test_the_sockets_are_those_of_the_default_listeners() -> None:
    unit = [line.partition("=") for line in (ROOT / "examples" / "penstock.socket").read_text().splitlines()]
    addresses = [value for key, _, value in unit if key == "ListenStream"]
    listeners = ServerConfig().listeners
    assert addresses == [f"{one.host}:{one.port}" for one in (listeners.stomp, listeners.http)]


def test_the_unit_starts_what_there_is() -> None:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert program.endswith("/bin/penstock")
    parser = ArgumentParser()
    run.add_parser(parser.add_subparsers(dest="command"))
    parsed = parser.parse_args(arguments)
    assert (parsed.command, parsed.log_format) == ("run", "json")


def test_the_service_managers_wait_longer_than_a_stop_may_take() -> None:
    longest_s = (
        ServerConfig().stop.drain_time_ms / 1000
        + STOP_PATIENCE_S
        + STOP_TIME_S
        + 2 * DISK_PATIENCE_S
        + THREADS_PATIENCE_S
    )
    limits = [r"TimeoutStopSec=(\d+)s\n", r"terminationGracePeriodSeconds: (\d+)\b", r"--stop-timeout (\d+)\b"]
    texts = [UNIT, ROOT / "examples/kubernetes/penstock.yaml", ROOT / "docs/how-to/containers.md"]
    for text, limit in zip(texts, limits, strict=True):
        found = re.search(limit, text.read_text())
        assert found is not None and int(found[1]) > longest_s, text


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", "/bin/true"))
    sockets = Path(shutil.copy(UNIT.with_suffix(".socket"), tmp_path))
    done = subprocess.run(
        [analyze, "verify", "--man=no", str(unit), str(sockets)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_hang_up_while_it_opens_its_store_is_a_reload_later(start_gateway: StartGateway) -> None:
    gateway = start_gateway(module="tests.support.process.hung_up_gateway")
    told = "configuration: read again for SIGHUP: nothing has changed"
    wait_until(lambda: told in gateway.log.read_text(), "the reload")
    assert gateway.get("/healthz")[0] == 200
