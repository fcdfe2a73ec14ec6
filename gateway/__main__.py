"""The command ``penstock``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.cli.dispatch import execute


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    return execute(sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
