"""The processes of a session, which a command with a JVM and workers leaves or does not leave."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.support.process.waiting import wait_until

ROOT: Final = Path(__file__).parents[3]
LIMIT_S: Final = 120


def command_of(process: int) -> bytes:
    """Return the command line of a process, nothing if it has just ended: short ones come and go as Spark starts."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def processes_of(session: int) -> list[int]:
    """Return the processes of a session that run."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(path.parent.name))
    return found


@contextmanager
def run_until(
    command: Sequence[str], directory: Path, has_come: Callable[[int], bool]
) -> Iterator[subprocess.Popen[str]]:
    """Yield a command in a session of its own once its moment has come; in the end the whole session is killed.

    directory: where it runs, and has its temporary files.  has_come: says of its session whether the moment has come.
    """
    run = subprocess.Popen(
        command,
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def is_there() -> bool:
        assert run.poll() is None
        return has_come(run.pid)

    try:
        wait_until(is_there, "the moment", LIMIT_S, 0.01)
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()  # otherwise its remains would be found in another test


def interrupt(command: Sequence[str], directory: Path, has_come: Callable[[int], bool]) -> None:
    """Interrupt a command as a terminal does; it ends with 130, without a traceback, and leaves no process."""
    with run_until(command, directory, has_come) as run:
        os.killpg(run.pid, signal.SIGINT)
        _, told = run.communicate(timeout=LIMIT_S)
        assert (run.returncode, "Traceback" in told) == (130, False), told
        # A JVM ends when its standard input does.
        wait_until(lambda: not processes_of(run.pid), "the end of its processes", LIMIT_S, 0.05)
