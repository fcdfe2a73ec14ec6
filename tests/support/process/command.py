"""``penstock`` with any command, run to its end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from subprocess import CompletedProcess
from threading import Timer
from typing import Final

from tests.support.process.forked import ForkedProcess

LIMIT_S: Final = 120.0


def penstock(*words: str, given: str = "", **environment: str) -> CompletedProcess[str]:
    """Run a command; return its exit status and what it wrote.

    given: its standard input.  environment: what is added to that of the tests.
    """
    with tempfile.TemporaryDirectory() as directory:
        errors = Path(directory) / "errors"
        process = ForkedProcess("gateway", words, {**os.environ, **environment}, errors, given)
        limit = Timer(LIMIT_S, process.kill)
        limit.start()
        with process.stdout:
            output = process.stdout.read().decode()
        status = process.wait(LIMIT_S)
        limit.cancel()
        return CompletedProcess(words, status, output, errors.read_text())


def answer(*words: str, given: str = "", **environment: str) -> str:
    """Run a command that succeeds; return its standard output."""
    done = penstock(*words, given=given, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
