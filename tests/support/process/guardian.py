"""Kills the remaining processes of a run of tests, once the run is gone.

A killed run, or a killed worker of a parallel one, tears no fixture down, and its gateways would stay.  All processes
that it starts, directly or not, inherit an environment variable, by which the guardian, a separate process, finds them.
Workers of a parallel run inherit that of the run, and pass on one of their own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Final

VARIABLE: Final = "PENSTOCK_TEST_RUN"
PROCESSES: Final = Path("/proc")  # without it, no process can be found
LOOKS: Final = 20  # without a find, before the guardian ends: a process in the midst of exec has no environment yet
LOOK_EVERY_S: Final = 0.1
_GUARDIANS: Final[list[subprocess.Popen[bytes]]] = []  # kept while this process lives


def watch() -> None:
    """Have all later child processes killed once this process has ended in any way."""
    if not PROCESSES.is_dir():
        return
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    os.environ[VARIABLE] = run = uuid.uuid4().hex
    command = [sys.executable, "-I", "-S", __file__, run, str(os.getpid())]
    # In a session of its own it does not get the Ctrl-C that interrupts the run.
    guardian = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    _GUARDIANS.append(guardian)


def started_by(run: str) -> list[int]:
    """Return the processes that inherited ``run``."""
    wanted = f"{VARIABLE}={run}".encode()
    found: list[int] = []
    for place in PROCESSES.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def guard(run: str, process: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        watched = os.pidfd_open(process)
        if os.getppid() == process:
            select.select([watched], [], [])
    looks_left = LOOKS
    while looks_left:
        looks_left -= 1
        for pid in started_by(run):
            looks_left = LOOKS
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    guard(sys.argv[1], int(sys.argv[2]))
