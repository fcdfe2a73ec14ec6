"""Processes of the gateway that fork from one which has imported it.

A start from the command line spends most of its processor time on imports, and the tests start hundreds of gateways.
Forked ones are processes like any other: with their own pid, environment, standard output and exit status.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from signal import Signals
from subprocess import TimeoutExpired
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[3]
PRELOADED: Final = "tests.support.process.preloaded"


class ForkedProcess:
    """``python -m module words``; has the methods of ``subprocess.Popen`` that the tests of gateways use."""

    def __init__(
        self, module: str, words: Sequence[str], environment: Mapping[str, str], log: Path, given: str = ""
    ) -> None:
        """log: gets what it writes to standard error.  given: its standard input."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        reader, writer = context.Pipe(duplex=False)
        # A daemon: the end of the tests ends it, too.
        self._process = context.Process(
            target=_run, args=(module, list(words), dict(environment), str(log), given, writer), daemon=True
        )
        self._process.start()
        writer.close()
        pid = self._process.pid
        assert pid is not None, "it has started"
        self.pid: Final = pid
        self.stdout: Final[IO[bytes]] = os.fdopen(os.dup(reader.fileno()), "rb", buffering=0)
        reader.close()

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            assert timeout is not None
            raise TimeoutExpired("a forked gateway", timeout)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(Signals.SIGKILL)


def _run(module: str, words: list[str], environment: dict[str, str], log: str, given: str, output: Connection) -> None:
    """Become what a start from the command line would be, and run the module."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(ROOT)
    with tempfile.TemporaryFile() as source:
        source.write(given.encode())
        source.seek(0)
        os.dup2(source.fileno(), 0)
    sys.stdin = os.fdopen(0, closefd=False)
    os.dup2(output.fileno(), 1)
    output.close()
    with open(log, "ab") as errors:
        os.dup2(errors.fileno(), 2)
    if environment.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    sys.argv[1:] = words
    runpy.run_module(module, run_name="__main__", alter_sys=True)
