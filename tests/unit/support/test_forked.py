"""A forked process is to a test what one from the command line is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.process import guardian
from tests.support.process.forked import ForkedProcess

ROOT = Path(__file__).parents[3]
LIMIT_S = 60.0


@contextmanager
def forked(log: Path, *words: str, **environment: str) -> Iterator[ForkedProcess]:
    process = ForkedProcess("gateway", words, {**os.environ, **environment}, log)
    yield process
    process.kill()
    process.wait(LIMIT_S)
    process.stdout.close()


def serving(directory: Path) -> tuple[str, ...]:
    return ("run", "--data", str(directory / "data"), "--stomp", "tcp://127.0.0.1:0", "--http", "http://127.0.0.1:0")


@pytest.mark.parametrize("words", [("--version",), ("help",), ("run", "--no-such-flag"), ("stat", "--http", "nowhere")])
def test_it_says_and_returns_what_one_from_the_command_line_does(tmp_path: Path, words: tuple[str, ...]) -> None:
    cold = subprocess.run([sys.executable, "-m", "gateway", *words], cwd=ROOT, capture_output=True, check=False)
    with forked(tmp_path / "log", *words) as process:
        said = process.stdout.read()
        assert process.wait(LIMIT_S) == cold.returncode
    assert said == cold.stdout
    assert (tmp_path / "log").read_bytes() == cold.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_ends_it(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with forked(tmp_path / "log", *serving(tmp_path)) as process:
        assert process.stdout.readline().startswith(f"Penstock is running, pid {process.pid},".encode())
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == status
        assert process.poll() == status


def test_its_faults_are_told_where_the_environment_says(tmp_path: Path) -> None:
    with forked(tmp_path / "log", *serving(tmp_path), PYTHONFAULTHANDLER="1") as process:
        process.stdout.readline()
        process.send_signal(signal.SIGABRT)
        assert process.wait(LIMIT_S) == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in (tmp_path / "log").read_text()


@pytest.mark.skipif(not guardian.PROCESSES.is_dir(), reason="needs /proc")
def test_the_guardian_knows_it(tmp_path: Path) -> None:
    with forked(tmp_path / "log", *serving(tmp_path)) as process:
        process.stdout.readline()  # a store that is half made has no checkpoint yet
        assert process.pid in guardian.started_by(os.environ[guardian.VARIABLE])
