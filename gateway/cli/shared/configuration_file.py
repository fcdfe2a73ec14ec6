"""New configuration files.  They may have verifiers, with which somebody could guess the passwords of users."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

READABLE: Final = 0o640  # at most


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet, for its owner and group alone.  Raises: OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, READABLE)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
