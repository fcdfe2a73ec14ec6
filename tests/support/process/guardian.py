"""Kills what a run of tests has started and left, once the run is gone.

A run that is killed, or a worker of a parallel one, tears no fixture down, and its gateways would stay.  What it starts
inherits a variable of its environment, by which the guardian, a process of its own, finds it; so does what that starts.
Workers of a parallel run inherit that of the run, and hand on one of their own.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

VARIABLE: Final = "PENSTOCK_TEST_RUN"
PROCESSES: Final = Path("/proc")  # where there is none, nothing can be found
_GUARDIANS: Final[list[subprocess.Popen[bytes]]] = []  # for as long as this process lives


def watch() -> None:
    """Have all that this process starts from now on killed when it has ended, in whatever way."""
    if not PROCESSES.is_dir():
        return
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    os.environ[VARIABLE] = run = uuid.uuid4().hex
    command = [sys.executable, "-I", "-S", __file__, run, str(os.getpid())]
    # In a session of its own it does not hear the key that interrupts the run.
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
    while found := started_by(run):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    guard(sys.argv[1], int(sys.argv[2]))
