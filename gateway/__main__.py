"""The command ``penstock``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.  Ctrl-C may also come while modules are loaded, so all are loaded here."""
    words = sys.argv[1:] if argv is None else list(argv)
    if os.getpid() == 1:  # of a container: there the system drops a signal that has no handler
        signal.signal(signal.SIGTERM, _end)
    if words[:1] == ["run"]:
        # It has not read its configuration yet, so nothing is to be read again; EarlyHangUp follows.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from gateway.process import standard_streams

        standard_streams.complete()
        from gateway.cli.dispatch import execute

        return execute(words)
    except KeyboardInterrupt:
        from gateway.process.exit_codes import INTERRUPTED

        return INTERRUPTED


def _end(number: int, frame: FrameType | None) -> None:
    """End at once, as the signal does to any other process; a gateway that has started stops in order instead."""
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
