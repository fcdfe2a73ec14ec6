"""The files of a lake, by their paths below it: all that exports and readers ask of a directory or an object store.

Paths have slashes and no ``..``.  Spark's workers get the object, and open what they need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_bridge.errors import LakeError


@dataclass(frozen=True, slots=True)
class FileStatus:
    bytes: int
    modified_ms: int


class OutputFile(ABC):
    """A file that is there when it is whole.  stream: a file of Arrow or Python that takes its octets."""

    stream: Any

    @abstractmethod
    def finish(self) -> int:
        """Give the file its name; return its octets.  From here on no crash and no power cut can take it back."""

    @abstractmethod
    def discard(self) -> None:
        """Remove what was written."""


class NewFiles(ABC):
    """Takes files that are written whole: all that a task of an export needs."""

    @abstractmethod
    def output(self, path: str) -> OutputFile:
        """Begin a file."""

    @abstractmethod
    def told(self, what: str) -> AbstractContextManager[None]:
        """Turn errors of the lake's machine into ones that say what could not be done."""


class LakeFiles(NewFiles):
    """title: for people, without credentials.  identity: what tells this lake from every other one.

    is_remote: reads are requests to another machine, so few and large ones are better.
    """

    title: str
    identity: str
    is_remote: bool

    @contextmanager
    def told(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise LakeError(f"cannot {what} in {self.title}: {self.reason(error)}") from None

    @abstractmethod
    def reason(self, error: OSError) -> str:
        """Return why an operation has failed, in words."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none if it is not there."""

    @abstractmethod
    def walk(self, folder: str) -> list[str]:
        """Return the paths of all files below a folder, name by name in order.

        Folders whose names begin with an underscore are left out.
        """

    @abstractmethod
    def status(self, path: str) -> FileStatus | None:
        """Return None if there is no such file."""

    @abstractmethod
    def open(self, path: str) -> pa.NativeFile:
        """Open a file to read any part of it.  Raises: FileNotFoundError."""

    def read(self, path: str) -> bytes:
        """Return the octets of a file.  Raises: FileNotFoundError."""
        with self.open(path) as source:
            octets: bytes = source.read()
            return octets

    @abstractmethod
    def write(self, path: str, octets: bytes) -> None:
        """Write a file whole, in place of an earlier one."""

    @abstractmethod
    def write_if_absent(self, path: str, octets: bytes) -> bool:
        """Write a file whole; return False, and change nothing, if others have made it.

        After any other error it is unknown whether the file is, or will be, there.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that are not there do not matter."""

    @abstractmethod
    def marks(self, path: str) -> set[str]:
        """Return what ``mark`` has noted at ``path``."""

    @abstractmethod
    def mark(self, path: str, text: str) -> None:
        """Note a word at ``path`` for good, beside those that are there."""

    @abstractmethod
    def hold(self, folder: str) -> AbstractContextManager[str]:
        """Prepare for an export whose own files are in ``folder``; yield a token that no export at another place has.

        If only one export can be at work here, all of them have the same.
        Raises: TargetError if there must be none now.
        """

    @abstractmethod
    def narrow(self, folder: str, exported: Callable[[], Iterable[str]]) -> None:
        """Take away rights that an older build gave to everybody.  exported: the paths of all exported files."""
