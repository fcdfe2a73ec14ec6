"""``penstock run`` with a time of day that stands in a file, so that an example makes a morning of messages in seconds.

    python -m examples.shared.clocked_gateway CLOCK run --data data ...

The file CLOCK holds milliseconds since 1970 as one whole number of eight octets.  The log's times are those; delays and
time limits pass as always.
"""

from __future__ import annotations

import argparse
import mmap
import sys
import time
from pathlib import Path

from engine.ports.clock import Clock
from gateway.cli import run
from gateway.cli.shared.parsers import CommandError


class FileClock(Clock):
    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            octets = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
        self._wall_ms = memoryview(octets).cast("q")

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return self._wall_ms[0]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("clock", type=Path)
    run.add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args()
    try:
        return run.run(arguments, clock=FileClock(arguments.clock))
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
