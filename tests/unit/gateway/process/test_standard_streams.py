"""Commands whose standard streams are closed, or whose locale lacks characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
COMPLETED = "import os, sys; from gateway.process import standard_streams; standard_streams.complete(); "
USED = (
    "print('out', flush=True); print('error', file=sys.stderr); sys.stdin.read(); "
    "sys.exit(open(os.devnull).fileno() if os.fstat(0) and os.fstat(1) and os.fstat(2) else 99)"
)


def _run(script: str, closing: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", f'exec "$@" {closing}', "bash", sys.executable, "-c", COMPLETED + script]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("closing", ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closing: str) -> None:
    done = _run(USED, closing)
    assert done.returncode == 3, done.stderr
    assert done.stdout == (b"" if ">&- " in f"{closing} ".replace("2>&-", "") else b"out\n")
    assert done.stderr == (b"" if "2>&-" in closing else b"error\n")


def test_a_character_that_the_locale_lacks_is_an_escape() -> None:
    done = _run(r"print('a \u00fc \udcff')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b"a \\xfc \\udcff\n")


def test_an_output_that_was_exchanged_for_a_pipe_stays_as_it_is(tmp_path: Path) -> None:
    imports = "import os; from gateway.process import standard_streams; "
    exchanged = "os.dup2(2, 1); standard_streams.complete(); print('out', flush=True)"
    with open(tmp_path / "file", "wb") as file:
        command = [sys.executable, "-c", imports + exchanged]
        done = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"out\n")
