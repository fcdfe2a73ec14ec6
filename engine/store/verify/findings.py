"""Findings of a verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

FINDINGS_MAX: Final = 100  # then the verification stops

Note = Callable[[str, int, str], None]  # path, position in the file, -1 for no single place, and what is wrong


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.  position: in the file, in octets; -1 if it concerns no single place."""

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

    end_offset: just past the last valid record.  is_torn: invalid octets follow where nothing was durable yet; that is
    no finding, as the next start cuts them.
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
        """Add a finding.  Raises: TooMany."""
        self.findings.append(Finding(path, position, text))
        if len(self.findings) >= FINDINGS_MAX:
            raise TooMany


class TooMany(Exception):
    """Internal: FINDINGS_MAX findings are enough."""


class Broken(Exception):
    """Internal: there is no valid record at ``offset``."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
