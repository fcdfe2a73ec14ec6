"""The gateway as a service: what systemd, probes and collectors of logs see from its start to its end."""

from __future__ import annotations

import json
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

from gateway.cli import run
from tests.support.process.gateway_process import ROOT

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


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", "/bin/true"))
    done = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
