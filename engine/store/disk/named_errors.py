"""Errors of the system that name their file: one about an open file, as of a write to a full disk, names none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raises: OSError of what is inside, with ``path`` if it names no other file."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
