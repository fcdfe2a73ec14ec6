"""The command ``penstock``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.  Ctrl-C may also come while modules are loaded, so all are loaded here."""
    words = sys.argv[1:] if argv is None else list(argv)
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


if __name__ == "__main__":
    sys.exit(main())
