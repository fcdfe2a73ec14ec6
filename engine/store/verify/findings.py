"""Findings of a verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

FINDINGS_MAX: Final = 100  # after so many the rest is not looked at

Note = Callable[[str, int, str], None]  # path, position in the file, -1 for no single place, and what is wrong


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be.  position: in the file, in octets; -1 if it is about no single place."""

    path: str
    position: int
    text: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.text}" if self.position < 0 else f"{self.path}, position {self.position}: {self.text}"
        )


@dataclass(slots=True)
class Verification:
    """The extent of a verification.

    end_offset: just past the last record that counts.  is_torn: something that is none follows, where nothing was
    durable yet: no finding, the next start cuts it.
    """

    findings: list[Finding] = field(default_factory=list)
    segment_count: int = 0
    record_count: int = 0
    message_count: int = 0
    entry_count: int = 0
    index_entry_count: int = 0
    end_offset: int = 0
    is_torn: bool = False

    def note(self, path: str, position: int, text: str) -> None:
        """Take a finding.  Raises: TooMany."""
        self.findings.append(Finding(path, position, text))
        if len(self.findings) >= FINDINGS_MAX:
            raise TooMany


class TooMany(Exception):
    """Internal: FINDINGS_MAX findings are enough."""


class Broken(Exception):
    """Internal: what is at ``offset`` is no record that may be there."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
