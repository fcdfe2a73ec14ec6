"""The files that make up a copy of a store; all others are made again from them, or belong to its directory alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from engine.store.log.checkpoint import FILE_NAME as CHECKPOINT_FILE
from engine.store.log.store_directory import LOG_DIRECTORY, QUEUE_DIRECTORY, STORE_FILE

COPIED: Final = re.compile(
    r"store\.json|checkpoint|commitlog/[0-9]{1,20}\.log|consumequeue/[0-9]{1,20}/[0-9]{1,20}/[0-9]{1,20}\.cq"
)
FoundFile = tuple[str, os.stat_result]  # by its path in the store


def copied_files(directory: Path) -> Iterator[FoundFile]:
    """Yield all of them."""
    yield from _found(directory, (STORE_FILE, CHECKPOINT_FILE))
    yield from log_files(directory)
    yield from queue_files(directory)


def log_files(directory: Path) -> Iterator[FoundFile]:
    """Yield the segments, in the order of the log."""
    return _found(directory, _paths(directory, LOG_DIRECTORY))


def queue_files(directory: Path) -> Iterator[FoundFile]:
    """Yield the files of consume queues, those of each folder together."""
    for destination in _paths(directory, QUEUE_DIRECTORY):
        for lane in _paths(directory, destination):
            yield from _found(directory, _paths(directory, lane))


def _paths(directory: Path, folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(directory / folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _found(directory: Path, paths: Iterable[str]) -> Iterator[FoundFile]:
    for path in paths:
        if COPIED.fullmatch(path):
            try:
                yield path, os.stat(directory / path)
            except FileNotFoundError:
                continue  # retention has dropped it meanwhile
