"""A target that nothing is written to: an export to it counts what it would add.

The tasks do all their work, also the encoding, so the sizes and the damage are those of the export.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pyarrow as pa

from spark_bridge.attempts import Attempt
from spark_bridge.files.lake_files import NewFiles, OutputFile
from spark_bridge.manifests import Manifest
from spark_bridge.target import Target


class Rehearsal(Target):
    """The state of a target, without what an export that was killed has left to do."""

    @contextmanager
    def hold(self) -> Iterator[str]:
        """Let others export meanwhile."""
        yield ""

    @contextmanager
    def attempt(self, number: int) -> Iterator[Attempt]:
        """Yield an attempt whose files are counted only."""
        yield Attempt("", CountedFiles(), "")

    def commit(self, manifest: Manifest) -> str:
        """Add nothing."""
        return ""


class CountedFiles(NewFiles):
    """Takes files and keeps their sizes only."""

    def output(self, path: str) -> OutputFile:
        return _CountedOutput()

    def told(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()


class _CountedOutput(OutputFile):
    def __init__(self) -> None:
        self.stream = pa.MockOutputStream()

    def finish(self) -> int:
        return int(self.stream.size())

    def discard(self) -> None:
        pass
