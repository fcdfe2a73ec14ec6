"""The command ``penstock``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.process import standard_streams
from gateway.process.exit_codes import INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    standard_streams.complete()
    try:
        from gateway.cli.dispatch import execute  # here, because Ctrl-C may come during it

        return execute(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
