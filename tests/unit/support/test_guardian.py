"""What a run of tests has started does not outlive it, however the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import guardian
from tests.support.process.waiting import wait_until

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.support.process import guardian


def pytest_configure():
    guardian.watch()
"""
# A process of each: the test's own, and one that a shell has left in the background.
TEST = """
import os, pathlib, subprocess, sys

HERE = pathlib.Path(__file__).parent


def started(number):
    subprocess.run(["sh", "-c", f"sleep 1000 & echo $! > {HERE}/{number}.shell"], check=True)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    (HERE / f"{number}.child").write_text(f"{child.pid}\\n")
    return child


def test_one():
    started(1).wait()


def test_two():
    started(2).wait()
"""


def pids(directory: Path, count: int) -> list[int]:
    """Return what was started, once that is ``count`` processes."""

    def found() -> list[int]:
        texts = [file.read_text() for name in ("shell", "child") for file in directory.glob(f"*.{name}")]
        return [int(text) for text in texts if text.endswith("\n")]

    wait_until(lambda: len(found()) == count, "the processes of the tests")
    return found()


def is_running(pid: int) -> bool:
    """A process that has ended and that nobody asks for its status is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def run(directory: Path, test: str, *options: str) -> subprocess.Popen[bytes]:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_started.py").write_text(test)
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *options, str(directory)]
    # Loading all installed plugins takes seconds in each process.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(("options", "count"), [([], 2), (["-n", "2"], 4)])
def test_of_a_run_that_is_killed(tmp_path: Path, options: list[str], count: int, number: signal.Signals) -> None:
    with run(tmp_path, TEST, *options) as tests:
        try:
            started = pids(tmp_path, count)
            assert all(map(is_running, started))
        finally:
            tests.send_signal(number)
    wait_until(lambda: not any(map(is_running, started)), "the end of all that the tests started")


def test_of_a_run_that_has_ended(tmp_path: Path) -> None:
    with run(tmp_path, TEST.replace(".wait()", ""), "-W", "ignore") as tests:
        started = pids(tmp_path, 4)
    assert tests.returncode == 0
    wait_until(lambda: not any(map(is_running, started)), "the end of all that the tests started")


def test_of_a_process_whose_environment_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    late = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    looks = iter([[], [late.pid]])
    monkeypatch.setattr(guardian, "started_by", lambda run: next(looks, []))
    monkeypatch.setattr(guardian, "LOOK_EVERY_S", 0)
    guardian.guard("a run", late.pid)
    assert late.wait() == -signal.SIGKILL
