"""The processes of a session, which a command with a JVM and workers leaves or does not leave."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


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
