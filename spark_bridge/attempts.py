"""Files of ranges that are not committed yet: how they stay apart from those that readers see.

In a directory they are in a folder of the attempt, and the commit moves them.  In an object store nothing can be moved,
so they are in their places, under names with the token of the attempt, and readers take only what the Delta log names.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from spark_bridge.files.lake_files import LakeFiles, NewFiles
from spark_bridge.files.local import LocalFiles
from spark_bridge.manifests import FOLDER, STAGING

FOLDER_OF_ALL: Final = f"{FOLDER}/{STAGING}"
NAME: Final = re.compile(r"(\d{8})-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One for a range.  name: in its manifest.  files: where its tasks write.  suffix: of the names of their files."""

    name: str
    files: NewFiles
    suffix: str


def number_of(name: str) -> int:
    """Return the number of the range."""
    return int(name[:8])


def attempts_in(files: LakeFiles) -> list[str]:
    """Return the names of attempts, without what file systems put beside them."""
    return [name for name in files.names(FOLDER_OF_ALL) if NAME.fullmatch(name)]


class Attempts(ABC):
    """is_sole: whoever holds the target knows that no other attempt is alive."""

    is_sole: bool

    @abstractmethod
    def names(self) -> list[str]:
        """Return the attempts that have not ended, in the order of their ranges."""

    def begin(self, number: int) -> Attempt:
        """Begin an attempt."""
        return self._begun(f"{number:08}-{token_hex(4)}")

    @abstractmethod
    def _begun(self, name: str) -> Attempt: ...

    @abstractmethod
    def seal(self, name: str) -> None:
        """Make sure that all files of an attempt survive a power cut."""

    @abstractmethod
    def place(self, name: str, paths: Sequence[str]) -> None:
        """Put the files of a committed attempt in their places; those that are there already are left alone."""

    @abstractmethod
    def end(self, name: str) -> None:
        """Forget an attempt whose files are in their places."""

    @abstractmethod
    def give_up(self, name: str) -> None:
        """Delete the files of an attempt that failed."""

    def discard(self, name: str) -> None:
        """Forget an attempt that cannot be committed any more, and its files."""
        self.give_up(name)
        self.end(name)


def attempts_of(files: LakeFiles) -> Attempts:
    return StagedAttempts(files) if isinstance(files, LocalFiles) else NamedAttempts(files)


class StagedAttempts(Attempts):
    """Each in a folder of its own."""

    is_sole = True

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    def names(self) -> list[str]:
        return attempts_in(self._files)

    def _begun(self, name: str) -> Attempt:
        return Attempt(name, self._files.below(f"{FOLDER_OF_ALL}/{name}"), "")

    def seal(self, name: str) -> None:
        self._files.below(f"{FOLDER_OF_ALL}/{name}").sync_folders()

    def place(self, name: str, paths: Sequence[str]) -> None:
        self._files.move(self._files.below(f"{FOLDER_OF_ALL}/{name}"), paths)

    def end(self, name: str) -> None:
        self._files.delete_folder(f"{FOLDER_OF_ALL}/{name}")

    def give_up(self, name: str) -> None:
        self.end(name)


class NamedAttempts(Attempts):
    """Each has an object, which says that files with its token may be there."""

    is_sole = False

    def __init__(self, files: LakeFiles) -> None:
        self._files = files

    def names(self) -> list[str]:
        return attempts_in(self._files)

    def _begun(self, name: str) -> Attempt:
        self._files.write(f"{FOLDER_OF_ALL}/{name}", b"")
        return Attempt(name, self._files, f"-{name}")

    def seal(self, name: str) -> None:
        pass

    def place(self, name: str, paths: Sequence[str]) -> None:
        pass

    def end(self, name: str) -> None:
        self._files.delete([f"{FOLDER_OF_ALL}/{name}"])

    def give_up(self, name: str) -> None:
        """Its object stays for now: tasks of a failed Spark may write on for a moment."""
        self._files.delete(path for path in self._files.walk("") if path.endswith(f"-{name}.parquet"))
